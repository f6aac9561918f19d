"""One template under construction: operations of each warp in program order, and the order edges that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import GraphError
from .freeze import freeze
from .handles import Column, TileRef
from .model import EdgeKind, Reason, Template
from .repeats import fold, in_segments
from .replay import Barrier, Draft, replay
from .versions import assign_versions

if TYPE_CHECKING:
    from .builder import TileGraphBuilder

_ISSUE, _COMPLETE, _SYNC, _GROUP = map(
    int, (EdgeKind.ISSUE, EdgeKind.COMPLETE, Reason.SYNC, Reason.GROUP)
)  # looking an enum member up costs more than its use


class _Warp:
    """What program order knows of one warp."""

    __slots__ = ("last", "memory", "open", "closed")

    def __init__(self) -> None:
        self.last = -1
        self.memory: list[int] = []
        self.open: dict[str, list[int]] = {}
        self.closed: dict[str, list[list[int]]] = {}


class TemplateBuilder:
    """One template under construction. Made by :meth:`TileGraphBuilder.template`.

    Loop bodies may repeat: :meth:`repeat` starts the period before the repeated one, and what is appended while `segment` is
    the number it returns, plus 1, runs as often as it says (see :mod:`.repeats`).
    """

    def __init__(self, owner: TileGraphBuilder, name: str) -> None:
        self.owner, self.name = owner, name
        self.segment = 0  #: where nodes are appended: 3 r + 1 before the repeated period r, 3 r + 2 in it, 3 r + 3 behind it
        self.repeats: list[int | Column] = []  #: how often each repeated period runs
        self._finished: Template | None = None
        self.drafts: list[Draft] = []
        self.columns: dict[str, int] = {}
        self._warps: dict[tuple[int, int], _Warp] = {}

    def column(self, name: str) -> Column:
        """The column `name` of this template's instances, to be used in tile origins and as number of repetitions."""
        return Column(self.columns.setdefault(name, len(self.columns)))

    def repeat(self, times: int | Column) -> int:
        """Declare a loop body that runs `times` (at least 1) and start the period in front of it.

        Append one period, then set `segment` to the number returned, plus 1, and append the same period again, its tiles moved
        by a step: this one is repeated. Set `segment` to the number plus 2 for what follows. The two periods must be alike;
        :meth:`finish` says where they are not.

        Returns:
            The segment of the period in front.
        """
        self.repeats.append(times)
        self.segment = 3 * len(self.repeats) - 2
        return self.segment

    def node(
        self,
        type: str,
        warps: Iterable[int],
        *,
        reads: Sequence[TileRef] = (),
        writes: Sequence[TileRef] = (),
        attrs: Mapping[str, Any] | None = None,
        source: str = "",
        role: str = "",
        loop: str = "",
        cta: int = 0,
        blocking: bool | None = None,
        group: str | None = None,
        wait: tuple[tuple[Barrier, int], int] | None = None,
        arrive: Sequence[tuple[tuple[Barrier, int], int]] = (),
        tx: tuple[Barrier, int] | None = None,
    ) -> int:
        """Append one operation to the program of `warps` and return its number.

        Args:
            type: a registered node type.
            warps: warps of the CTA that execute it together.
            reads, writes: tiles; several warps of one warpgroup share one register tile.
            attrs: attributes of the node type.
            source, role, loop: names for reports.
            cta: rank of the CTA within its cluster.
            blocking: whether the warps wait for its completion; the node type's default if None.
            group: queue (`cp_async`, `wgmma`, `bulk`) whose open group it joins.
            wait: ((barrier, slot), parity) that must complete first.
            arrive: ((barrier, slot), count) arrivals, made when it completes.
            tx: (barrier, slot) whose current phase its data completes.

        Raises:
            GraphError: unknown type or attributes, no warps, or a tile of the wrong rank.
        """
        owner = self.owner
        kind = owner.type_of(type)
        ids = tuple(warps)
        attrs_id = owner.attrs_id(kind, attrs or {}, f"{self.name} node {len(self.drafts)} ({type} {source})")
        if not ids:
            raise GraphError("no warps execute it", where=f"{self.name} node {len(self.drafts)} ({type} {source})")
        index = len(self.drafts)
        private = ids[0] // 4
        draft = Draft(
            owner.type_id(type),
            ids,
            cta,
            kind.blocking if blocking is None else blocking,
            attrs_id,
            owner.string(source),
            owner.string(role),
            owner.string(loop),
            tuple([owner.access(t, private) for t in reads]),
            tuple([owner.access(t, private) for t in writes]),
            {},
            {},
            tuple((bar, slot, n) for (bar, slot), n in arrive),
            tx,
            None if wait is None else (wait[0][0], wait[0][1], wait[1]),
            self.segment,
        )
        self.drafts.append(draft)
        drains = kind.sync and type not in ("barrier_wait", "wait_group", "commit_group")
        for w in ids:
            state = self._warps.get((cta, w))
            if state is None:
                state = self._warps[cta, w] = _Warp()
            if state.last >= 0:
                edge = _COMPLETE if self.drafts[state.last].blocking else _ISSUE
                if state.last in draft.program or not draft.program:
                    draft.program[state.last] = edge
                else:  # warps that join others here: the first one's program order, the others are waited for
                    draft.depend(state.last, edge, _SYNC)
            state.last = index
            if drains and state.memory:
                for m in state.memory:
                    draft.depend(m, _COMPLETE, _SYNC)
                state.memory = []
            if group is not None:
                state.open.setdefault(group, []).append(index)
            elif kind.memory:
                state.memory.append(index)
        return index

    def commit(
        self,
        queue: str,
        warps: Iterable[int],
        *,
        node: bool = True,
        source: str = "",
        role: str = "",
        loop: str = "",
        cta: int = 0,
    ) -> None:
        """Close the open group of `queue` for `warps` (an empty group counts). `node` adds the instruction itself."""
        ids = tuple(warps)
        if node:
            self.node("commit_group", ids, attrs={"queue": queue}, source=source, role=role, loop=loop, cta=cta)
        for w in ids:
            state = self._warps.setdefault((cta, w), _Warp())
            state.closed.setdefault(queue, []).append(state.open.pop(queue, []))

    def wait_group(
        self, queue: str, pending: int, warps: Iterable[int], *, source: str = "", role: str = "", loop: str = "", cta: int = 0
    ) -> int:
        """Let `warps` wait until at most `pending` closed groups of `queue` are outstanding."""
        ids = tuple(warps)
        index = self.node(
            "wait_group", ids, attrs={"queue": queue, "pending": pending}, source=source, role=role, loop=loop, cta=cta
        )
        for w in ids:
            groups = self._warps[cta, w].closed.setdefault(queue, [])
            finished = len(groups) - pending
            for members in groups[: max(finished, 0)]:
                for m in members:
                    self.drafts[index].depend(m, _COMPLETE, _GROUP)
            if finished > 0:
                del groups[:finished]
        return index

    def finish(self) -> Template:
        """Resolve barriers and versions and freeze the arrays.

        Raises:
            GraphError: deadlock, mismatched arrival counts, periods that are not alike.
        """
        if self._finished is None:
            if not self.drafts:
                raise GraphError("a template needs at least one node", where=self.name)
            order = replay(self.drafts, self.name, self.owner.names)
            if self.repeats:
                order = in_segments(self.drafts, order, self.name)
            versions = assign_versions(self.drafts, order)
            self._finished = freeze(self.name, self.drafts, order, versions, self.owner.rank())
            if self.repeats:
                segments = np.array([self.drafts[i].segment for i in order])
                self._finished = fold(self._finished, segments, self.repeats, self.owner.names()[1])
        return self._finished
