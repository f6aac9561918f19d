"""Untimed execution of a template's program: which arrivals complete which mbarrier phase, and in what order.

Nodes are drained in program order; a wait stays parked until its phase has completed. The order found is one valid
execution, which gives every read the version it sees and turns barrier phases into order edges. If nodes stay parked,
the program cannot finish: that is a deadlock, which :mod:`.check.deadlock` explains.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from .model import EdgeKind, Reason


@dataclass
class Draft:
    """A node while its template is built."""

    type_id: int
    warps: tuple[int, ...]
    cta: int
    blocking: bool
    attrs_id: int
    source_id: int
    role_id: int
    loop_id: int
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    program: dict[int, int]  #: program order: source -> edge kind
    preds: dict[int, tuple[int, int, int]]  #: all other order and data: source -> (kind, reason, label string id or -1)
    arrives: tuple[tuple[Barrier, int, int], ...] = ()
    tx: tuple[Barrier, int] | None = None
    wait: tuple[Barrier, int, int] | None = None
    segment: int = 0  #: part of the template it belongs to, see `repeats`

    def depend(self, source: int, kind: int, reason: int, label: int = -1) -> None:
        """Add an edge from `source` that is not program order; of two from one source the stronger one stays."""
        old = self.preds.get(source)
        if old is None or _STRENGTH[kind] > _STRENGTH[old[0]]:
            self.preds[source] = (kind, reason, label)


_STRENGTH = {int(EdgeKind.ISSUE): 0, int(EdgeKind.COMPLETE): 1, int(EdgeKind.DATA): 2}
_COMPLETE, _BARRIER = int(EdgeKind.COMPLETE), int(Reason.BARRIER)


@dataclass(frozen=True, eq=False)
class Access:
    """A tile of a buffer while its template is built; `private` separates register tiles of different warps. The builder makes
    one object for each, compared and hashed by identity."""

    buffer: int
    offset: tuple[int, ...]
    extent: tuple[int, ...]
    column: tuple[int, ...]
    private: int = -1


@dataclass
class Barrier:
    """An array of mbarriers: its name and the arrivals that complete a phase, a slot each."""

    name: str
    counts: tuple[int, ...]
    cta: int = 0
    labels: list[int] = field(default_factory=list)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass
class Slot:
    """State of one mbarrier: arrivals a phase, arrivals that are pending, completed phases, nodes that arrived in the open phase
    and in each completed one, and nodes that wait."""

    count: int
    pending: int
    done: int = 0
    arrivals: list[int] = field(default_factory=list)
    phases: list[list[int]] = field(default_factory=list)
    parked: list[int] = field(default_factory=list)


#: Names of node types and strings by number, asked for when something is wrong.
NameTable = Callable[[], tuple[Sequence[str], Sequence[str]]]


def replay(drafts: list[Draft], where: str, names: NameTable) -> list[int]:
    """Execute `drafts` without time, add the order edges that barriers impose, and return the nodes in execution order.

    Raises:
        CheckError: a barrier receives more arrivals than its count, or nodes wait for phases that never complete. Its findings
            say who waits for what, and why that cannot come.
    """
    successors: list[list[int]] = [[] for _ in drafts]
    missing = [0] * len(drafts)
    for i, draft in enumerate(drafts):
        before = draft.preds.keys() | draft.program.keys()
        missing[i] = len(before)
        for source in before:
            successors[source].append(i)
    slots: dict[tuple[Barrier, int], Slot] = {}
    seen: dict[tuple[int, Barrier, int], int] = {}
    ready = deque(i for i, n in enumerate(missing) if n == 0)
    order: list[int] = []

    def slot_of(barrier: Barrier, index: int) -> Slot:
        key = (barrier, index)
        slot = slots.get(key)
        if slot is None:
            slot = slots[key] = Slot(barrier.counts[index], barrier.counts[index])
        return slot

    while ready:
        i = ready.popleft()
        draft = drafts[i]
        if draft.wait is not None:
            barrier, index, parity = draft.wait
            slot = slot_of(barrier, index)
            observed = [seen.get((w, barrier, index), 0) for w in draft.warps]
            waited = [n for n in observed if n % 2 == parity]
            if waited and max(waited) >= slot.done:
                slot.parked.append(i)
                continue
            for phase in set(waited):
                for source in slot.phases[phase]:
                    draft.depend(source, _COMPLETE, _BARRIER, barrier.labels[index])
            for w, n in zip(draft.warps, observed, strict=True):
                if n % 2 == parity:
                    seen[w, barrier, index] = n + 1
        order.append(i)
        if draft.tx is not None:
            slot_of(*draft.tx).arrivals.append(i)
        for barrier, index, count in draft.arrives:
            slot = slot_of(barrier, index)
            if draft.tx is None or draft.tx != (barrier, index):
                slot.arrivals.append(i)
            slot.pending -= count
            if slot.pending < 0:
                _refuse_arrival(drafts[i], (barrier, index), slot, where, names)
            if slot.pending == 0:
                slot.phases.append(slot.arrivals)
                slot.arrivals, slot.pending, slot.done = [], slot.count, slot.done + 1
                ready.extend(slot.parked)
                slot.parked = []
        for j in successors[i]:
            missing[j] -= 1
            if missing[j] == 0:
                ready.append(j)
    if len(order) < len(drafts):
        _refuse_hang(drafts, order, slots, where, names)
    return order


def _refuse_arrival(draft: Draft, at: tuple[Barrier, int], slot: Slot, where: str, names: NameTable) -> NoReturn:
    from .check.deadlock import Names, too_many
    from .check.findings import CheckError

    raise CheckError([too_many(*at, slot, draft, Names(*names()), where)])


def _refuse_hang(
    drafts: list[Draft], order: list[int], slots: dict[tuple[Barrier, int], Slot], where: str, names: NameTable
) -> NoReturn:
    from .check.deadlock import Hang, Names
    from .check.findings import CheckError

    raise CheckError(Hang(drafts, set(order), slots, Names(*names()), where).findings())
