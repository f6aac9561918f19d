"""The kernels of the kit, from cases.toml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gtsim.errors import UsageError
from gtsim.kernel_file import load_kernel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"


class Metadata(BaseModel):
    """`call(of(**args))`, both functions of the kernel's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    call: str
    of: str
    args: dict[str, Any] = Field(default_factory=dict)


class Case(BaseModel):
    """One kernel with its arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    case: str = Field(pattern=r"^\w+$")
    file: str
    args: dict[str, Any] = Field(default_factory=dict)
    metadata: Metadata | None = None

    def load(self) -> tuple[str, Any, dict[str, Any]]:
        """Name and factory of the kernel, and its metadata arrays. Raises UsageError and KernelFileError."""
        name, kernel = load_kernel(str(EXAMPLES / self.file))
        if self.metadata is None:
            return name, kernel, {}
        path = str(EXAMPLES / self.file.partition(":")[0])
        _, call = load_kernel(f"{path}:{self.metadata.call}")
        _, of = load_kernel(f"{path}:{self.metadata.of}")
        return name, kernel, dict(call(of(**self.metadata.args)))


class _Cases(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    kernel: list[Case]


def load_cases(path: Path = HERE / "cases.toml") -> dict[str, Case]:
    """Cases by name. Raises UsageError naming the place."""
    try:
        found = _Cases.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).kernel
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    names = [c.case for c in found]
    if twice := [n for n in names if names.count(n) > 1]:
        raise UsageError(f"{path}: the case {twice[0]} is there twice")
    return {c.case: c for c in found}
