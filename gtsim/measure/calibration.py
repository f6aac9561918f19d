"""validation/calibration.toml: the constants that come from us, checked, and compared with the hardware files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import UsageError
from ..files import write_text
from ..hwconfigs import list_hardware, load_hardware

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: How the comment of a line in a hardware file begins whose value stands in the calibration file.
OWN_MARKS = ("calibrated", "ptxas 13.0 stall count")
CARRIED_MARK = "assumed: as calibrated on"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rows(_Table):
    """Measured rows that a constant saw."""

    file: str = Field(pattern=r"\.csv$")
    op: str
    cases: tuple[str, ...] = Field(min_length=1)


class Constant(_Table):
    """A constant in use; see the head of the file for what the fields mean."""

    key: str
    hardware: tuple[str, ...] = Field(min_length=1)
    carried_to: tuple[str, ...] = ()
    value: float
    spread: float = Field(ge=0)
    spread_of: str = Field(min_length=1)
    source: Literal["measured kernels", "compiled code"]
    method: str = Field(min_length=1)
    rows: tuple[Rows, ...] = ()

    @model_validator(mode="after")
    def _rows_if_measured(self) -> Constant:
        if bool(self.rows) != (self.source == "measured kernels"):
            raise ValueError(f"{self.key}: rows are what a constant from measured kernels saw, and only that")
        return self


class Measured(_Table):
    """A candidate from the microbenchmarks; `spread` is p10 to p90 in the unit of the key."""

    key: str
    constant: str
    value: float
    unit: str
    spread: float = Field(ge=0)
    samples: int = Field(ge=1)
    gpu: str
    clock_mhz: float = Field(gt=0)
    source: str


class Calibration(_Table):
    """The whole file."""

    constant: tuple[Constant, ...] = ()
    measured: tuple[Measured, ...] = ()

    def value_of(self, hardware: str, key: str) -> float | None:
        """The value that a file must have; None if the key does not come from us there."""
        for constant in self.constant:
            if constant.key == key and hardware in (*constant.hardware, *constant.carried_to):
                return constant.value
        return None


def load_calibration(path: Path) -> Calibration:
    """Read and check a calibration file. Raises UsageError naming the place and what is wrong."""
    try:
        return Calibration.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {place}: {first['msg'].removeprefix('Value error, ')}") from None


def differences(calibration: Calibration) -> list[str]:
    """Where the hardware files and the calibration file do not say the same, one line each."""
    out: list[str] = []
    stated = {(name, c.key): mark for c in calibration.constant for names, mark in ((c.hardware, OWN_MARKS), (c.carried_to,
              (CARRIED_MARK,))) for name in names}  # fmt: skip
    seen: set[tuple[str, str]] = set()
    for name in list_hardware():
        gpu = load_hardware(name)
        for key, value in gpu.flat().items():
            comment = gpu.source_comment(key)
            if not comment.startswith((*OWN_MARKS, CARRIED_MARK)):
                continue
            seen.add((name, key))
            want = calibration.value_of(name, key)
            if want is None:
                out.append(f"{name}: {key} = {value:g} is marked {comment[:24]!r} and does not stand in the calibration file")
            elif want != value:
                out.append(f"{name}: {key} = {value:g}, the calibration file has {want:g}")
            elif not comment.startswith(stated[name, key]):
                out.append(f"{name}: {key} is marked {comment[:24]!r}, the calibration file says otherwise")
    lost = [place for place in stated if place not in seen]
    return out + [f"{name}: {key} stands in the calibration file and is not marked so" for name, key in lost]


def with_measured(text: str, found: Sequence[Measured]) -> str:
    """A calibration file's text with these candidates in place of older ones of the same constant and GPU."""
    lines, kept, skip = text.splitlines(), list[str](), False
    again = {(m.constant, m.gpu) for m in found}
    for start, line in enumerate(lines):
        if line.startswith("[["):
            skip = line.strip() == "[[measured]]" and _names(lines[start + 1:]) in again
        if not skip:
            kept.append(line)
    while kept and not kept[-1].strip():
        kept.pop()
    for m in found:
        kept += ["", "[[measured]]", *(f"{name} = {_toml(value)}" for name, value in m.model_dump().items())]
    return "\n".join(kept) + "\n"


def add_measured(path: Path, found: Sequence[Measured]) -> None:
    """Write the candidates into a calibration file, whole or not at all. Raises UsageError."""
    load_calibration(path)
    write_text(path, with_measured(path.read_text(encoding="utf-8"), found))
    load_calibration(path)


def _names(lines: Sequence[str]) -> tuple[str, str]:
    """Constant and GPU of the table that these lines begin with."""
    table: list[str] = []
    for line in lines:
        if line.startswith("["):
            break
        table.append(line)
    data = tomllib.loads("\n".join(table))
    return str(data.get("constant", "")), str(data.get("gpu", ""))


def _toml(value: Any) -> str:
    if not isinstance(value, str):
        return repr(value)
    plain = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'
