"""Which box of a buffer an indexed access in a loop nest touches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FrontendError
from .expr import Value
from .program import Storage

if TYPE_CHECKING:
    from .ops.parallel import Nest
    from .translate import Translator
    from .walk import Walk
    from .warps import Share


class _Zeros(dict[str, Any]):
    """Names that are not loop variables of the nest count as 0."""

    def __missing__(self, key: str) -> Any:
        return 0


class _Functions:
    """What compiled expressions may ask of `R`, without a walk."""

    min, max = staticmethod(np.minimum), staticmethod(np.maximum)
    where = staticmethod(np.where)
    invert = staticmethod(np.logical_not)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: args[0] if args and not isinstance(args[0], str) else 0


_GLOBALS = {"__builtins__": {}, "min": np.minimum, "max": np.maximum, "R": _Functions(), "NAN": 0}


@dataclass
class Access:
    """One access of a nest: `mins` are the origins at iteration 0, `dims` say how each index moves.

    `used` are the iteration dimensions it depends on, `simple` the iteration dimension that is the index itself (or None) a
    buffer dimension each, `inner` the step of the last index when the innermost loop advances.
    """

    storage: Storage
    key: str
    mins: tuple[Value, ...]
    dims: tuple[tuple[Any, tuple[int, ...]], ...]  #: (code or None, iteration dimensions in it) a buffer dimension
    used: tuple[int, ...]
    simple: tuple[int | None, ...]
    inner: int
    _ranges: dict[Any, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def ranges(self, offset: Sequence[int], extent: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """(start, extent) a buffer dimension, relative to `mins`, of the iterations `offset .. offset + extent`."""
        key = (tuple(offset), tuple(extent))
        found = self._ranges.get(key)
        if found is None:
            found = self._ranges[key] = tuple(_range(code, used, offset, extent) for code, used in self.dims)
        return found

    def box(self, origin: tuple[Any, ...], offset: Sequence[int],
            extent: Sequence[int]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Origin and extent of the box; on-chip boxes are cut to the buffer."""
        ranges = self.ranges(offset, extent)
        start = tuple(o + r[0] if r[0] else o for o, r in zip(origin, ranges, strict=True))
        sizes = tuple(r[1] for r in ranges)
        if self.storage.scope != "global":
            shape = self.storage.shape
            start = tuple(min(max(s, 0), n - 1) for s, n in zip(start, shape, strict=True))
            sizes = tuple(min(z, n - s) for z, n, s in zip(sizes, shape, start, strict=True))
        return start, sizes

    def tile(self, walk: Walk, origin: tuple[Any, ...], share: Share) -> Any:
        """The tile that a warpgroup's share touches."""
        start, sizes = self.box(origin, share.offset[:len(share.extent)], share.extent)
        return walk.tile(self.storage, start, sizes)


def _range(code: Any, used: tuple[int, ...], offset: Sequence[int], extent: Sequence[int]) -> tuple[int, int]:
    if code is None or not used:
        return 0, 1
    big = math.prod(extent[i] for i in used) > 1 << 18
    axes = []
    for i in used:
        values = np.array([offset[i], offset[i] + extent[i] - 1]) if big else np.arange(offset[i], offset[i] + extent[i])
        axes.append(values)
    mesh = np.ix_(*axes)
    names = _Zeros({f"x{i}": m for i, m in zip(used, mesh, strict=True)})
    values = np.asarray(eval(code, _GLOBALS, names))  # noqa: S307  our own generated text
    base = int(np.asarray(eval(code, _GLOBALS, _Zeros())))  # noqa: S307
    low, high = int(values.min()), int(values.max())
    return low - base, high - low + 1


def describe_access(t: Translator, load: Any, nest: Nest, *, write: bool) -> Access:
    """Take an indexed access apart. Indices that hold data (gathers) count as one unknown position."""
    storage = t.program.storage(load.buffer)
    names = {f"x{i}": i for i in range(len(nest.variables))}
    zeros = {v: Value("0") for v in nest.variables}
    mins, dims, simple, keys = [], [], [], []
    used_all: set[int] = set()
    for expr in load.indices:
        try:
            value = t.compile(expr)
            env = t.compile.env
            t.compile.env = {**env, **zeros}
            try:
                start = t.compile(expr)
            finally:
                t.compile.env = env
            code: Any = compile(value.src, "<index>", "eval")
            used = tuple(sorted(names[n] for n in code.co_names if n in names))
        except FrontendError:
            start, code, used, value = Value("0"), None, (), Value("?")
        used_all.update(used)
        mins.append(Value(start.src, start.flags))
        dims.append((code, used))
        simple.append(names.get(value.src))
        keys.append(value.src)
    inner, last = 0, len(nest.variables) - 1
    while last > 0 and nest.extents[last] == 1:
        last -= 1
    if dims and last in dims[-1][1]:
        code = dims[-1][0]
        at = [int(np.asarray(eval(code, _GLOBALS, _Zeros({f"x{last}": x})))) for x in (0, 1)]  # noqa: S307
        inner = at[1] - at[0]
        if any(last in used for _, used in dims[:-1]):
            inner = 0
    return Access(storage, f"{'w' if write else 'r'}{storage.index}[{','.join(keys)}]", tuple(mins), tuple(dims),
                  tuple(sorted(used_all)), tuple(simple), inner)
