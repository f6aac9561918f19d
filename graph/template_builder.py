"""One template under construction: operations of each warp in program order, and the order edges that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .clusters import ClusterBarrier, cluster_attrs, own_copies
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
#: Synchronisation that does not wait for the earlier memory operations of its warps.
_DRAINS_NOT = ("barrier_wait", "wait_group", "commit_group", "cluster_wait")


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
        self._cluster: ClusterBarrier | None = None

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
        expect: tuple[Barrier, int] | None = None,
        deliver: Sequence[tuple[Barrier, int]] = (),
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
            expect: (barrier, slot) whose current phase also needs data that a node of another CTA delivers.
            deliver: (barrier, slot)s of other CTAs of the cluster which expect the data that it writes there.

        Raises:
            GraphError: unknown type or attributes, no warps, a tile of the wrong rank, or a CTA that the cluster lacks.
        """
        owner = self.owner
        kind = owner.type_of(type)
        ids = tuple(warps)
        private = ids[0] // 4 if ids else 0
        read = tuple([owner.access(t, private, cta) for t in reads])
        written = tuple([owner.access(t, private, cta) for t in writes])
        if owner.cluster_ctas > 1:
            where = f"{self.name} node {len(self.drafts)} ({type} {source})"
            wait, arrive, tx, expect, deliver = own_copies(cta, wait, arrive, tx, expect, deliver, where)
            attrs = cluster_attrs(kind, cta, attrs or {}, arrive, owner.shared_ctas(written), where)
        attrs_id = owner.attrs_id(kind, attrs or {}, f"{self.name} node {len(self.drafts)} ({type} {source})")
        if not ids:
            raise GraphError("no warps execute it", where=f"{self.name} node {len(self.drafts)} ({type} {source})")
        index = len(self.drafts)
        draft = Draft(
            owner.type_id(type),
            ids,
            cta,
            kind.blocking if blocking is None else blocking,
            attrs_id,
            owner.string(source),
            owner.string(role),
            owner.string(loop),
            read,
            written,
            {},
            {},
            tuple((bar, slot, n) for (bar, slot), n in arrive),
            tx,
            None if wait is None else (wait[0][0], wait[0][1], wait[1]),
            self.segment,
            expect,
            tuple(deliver),
        )
        self.drafts.append(draft)
        drains = kind.sync and type not in _DRAINS_NOT and not (attrs and attrs.get("relaxed"))
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
        self,
        queue: str,
        pending: int,
        warps: Iterable[int],
        *,
        until_read: bool = False,
        source: str = "",
        role: str = "",
        loop: str = "",
        cta: int = 0,
    ) -> int:
        """Let `warps` wait until at most `pending` closed groups of `queue` are outstanding; `until_read`: until those of bulk
        stores have read shared memory."""
        ids = tuple(warps)
        attrs = {"queue": queue, "pending": pending, **({"until_read": True} if until_read else {})}
        index = self.node("wait_group", ids, attrs=attrs, source=source, role=role, loop=loop, cta=cta)
        for w in ids:
            groups = self._warps[cta, w].closed.setdefault(queue, [])
            finished = len(groups) - pending
            for members in groups[: max(finished, 0)]:
                for m in members:
                    self.drafts[index].depend(m, _COMPLETE, _GROUP)
            if finished > 0:
                del groups[:finished]
        return index

    def cluster_arrive(self, warps: Iterable[int], *, cta: int = 0, relaxed: bool = False, source: str = "", role: str = "",
                       loop: str = "") -> int:
        """Let `warps` arrive at the cluster barrier. Unless `relaxed`, what they wrote before is seen behind the wait."""
        return self._barrier_of_cluster().arrive(tuple(warps), cta, relaxed, source, role, loop)

    def cluster_wait(self, warps: Iterable[int], *, cta: int = 0, source: str = "", role: str = "", loop: str = "") -> int:
        """Let `warps` wait until all warps of the cluster have arrived as often as they have; warps at their end count too."""
        return self._barrier_of_cluster().wait(tuple(warps), cta, source, role, loop)

    def cluster_sync(self, warps: Iterable[int], *, cta: int = 0, source: str = "", role: str = "", loop: str = "") -> int:
        """Arrive at the cluster barrier and wait for it."""
        ids = tuple(warps)
        self.cluster_arrive(ids, cta=cta, source=source, role=role, loop=loop)
        return self.cluster_wait(ids, cta=cta, source=source, role=role, loop=loop)

    def _barrier_of_cluster(self) -> ClusterBarrier:
        if self._cluster is None:
            self._cluster = ClusterBarrier(self)
        return self._cluster

    def finish(self) -> Template:
        """Resolve barriers and versions and freeze the arrays.

        Raises:
            GraphError: deadlock, mismatched arrival counts, periods that are not alike.
        """
        if self._finished is None:
            if not self.drafts:
                raise GraphError("a template needs at least one node", where=self.name)
            if self._cluster is not None:
                self._cluster.close()
            order = replay(self.drafts, self.name, self.owner.names)
            if self.repeats:
                order = in_segments(self.drafts, order, self.name)
            self._finished = self._freeze(order)
            if self.repeats:
                segments = np.array([self.drafts[i].segment for i in order])
                self._finished = fold(self._finished, segments, self.repeats, self.owner.names()[1], self.owner.on_chip())
        return self._finished

    def without_barriers(self) -> Template:
        """The template of a program that does not come to an end: program order, groups, data, and the phases that complete.
        Loop bodies that repeat are there as often as the replay had them."""
        left = [len(d.preds.keys() | d.program.keys()) for d in self.drafts]
        behind: list[list[int]] = [[] for _ in self.drafts]
        for i, d in enumerate(self.drafts):
            for source in d.preds.keys() | d.program.keys():
                behind[source].append(i)
        order = [i for i, n in enumerate(left) if n == 0]
        for i in order:  # grows while it is walked
            for j in behind[i]:
                left[j] -= 1
                if left[j] == 0:
                    order.append(j)
        return self._freeze(order)

    def _freeze(self, order: list[int]) -> Template:
        versions = assign_versions(self.drafts, order)
        return freeze(self.name, self.drafts, order, versions, self.owner.rank())
