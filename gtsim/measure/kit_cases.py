"""Kernels with their arguments by name, from a TOML file such as validation/h200_kit/cases.toml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import UsageError
from ..kernel_file import load_kernel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Metadata(BaseModel):
    """`call(of(**args))`, both functions of the kernel's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    call: str
    of: str
    args: dict[str, Any] = Field(default_factory=dict)


class Case(BaseModel):
    """One kernel with its arguments. `file` is `FILE.py:FACTORY`, in the file relative to the TOML file's folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    case: str = Field(pattern=r"^\w+$")
    file: str = Field(pattern=r"\.py:\w+$")
    args: dict[str, Any] = Field(default_factory=dict)
    metadata: Metadata | None = None

    def load(self) -> tuple[str, Any, dict[str, Any]]:
        """Name and factory of the kernel, and its metadata arrays. Raises UsageError and KernelFileError."""
        name, kernel = load_kernel(self.file)
        if self.metadata is None:
            return name, kernel, {}
        path = self.file.rpartition(":")[0]
        _, call = load_kernel(f"{path}:{self.metadata.call}")
        _, of = load_kernel(f"{path}:{self.metadata.of}")
        return name, kernel, dict(call(of(**self.metadata.args)))


class _Cases(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    kernel: list[Case]


def load_cases(path: Path) -> dict[str, Case]:
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
    return {c.case: c.model_copy(update={"file": str(path.resolve().parent / c.file)}) for c in found}
