"""Which box of a buffer an indexed access in a loop nest touches."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FrontendError
from .expr import LOOP, THREAD, Value, text_of
from .program import Storage
from .widths import contiguous

if TYPE_CHECKING:
    from .translate import Translator
    from .walk import Walk
    from .warps import Share


_MOST_PIECES, _MOST_ITERATIONS = 8, 1 << 14
_LOOP_NAME = re.compile(r"\bx\d+\b")


class _Zeros(dict[str, Any]):
    """Names that are not loop variables of the nest count as 0."""

    def __missing__(self, key: str) -> Any:
        return _GLOBALS.get(key, 0)


class _Functions:
    """What compiled expressions may ask of `R`, without a walk."""

    min, max = staticmethod(np.minimum), staticmethod(np.maximum)
    where = staticmethod(np.where)
    invert = staticmethod(np.logical_not)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: args[0] if args and not isinstance(args[0], (str, tuple)) and name != "get" else 0


_GLOBALS = {"__builtins__": {}, "min": np.minimum, "max": np.maximum, "R": _Functions(), "NAN": 0}


@dataclass
class Access:
    """One access of a nest: `mins` are the origins at iteration 0, `dims` say how each index moves.

    `used` are the iteration dimensions it depends on, `simple` the iteration dimension that is the index itself (or None) a
    buffer dimension each, `inner` the step of the last index when the innermost loop advances, `steps` its step when each
    iteration dimension advances alone, `places` how far it then moves in an on-chip buffer, in elements (None if data decides),
    `width` the contiguous elements behind each position.
    """

    storage: Storage
    key: str
    mins: tuple[Value, ...]
    dims: tuple[tuple[Any, tuple[int, ...]], ...]  #: (code or None, iteration dimensions in it) a buffer dimension
    used: tuple[int, ...]
    simple: tuple[int | None, ...]
    inner: int
    steps: tuple[int, ...] = ()
    places: tuple[int, ...] | None = None
    width: int = 1
    _ranges: dict[Any, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    _pieces: dict[Any, list[tuple[tuple[int, int], ...]]] = field(default_factory=dict)

    def ranges(self, offset: Sequence[int], extent: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """(start, extent) a buffer dimension, relative to `mins`, of the iterations `offset .. offset + extent`."""
        key = (tuple(offset), tuple(extent))
        found = self._ranges.get(key)
        if found is None:
            ranges = [_range(code, used, offset, extent) for code, used in self.dims]
            if self.width > 1 and ranges:
                ranges[-1] = (ranges[-1][0], ranges[-1][1] + self.width - 1)
            gathers = [d for d, (code, used) in enumerate(self.dims) if code is None]
            if gathers:  # as many rows as there are elements
                total = math.prod(extent[i] for i in self.used) * self.width
                others = math.prod(r[1] for d, r in enumerate(ranges) if d not in gathers)
                ranges[gathers[0]] = (0, max(-(-total // others), 1))
            found = self._ranges[key] = tuple(ranges)
        return found

    def lane_steps(self, loop: int | None) -> dict[str, tuple[int, ...]] | None:
        """Where the lanes of a warp reach in an on-chip buffer, if `loop` counts them; None where the bits of a lane's number
        do not act one by one."""
        if loop is None or any(code is None for code, _ in self.dims):
            return None
        lanes = np.arange(32)
        pitch = [math.prod(self.storage.shape[d + 1:]) for d in range(len(self.dims))]
        place = np.zeros(32, dtype=np.int64)
        for p, (code, _) in zip(pitch, self.dims, strict=True):
            place = place + p * np.broadcast_to(evaluate(code, {f"x{loop}": lanes}), (32,))
        steps = [int(place[1 << b] - place[0]) for b in range(5)]
        linear = place[0] + sum(((lanes >> b) & 1) * step for b, step in enumerate(steps))
        if not bool((linear == place).all()):
            return None
        lanes_of, step_of = [2], [abs(steps[0])]
        for step in map(abs, steps[1:]):
            if step == step_of[-1] * lanes_of[-1]:
                lanes_of[-1] *= 2
            else:
                lanes_of.append(2)
                step_of.append(step)
        return {"lanes": tuple(lanes_of), "lane_steps": tuple(step_of)}

    def pieces(self, offset: Sequence[int], extent: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
        """Like `ranges`, in several boxes where the iterations leave holes in one: the runs of each index, if every combination
        of them is touched and they are few."""
        whole = self.ranges(offset, extent)
        sizes = [extent[i] for i in self.used]
        if any(code is None for code, _ in self.dims) or self.width > 1 or math.prod(sizes) > _MOST_ITERATIONS:
            return [whole]
        mesh = np.ix_(*(np.arange(offset[i], offset[i] + extent[i]) for i in self.used))
        at = {f"x{i}": m for i, m in zip(self.used, mesh, strict=True)}
        values = [np.broadcast_to(evaluate(code, at), sizes).reshape(-1) - int(evaluate(code, {}).reshape(-1)[0])
                  for code, _ in self.dims]
        runs = [_runs(v) for v in values]
        touched = len(np.unique(np.stack(values), axis=1).T) if values else 1
        full = math.prod(sum(n for _, n in r) for r in runs)
        if math.prod(len(r) for r in runs) > _MOST_PIECES or full != touched or full == math.prod(n for _, n in whole):
            return [whole]
        return list(itertools.product(*runs))

    def lane_run(self, loop: int | None, lanes: int, width: int) -> int:
        """How many neighbouring vectors of `width` elements the lanes of a warp touch in a row of the tensor, where `loop` counts
        the lanes."""
        if loop is None or not self.dims or any(code is None for code, _ in self.dims):
            return 1
        at = {f"x{loop}": np.arange(lanes)}
        *rows, last = (np.broadcast_to(evaluate(code, at), (lanes,)) for code, _ in self.dims)
        together = np.flatnonzero(np.logical_and.reduce([row == row[0] for row in rows])) if rows else np.arange(lanes)
        found, run = set(last[together].tolist()), 1
        while int(last[0]) + run * width in found:
            run += 1
        return run

    def box(self, origin: tuple[Any, ...], offset: Sequence[int],
            extent: Sequence[int]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Origin and extent of the box; on-chip boxes are cut to the buffer."""
        return self._placed(origin, self.ranges(offset, extent))

    def _placed(self, origin: tuple[Any, ...], ranges: Sequence[tuple[int, int]]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        start = tuple(o + r[0] if r[0] else o for o, r in zip(origin, ranges, strict=True))
        sizes = tuple(r[1] for r in ranges)
        if self.storage.scope != "global":
            shape = self.storage.shape
            start = tuple(min(max(s, 0), n - 1) for s, n in zip(start, shape, strict=True))
            sizes = tuple(min(z, n - s) for z, n, s in zip(sizes, shape, start, strict=True))
        return start, sizes

    def run(self, extents: Sequence[int]) -> int:
        """How many iterations of the innermost loops together touch elements that follow each other in memory."""
        run, count = 1, 1
        for i in reversed(range(len(extents))):
            count *= extents[i]
            sizes = [r[1] for r in self.ranges((0,) * len(extents), (1,) * i + tuple(extents[i:]))]
            gathers = any(code is None and n > 1 for (code, _), n in zip(self.dims, sizes, strict=True))
            if gathers or math.prod(sizes) != count * self.width or contiguous(self.storage, sizes) != count * self.width:
                break
            run = count
        return run

    def copies(self, offset: Sequence[int], extents: Sequence[int]) -> float:
        """How many iterations, of those of the loops that the place depends on, touch the same element, on average: more than 1
        where an index is divided. 1 where data decides the place."""
        if any(code is None for code, _ in self.dims):
            return 1.0
        box = math.prod(r[1] for r in self.ranges(offset, extents))
        return max(math.prod(extents[i] for i in self.used) * self.width / box, 1.0)

    def tile(self, walk: Walk, origin: tuple[Any, ...], share: Share) -> Any:
        """The tile that a warpgroup's share touches."""
        start, sizes = self.box(origin, share.offset[:len(share.extent)], share.extent)
        return walk.tile(self.storage, start, sizes)

    def tiles(self, walk: Walk, origin: tuple[Any, ...], share: Share) -> list[Any]:
        """The same without the holes between the elements that are touched."""
        key = (share.offset[:len(share.extent)], share.extent)
        pieces = self._pieces.get(key)
        if pieces is None:
            pieces = self._pieces[key] = self.pieces(*key)
        return [walk.tile(self.storage, *self._placed(origin, ranges)) for ranges in pieces]


def _runs(values: Any) -> list[tuple[int, int]]:
    """(start, length) of the consecutive numbers among `values`."""
    unique = np.unique(values)
    breaks = np.flatnonzero(np.diff(unique) != 1) + 1
    return [(int(part[0]), len(part)) for part in np.split(unique, breaks)]


def evaluate(code: Any, at: dict[str, Any]) -> Any:
    """A compiled index where the loop variables have these values; every other name counts as 0."""
    return np.asarray(eval(code, _GLOBALS, _Zeros(at)))  # noqa: S307  our own generated text


def _range(code: Any, used: tuple[int, ...], offset: Sequence[int], extent: Sequence[int]) -> tuple[int, int]:
    if code is None or not used:
        return 0, 1
    big = math.prod(extent[i] for i in used) > 1 << 18
    axes = []
    for i in used:
        values = np.array([offset[i], offset[i] + extent[i] - 1]) if big else np.arange(offset[i], offset[i] + extent[i])
        axes.append(values)
    mesh = np.ix_(*axes)
    names = {f"x{i}": m for i, m in zip(used, mesh, strict=True)}
    values, base = evaluate(code, names), int(evaluate(code, {}).reshape(-1)[0])
    low, high = int(values.min()), int(values.max())
    return low - base, high - low + 1


def describe_access(t: Translator, load: Any, variables: Sequence[Any], extents: Sequence[int], *, write: bool,
                    width: int = 1) -> Access:
    """Take an indexed access apart. An index that holds data (a gather) starts anywhere and counts one position for each value
    of the loop variables in it."""
    storage = t.program.storage(load.buffer)
    names = {f"x{i}": i for i in range(len(variables))}
    zeros = {v: Value("0") for v in variables}
    for bound in t.inlined:
        inside = t.compile.env.get(bound)
        if inside is not None and _LOOP_NAME.search(inside.src):
            zeros[bound] = Value(_LOOP_NAME.sub("0", inside.src), inside.flags & ~LOOP)
    mins, dims, simple, keys = [], [], [], []
    used_all: set[int] = set()
    for expr in load.indices:
        code: Any
        value = Value("0")
        try:
            value = t.compile(expr)
            if _gathers(t, expr, variables):
                raise FrontendError("the index is data")
            env = t.compile.env
            t.compile.env = {**env, **zeros}
            try:
                start = t.compile(expr)
            finally:
                t.compile.env = env
            if start.flags & THREAD:
                raise FrontendError("a local variable that differs by thread")
            code = compile(value.src, "<index>", "eval")
            used = tuple(sorted(names[n] for n in _names(code) if n in names))
            _range(code, used, (0,) * len(extents), (1,) * len(extents))
        except (FrontendError, ArithmeticError, TypeError, ValueError):
            threads = value.flags & THREAD
            used = tuple(i for i, v in enumerate(variables) if _mentions(t, expr, v)
                         or (threads and any(v.same_as(w) for w in t.program.thread_vars)))
            start, code, value = Value("0"), None, Value(f"?{text_of(expr, 200)}")
        used_all.update(used)
        mins.append(Value(start.src, start.flags))
        dims.append((code, used))
        simple.append(names.get(value.src))
        keys.append(value.src)
    steps = tuple(_step(dims[-1], i) if dims else 0 for i in range(len(variables)))
    places = None
    if storage.scope == "shared" and all(code is not None for code, _ in dims):
        pitch = [math.prod(storage.shape[d + 1:]) for d in range(len(dims))]
        places = tuple(abs(sum(p * _step(dim, i) for p, dim in zip(pitch, dims, strict=True))) for i in range(len(variables)))
    inner, last = 0, len(variables) - 1
    while last > 0 and extents[last] == 1:
        last -= 1
    if dims and last >= 0 and not any(last in used for _, used in dims[:-1]):
        inner = steps[last]
    return Access(storage, f"{'w' if write else 'r'}{storage.index}[{','.join(keys)}]", tuple(mins), tuple(dims),
                  tuple(sorted(used_all)), tuple(simple), inner, steps, places, width)


def _names(code: Any) -> set[str]:
    found = set(code.co_names) | set(code.co_freevars) | set(code.co_varnames)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            found |= _names(constant)
    return found


def _step(dim: tuple[Any, tuple[int, ...]], i: int) -> int:
    code, used = dim
    if code is None or i not in used:
        return 0
    at = [int(evaluate(code, {f"x{i}": x}).reshape(-1)[0]) for x in (0, 1)]
    return at[1] - at[0]


def _gathers(t: Translator, expr: Any, variables: Sequence[Any]) -> bool:
    """Whether an index reads a tile at places that move with the loops."""
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    found = False

    def see(node: Any) -> None:
        nonlocal found
        if type(node).__name__ == "BufferLoad":
            found = found or any(_mentions(t, i, v) for i in node.indices for v in variables)
        elif type(node).__name__ in ("Var", "SizeVar") and node in t.inlined:
            found = found or _gathers(t, t.inlined[node], variables)

    tir.stmt_functor.post_order_visit(tir.Evaluate(expr), see)
    return found


def _mentions(t: Translator, expr: Any, var: Any) -> bool:
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    found = False

    def see(node: Any) -> None:
        nonlocal found
        if type(node).__name__ in ("Var", "SizeVar"):
            bound = t.inlined.get(node)
            if node.same_as(var) or (bound is not None and _mentions(t, bound, var)):
                found = True

    tir.stmt_functor.post_order_visit(tir.Evaluate(expr), see)
    return found
