"""Running a translated program for one class of blocks and recording the operations it issues.

The program is one Python function (see `translate`). It asks the walk for everything that is not plain integer arithmetic:
who is active, which block values agree, where tiles lie, what must be recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...graph import Column, TemplateBuilder, TileRef
from ..errors import FrontendError
from .contents import Contents, load
from .layouts import Layouts
from .program import Program, Storage
from .repetition import Needs, Repetition
from .sync import Access, Hazards, left_loops
from .warps import Active

Origin = tuple[Any, ...]
#: (type, warps, source, loop, reads, writes, attrs, blocking, group, wait, arrive, tx, place); types in `emit` may be pseudo
#: types, places are those of `repetition`.
Record = tuple[Any, ...]
MAX_RECORDS = 4_000_000


class Split(Exception):
    """A value that steers control differs between the blocks of the class: walk each group on its own."""

    def __init__(self, values: Any) -> None:
        super().__init__("blocks take different paths")
        self.values = values


@dataclass
class Shared:
    """What all walks of one kernel have in common."""

    program: Program
    layouts: Layouts
    metadata: Mapping[str, Any]
    aliases: dict[Storage, list[Storage]]
    handles: dict[Storage, int]  #: storage -> buffer number in the graph
    barriers: dict[str, Any]  #: barrier array name -> handle
    implicit_sync: bool = True
    operand_words: float = 0.0  #: registers a thread that hold the mma.sync operands of one step
    warnings: dict[str, None] = field(default_factory=dict)
    #: Barriers the compiler adds: (line of the program, threads) -> loops around it that the barrier is in front of.
    barrier_sites: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)
    tiles: dict[tuple[int, Origin, tuple[int, ...]], TileRef] = field(default_factory=dict)
    controls: dict[tuple[int, int, str], dict[str, Any]] = field(default_factory=dict)

    @property
    def bits(self) -> dict[int, int]:
        """Bits of an element, by number of the buffer in the graph."""
        return {number: storage.bits for storage, number in self.handles.items()}


class Branch:
    """Both sides of a thread-dependent `if`: the active threads of each, or None."""

    __slots__ = ("parent", "then", "other")

    def __init__(self, parent: Active, then: Active | None, other: Active | None) -> None:
        self.parent, self.then, self.other = parent, then, other


class Walk:
    """One run of the program. `blocks` are the block coordinates [n, 3] of the class; of clusters, those of the CTAs with
    one `rank`. `repetition` cuts its loops short. The walks of the other ranks share the columns of the `first`."""

    def __init__(self, shared: Shared, blocks: Any, template: TemplateBuilder, repetition: Repetition | None = None,
                 rank: int = 0, first: Walk | None = None) -> None:
        self.shared, self.template, self.rank = shared, template, rank
        self.repetition = repetition or Repetition(Needs(), enabled=False)
        self.columns: dict[str, Any] = {} if first is None else first.columns
        self.records: list[Record] = []
        self.loop, self.flops = "", 0
        self.at = ""  #: like `loop`, with the loops that are unrolled: "t=0, s=2, "
        self.attached: dict[tuple[int, ...], int] = {}  #: first record behind the last asynchronous arrival, by warps
        self.named: dict[tuple[str, tuple[int, ...]], int] = {}  #: phases of named barriers, by name and warps
        self.pending: dict[Active, list[Any]] = {}
        self.unfenced: set[int] = set()  #: warps that stored to shared memory since their last proxy fence
        self.writers: dict[int, set[int]] = {}  #: graph buffer -> warps that stored to it, threads by themselves
        self.hazards = Hazards(shared.aliases)
        self.blocks = tuple(int(b[0]) if (b == b[0]).all() else b.astype(np.int64) for b in blocks.T)
        self.contents = Contents(shared.program.storages, shared.metadata, len(blocks))
        self._actives: dict[bytes, Active] = {}
        self._kept: dict[int, tuple[Any, Any]] = {}
        self._by_content: dict[bytes, int] = {} if first is None else first._by_content
        program = shared.program
        count = program.threads
        self.tid = np.arange(count).reshape(-1, 1)
        x, y, _ = program.thread_extents
        self.thread_index = (self.tid % x, self.tid // x % y, self.tid // (x * y))
        self.everyone = self._active(np.ones(count, dtype=bool))
        self.active = self.everyone

    # -- values ----------------------------------------------------------------------------------------------------------

    def scalar(self, value: Any) -> int:
        """`value` as one int for the active threads of every block of the class.

        Raises:
            Split: it differs between blocks.
            FrontendError: it differs between threads.
        """
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, float):
            raise FrontendError("floating-point data steers control flow")
        value = np.asarray(value)
        if value.ndim == 0:
            return int(value)
        if value.ndim == 2:
            value = self._of_active(value)
        first = value[0]
        if (value == first).all():
            return int(first)
        raise Split(value)

    def _of_active(self, value: Any) -> Any:
        rows = value[self.active.mask] if value.shape[0] > 1 else value
        if not (rows == rows[0]).all():
            raise FrontendError("a value that steers control differs between threads that run together",
                                fix="Only `if` may depend on the thread index.")
        return rows[0]

    def lane(self, value: Any) -> Any:
        """A local variable as the active threads see it."""
        if isinstance(value, np.ndarray) and value.ndim == 2:
            value = self._of_active(value)
            return int(value[0]) if len(value) == 1 else value
        return value

    @staticmethod
    def min(a: Any, b: Any) -> Any:
        """Smaller value, element by element."""
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)

    @staticmethod
    def max(a: Any, b: Any) -> Any:
        """Larger value, element by element."""
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)

    @staticmethod
    def where(c: Any, a: Any, b: Any) -> Any:
        """`a` where `c` holds, else `b`."""
        return (a if c else b) if isinstance(c, (int, bool)) else np.where(c, a, b)

    @staticmethod
    def invert(a: Any) -> Any:
        """Logical not."""
        return (not a) if isinstance(a, (int, bool)) else np.logical_not(a)

    @staticmethod
    def truncdiv(a: Any, b: Any) -> Any:
        """Division that rounds towards zero."""
        q = abs(a) // abs(b)
        return q * (1 if (a >= 0) == (b > 0) else -1) if isinstance(q, int) else q * np.sign(a) * np.sign(b)

    @staticmethod
    def truncmod(a: Any, b: Any) -> Any:
        """Remainder of :meth:`truncdiv`."""
        return a - b * Walk.truncdiv(a, b)

    def elect(self, every: int) -> Any:
        """Thread mask of the first thread of each `every` threads (of the CTA if 0)."""
        return self.tid % every == 0 if every else self.tid == 0

    def load(self, name: str, shape: tuple[int, ...], index: tuple[Any, ...], text: str, guarded: bool = False) -> Any:
        """An element of a global integer tensor, from the metadata."""
        return load(self.shared.metadata, name, shape, index, text, guarded)

    # -- who executes ------------------------------------------------------------------------------------------------------

    def _active(self, mask: Any) -> Active:
        key = mask.tobytes()
        found = self._actives.get(key)
        if found is None:
            found = self._actives[key] = Active(mask)
        return found

    def split(self, condition: Any) -> Branch:
        """Both sides of an `if` whose condition may depend on the thread."""
        here = self.active
        if isinstance(condition, (int, bool, np.bool_)):
            return Branch(here, here, None) if condition else Branch(here, None, here)
        condition = np.asarray(condition)
        if condition.ndim == 1:
            return self.split(bool(self.scalar(condition)))
        if condition.shape[1] > 1 and not (condition == condition[:, :1]).all():
            raise Split(_number_columns(condition))
        flat = np.broadcast_to(condition[:, 0], here.mask.shape)
        then, other = here.mask & flat, here.mask & ~flat
        if self.hazards.written_by(here) and self.shared.implicit_sync:
            sides = [np.add.reduceat(side, np.arange(0, len(side), 32)) > 0 for side in (then, other)]
            if all(side.any() for side in sides) and not (sides[0] & sides[1]).any():
                self.sync()  # the compiler lets all meet in front of roles that read what all have stored
        return Branch(here, self._active(then) if then.any() else None, self._active(other) if other.any() else None)

    def merge(self, branch: Branch, then: Any, other: Any) -> Any:
        """A local variable after an `if`: each thread keeps the value of its side."""
        if branch.other is None:
            return then
        if branch.then is None:
            return other
        if isinstance(then, list):
            return [self.merge(branch, a, b) for a, b in zip(then, other, strict=True)]
        if then is other or (isinstance(then, int) and isinstance(other, int) and then == other):
            return then
        return np.where(branch.then.mask[:, None], then, other)

    @staticmethod
    def slot(value: int) -> int:
        """Where an on-chip tile starts: loops that repeat must come back to it."""
        return value

    @staticmethod
    def parity(value: int) -> int:
        """A barrier phase parity: the graph does not hold it, so loops may differ in it from period to period."""
        return value & 1

    # -- loops -------------------------------------------------------------------------------------------------------------

    @property
    def jumped(self) -> bool:
        """Whether iterations have just been left out of the innermost loop: :meth:`carried` has the variables behind them."""
        return self.repetition.carried is not None

    def carried(self) -> tuple[int, ...]:
        """Values of the carried variables behind the iterations left out."""
        values, self.repetition.carried = self.repetition.carried, None
        assert values is not None
        return values

    def iterate(self, probe: Any, state: tuple[Any, ...], start: Any, stop: Any) -> Any:
        """The iterations of a serial loop that are walked."""
        return self.repetition.iterate(self, probe, state, start, stop)

    # -- tiles -------------------------------------------------------------------------------------------------------------

    def keep(self, value: Any) -> Any:
        """Remember a block value that is used as a tile origin many times."""
        if isinstance(value, np.ndarray) and value.ndim == 1:
            if (value == value[0]).all():
                return int(value[0])
            self._kept[id(value)] = (value, None)
        return value

    def _column(self, value: Any) -> Column:
        if value.ndim != 1:
            raise FrontendError("a tile starts at a different place for each thread",
                                fix="Per-thread indexing is not supported here.")
        base = int(value[0])
        relative = value - base
        key = relative.tobytes()
        at = self._by_content.get(key)
        if at is None:
            name = f"c{len(self._by_content)}"
            at = self._by_content[key] = self.template.column(name).index
            self.columns[name] = relative
        return Column(at, base)

    def origin(self, value: Any) -> Any:
        """A tile origin as the builder takes it: int or column."""
        if type(value) is int:
            return value
        if isinstance(value, np.ndarray):
            kept = self._kept.get(id(value))
            if kept is not None:
                if kept[1] is None:
                    kept = self._kept[id(value)] = (value, self._column(value))
                return kept[1]
            if value.ndim == 2 and value.shape[0] == 1:
                value = value[0]
            return int(value[0]) if value.ndim == 1 and (value == value[0]).all() else self._column(value)
        return int(value)

    def tile(self, storage: Storage, origin: Origin, extent: tuple[int, ...]) -> TileRef:
        """A tile whose origins are ints or columns; on-chip tiles are interned."""
        number = self.shared.handles[storage]
        if storage.scope == "global":
            return TileRef(number, origin, extent)
        key = (number, origin, extent)
        found = self.shared.tiles.get(key)
        if found is None:
            found = self.shared.tiles[key] = TileRef(number, origin, extent)
        return found

    # -- recording -----------------------------------------------------------------------------------------------------------

    def put(self, type: str, warps: tuple[int, ...], source: str, reads: tuple[TileRef, ...] = (),
            writes: tuple[TileRef, ...] = (), attrs: Mapping[str, Any] | None = None, blocking: bool | None = None,
            group: str | None = None, wait: Any = None, arrive: tuple[Any, ...] = (), tx: Any = None) -> None:
        """Record one node."""
        if self.pending:
            self.flush()
        if type in ("shared_store", "cp_async"):
            self.unfenced.update(warps)
            for tile in writes:
                self.writers.setdefault(tile.buffer, set()).update(warps)
        elif type == "fence" and attrs is not None and attrs.get("kind") == "proxy_async":
            self.unfenced.difference_update(warps)
        place = self.repetition.of(warps) if self.repetition.regions else None
        self.records.append((type, warps, source, self.loop, reads, writes, attrs, blocking, group, wait, arrive, tx, place))

    def fences(self, buffers: Sequence[int], warps: tuple[int, ...]) -> bool:
        """Whether the compiler puts a proxy fence between what threads stored so far and an asynchronous read of `buffers` by
        `warps`: they have stored to shared memory since their last fence, or others have filled these buffers."""
        if not self.unfenced.isdisjoint(warps):
            return True
        return any(self.writers[b].isdisjoint(warps) for b in buffers if b in self.writers)

    def ctl(self, ops: int, branches: int, reason: str) -> None:
        """Scalar control work of the active warps; it becomes one node in front of their next operation."""
        found = self.pending.get(self.active)
        if found is None:
            self.pending[self.active] = [ops, branches, reason]
        else:
            found[0] += ops
            found[1] += branches

    def flush(self) -> None:
        """Record the pending control work."""
        pending, self.pending = self.pending, {}
        if len(self.records) > MAX_RECORDS:
            raise FrontendError(f"one block executes more than {MAX_RECORDS} tile operations", where=self.shared.program.name,
                                fix="Use a smaller problem or larger tiles.")
        for active, (ops, branches, reason) in pending.items():
            key = (ops, branches, reason)
            attrs = self.shared.controls.get(key)
            if attrs is None:
                attrs = self.shared.controls[key] = {"int_ops": ops, "branches": branches, "reason": reason}
            for warps in active.parts:
                place = self.repetition.of(warps) if self.repetition.regions else None
                self.records.append(("control", warps, reason, self.loop, (), (), attrs, None, None, None, (), None, place))

    def access(self, accesses: tuple[Access, ...]) -> None:
        """Note shared-memory accesses of the active warps; insert the barrier the compiler would if they need one."""
        if not self.shared.implicit_sync:
            return
        active, hazards = self.active, self.hazards
        for a in accesses:
            found = list(hazards.conflicts(a, active))
            if found:
                self.sync(hoisted=min((left_loops(earlier, self.at) for earlier in found), key=len))
                break
        for a in accesses:
            hazards.add(a, active, self.at)

    def sync(self, implicit: bool = True, source: str = "sync", hoisted: Sequence[str] = ()) -> None:
        """A barrier over the active warps. `hoisted`: loops in front of which the compiler puts it, though it is met inside."""
        if len(self.active.warps) > 1 or not implicit:
            self.put("cta_sync", self.active.warps, source, attrs={"implicit": True} if implicit else {})
            if implicit:
                self.added_barrier(tuple(hoisted))
        self.hazards.clear(self.active)

    def cluster_barrier(self, source: str, *, arrive: bool = True, wait: bool = True, relaxed: bool = False) -> None:
        """Each active warpgroup arrives at the barrier of the cluster, then each waits for it."""
        if arrive:
            for warps in self.active.parts:
                self.put("cluster_arrive", warps, source, attrs={"relaxed": True} if relaxed else None)
        if wait:
            for warps in self.active.parts:
                self.put("cluster_wait", warps, source)

    def added_barrier(self, hoisted: tuple[str, ...]) -> None:
        """The compiler puts a barrier in front of the statement that is being executed: remember where. One that a later
        iteration needs as well stays in the loop."""
        frame, file = sys._getframe(1), f"<{self.shared.program.name}>"
        while frame is not None and frame.f_code.co_filename != file:
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None:
            sites, key = self.shared.barrier_sites, (frame.f_lineno, self.active.threads)
            if len(hoisted) < len(sites.get(key, (*hoisted, ""))):
                sites[key] = hoisted


def _number_columns(condition: Any) -> Any:
    _, labels = np.unique(condition.astype(np.int8), axis=1, return_inverse=True)
    return np.asarray(labels).reshape(-1)
