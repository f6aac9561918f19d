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

from .errors import GraphError
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
    expect: tuple[Barrier, int] | None = None  #: its phase also waits for data that a node of another CTA delivers
    deliver: tuple[tuple[Barrier, int], ...] = ()  #: barriers of other CTAs whose expected data it is

    def depend(self, source: int, kind: int, reason: int, label: int = -1) -> None:
        """Add an edge from `source` that is not program order; of two from one source the stronger one stays."""
        old = self.preds.get(source)
        if old is None or _STRENGTH[kind] > _STRENGTH[old[0]]:
            self.preds[source] = (kind, reason, label)


_STRENGTH = {int(EdgeKind.ISSUE): 0, int(EdgeKind.COMPLETE): 1, int(EdgeKind.DATA): 2}
_COMPLETE, _BARRIER = int(EdgeKind.COMPLETE), int(Reason.BARRIER)


@dataclass(frozen=True, eq=False)
class Access:
    """A tile of a buffer while its template is built; `private` separates register tiles of different warps, `cta` the memory of
    the CTAs of a cluster. The builder makes one object for each, compared and hashed by identity."""

    buffer: int
    offset: tuple[int, ...]
    extent: tuple[int, ...]
    column: tuple[int, ...]
    private: int = -1
    cta: int = 0


@dataclass
class Barrier:
    """An array of mbarriers: its name and the arrivals that complete a phase, a slot each. In a launch with clusters every CTA
    has its own of the `copies`, and the array itself stands for that of the node's CTA."""

    name: str
    counts: tuple[int, ...]
    cta: int = 0
    labels: list[int] = field(default_factory=list)
    copies: tuple[Barrier, ...] = ()

    def copy(self, cta: int) -> Barrier:
        """The array in the CTA of rank `cta`.

        Raises:
            GraphError: the cluster has no such CTA.
        """
        if self.copies and 0 <= cta < len(self.copies):
            return self.copies[cta]
        if not self.copies and cta == self.cta:
            return self
        raise GraphError(f"barrier {self.name!r} has no copy in a CTA of rank {cta}",
                         fix=f"The cluster has {max(len(self.copies), 1)} CTAs.")

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass
class Slot:
    """State of one mbarrier: arrivals a phase, arrivals that are pending, completed phases, nodes that arrived in the open phase
    and in each completed one, and nodes that wait. `owed` counts data that is expected from nodes of other CTAs, `early` holds
    such nodes that came before their data was expected: the n-th delivery belongs to the phase of the n-th expectation."""

    count: int
    pending: int
    done: int = 0
    arrivals: list[int] = field(default_factory=list)
    phases: list[list[int]] = field(default_factory=list)
    parked: list[int] = field(default_factory=list)
    owed: int = 0
    early: deque[int] = field(default_factory=deque)

    def complete(self) -> list[int]:
        """Complete the open phase if nothing is missing; returns the nodes that waited for it."""
        if self.pending or self.owed:
            return []
        self.phases.append(self.arrivals)
        self.arrivals, self.pending, self.done = [], self.count, self.done + 1
        parked, self.parked = self.parked, []
        return parked

    def expect(self) -> None:
        """The open phase also needs one delivery."""
        if self.early:
            self.arrivals.append(self.early.popleft())
        else:
            self.owed += 1

    def deliver(self, node: int) -> None:
        """A node of another CTA has written data here."""
        if self.owed:
            self.owed -= 1
            self.arrivals.append(node)
        else:
            self.early.append(node)


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
            first = draft.cta << 6  # warps of a cluster are told apart by the rank of their CTA
            observed = [seen.get((first + w, barrier, index), 0) for w in draft.warps]
            waited = [n for n in observed if n % 2 == parity]
            if waited and max(waited) >= slot.done:
                slot.parked.append(i)
                continue
            for phase in set(waited):
                for source in slot.phases[phase]:
                    draft.depend(source, _COMPLETE, _BARRIER, barrier.labels[index])
            for w, n in zip(draft.warps, observed, strict=True):
                if n % 2 == parity:
                    seen[first + w, barrier, index] = n + 1
        order.append(i)
        if draft.tx is not None:
            slot_of(*draft.tx).arrivals.append(i)
        if draft.expect is not None:
            slot_of(*draft.expect).expect()
        for barrier, index in draft.deliver:
            slot = slot_of(barrier, index)
            slot.deliver(i)
            if slot.pending == 0:
                ready.extend(slot.complete())
        for barrier, index, count in draft.arrives:
            slot = slot_of(barrier, index)
            if draft.tx is None or draft.tx != (barrier, index):
                slot.arrivals.append(i)
            slot.pending -= count
            if slot.pending < 0:
                _refuse_arrival(drafts[i], (barrier, index), slot, where, names)
            if slot.pending == 0:
                ready.extend(slot.complete())
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
