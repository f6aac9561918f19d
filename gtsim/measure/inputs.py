"""Which inputs a kernel declares, and what to fill them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import UsageError

#: "normal": standard normal numbers; "integers": uniform over -8..7 (0..15 unsigned); "zeros"; "given": `value`.
Fill = Literal["normal", "integers", "zeros", "given"]


@dataclass(frozen=True)
class Argument:
    """One argument of a compiled kernel.

    Attributes:
        name: the parameter's.
        dtype: element type as TileLang spells it, such as "float8_e4m3fn".
        shape: extents; None for a scalar.
        fill: where its contents come from.
        value: the array or scalar that was given.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    fill: Fill
    value: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor; 0 for a scalar."""
        from ..graph import dtype_bits

        if self.shape is None:
            return 0
        bits = dtype_bits(self.dtype)
        for extent in self.shape:
            bits *= extent
        return -(-bits // 8)


def declared(captured: Any, symbols: Mapping[str, int], metadata: Mapping[str, Any]) -> list[Argument]:
    """The arguments of a captured kernel (`gtsim.frontend.capture`), in order.

    Raises:
        UsageError: metadata of another shape or for no tensor of the kernel, or an argument that cannot be made up.
        FrontendError: a symbolic size without a value.
    """
    from ..frontend.tilelang.program import parse

    program = parse(captured, symbols, index=0)
    function = next(f for _, f in captured.module.functions.items())
    out: list[Argument] = []
    for param in function.params:
        if param in function.buffer_map:
            storage = program.params[str(function.buffer_map[param].name)]
            out.append(_tensor(storage.name, storage.dtype, storage.shape, metadata))
        else:
            out.append(_scalar(str(param.name), str(param.dtype), symbols))
    unknown = [name for name in metadata if name not in program.params]
    if unknown:
        raise UsageError(f"metadata: the kernel has no tensor {unknown[0]!r}. It has {', '.join(program.params)}.")
    return out


def _tensor(name: str, dtype: str, shape: tuple[int, ...], metadata: Mapping[str, Any]) -> Argument:
    if name in metadata:
        array = np.asarray(metadata[name])
        if array.shape != shape:
            raise UsageError(f"metadata: {name} has shape {array.shape}, and the kernel declares {shape}.")
        return Argument(name, dtype, shape, "given", array)
    return Argument(name, dtype, shape, fill_of(dtype))


def fill_of(dtype: str) -> Fill:
    """What a tensor of this type is filled with. Wide integers may be indices: anything but 0 could reach out of bounds."""
    if dtype.startswith(("float", "bfloat", "tfloat")):
        return "normal"
    return "integers" if dtype in ("int8", "uint8") else "zeros"


def _scalar(name: str, dtype: str, symbols: Mapping[str, int]) -> Argument:
    if name in symbols:
        return Argument(name, dtype, None, "given", int(symbols[name]))
    if dtype.startswith("float"):
        return Argument(name, dtype, None, "given", 1.0)
    raise UsageError(f"gtsim measure cannot make up the argument {name} ({dtype}) of this kernel.")


def notes_on(arguments: list[Argument]) -> list[str]:
    """What the reader must know about the inputs: contents that were not asked for and can change the time."""
    zeros = [a.name for a in arguments if a.fill == "zeros"]
    out = []
    if zeros:
        out.append(f"{', '.join(zeros)}: integers that nobody gave are 0 (an index must not reach out of bounds); "
                   "--metadata gives their values")
    ones = [a.name for a in arguments if a.shape is None and isinstance(a.value, float)]
    if ones:
        out.append(f"{', '.join(ones)}: set to 1.0")
    return out
