"""What nodes of a cluster of CTAs have beyond those of one CTA: barriers of several CTAs, and the cluster barrier.

The cluster barrier is one barrier that all warps of all CTAs arrive at. A warp that has come to the end of its program counts
as arrived (PTX ISA, barrier.cluster: "all the non-exited threads of the cluster").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import GraphError
from .replay import Barrier

if TYPE_CHECKING:
    from .registry import NodeType
    from .template_builder import TemplateBuilder

BarrierSlot = tuple[Barrier, int]
EVERY_CTA = -1  #: `cta` of the cluster barrier, which belongs to all


def own_copies(
    cta: int,
    wait: tuple[BarrierSlot, int] | None,
    arrive: Sequence[tuple[BarrierSlot, int]],
    tx: BarrierSlot | None,
    expect: BarrierSlot | None,
    deliver: Sequence[BarrierSlot],
    where: str,
) -> tuple[Any, Any, Any, Any, Any]:
    """The barriers of a node, those that stand for its own CTA's replaced by the copy of CTA `cta`.

    Raises:
        GraphError: it waits for a barrier of another CTA, which no instruction can (PTX ISA, mbarrier.test_wait).
    """

    def own(at: BarrierSlot) -> BarrierSlot:
        return (at[0].copies[cta] if at[0].copies else at[0], at[1])

    if wait is not None:
        wait = (own(wait[0]), wait[1])
        if wait[0][0].cta not in (cta, EVERY_CTA):
            raise GraphError(f"CTA {cta} waits for {wait[0][0].name}; a CTA can wait for its own barriers only", where=where,
                             fix="Let it wait for its own copy, and the others arrive there.")
    return (
        wait,
        tuple((own(at), count) for at, count in arrive),
        None if tx is None else own(tx),
        None if expect is None else own(expect),
        tuple(own(at) for at in deliver),
    )


def cluster_attrs(
    kind: NodeType, cta: int, attrs: Mapping[str, Any], arrive: Sequence[tuple[BarrierSlot, int]], written: set[int], where: str
) -> Mapping[str, Any]:
    """`attrs` and what follows from the CTAs that a node reaches: `cta` of an arrival elsewhere, `multicast` of a copy whose
    tiles lie in several CTAs. `written` are the ranks of the CTAs in whose shared memory it writes.

    Raises:
        GraphError: a mask that says something else.
    """
    if "cta" in kind.attrs:
        remote = {at[0].cta for at, _ in arrive} - {cta, EVERY_CTA}
        if remote:
            attrs = {**attrs, "cta": remote.pop()}
    if "multicast" in kind.attrs and written - {cta}:
        mask = sum(1 << rank for rank in written)
        if attrs.get("multicast", mask) != mask:
            raise GraphError(f"the multicast mask {attrs['multicast']:#b} is not that of the tiles it writes, {mask:#b}",
                             where=where)
        attrs = {**attrs, "multicast": mask}
    return attrs


_NAME = {"barrier": "cluster"}


class ClusterBarrier:
    """The barrier of all warps of a cluster, in one template."""

    def __init__(self, template: TemplateBuilder) -> None:
        owner = template.owner
        self.template, self.warps, self.ctas = template, -(-owner.threads // 32), owner.cluster_ctas
        self.barrier = Barrier("the cluster barrier", (self.warps * self.ctas,), EVERY_CTA,
                               labels=[owner.string("cluster barrier")])
        self.arrived = dict.fromkeys(((c, w) for c in range(self.ctas) for w in range(self.warps)), 0)
        self.waited = dict(self.arrived)

    def arrive(self, warps: tuple[int, ...], cta: int, relaxed: bool, source: str, role: str, loop: str) -> int:
        """Arrive with each warp."""
        self._count(self.arrived, warps, cta)
        attrs = {**_NAME, "relaxed": True} if relaxed else _NAME
        return self.template.node("cluster_arrive", warps, attrs=attrs, source=source, role=role, loop=loop, cta=cta,
                                  arrive=(((self.barrier, 0), len(warps)),))

    def wait(self, warps: tuple[int, ...], cta: int, source: str, role: str, loop: str) -> int:
        """Wait for the phase that these warps wait for next."""
        phase = self._count(self.waited, warps, cta)
        return self._wait(warps, cta, phase, _NAME, source, role, loop)

    def _wait(self, warps: tuple[int, ...], cta: int, phase: int, attrs: Mapping[str, Any], source: str, role: str,
              loop: str) -> int:
        return self.template.node("cluster_wait", warps, attrs=attrs, source=source, role=role, loop=loop, cta=cta,
                                  wait=((self.barrier, 0), phase % 2))

    def _count(self, table: dict[tuple[int, int], int], warps: tuple[int, ...], cta: int) -> int:
        counts = {table.get((cta, w), 0) for w in warps}
        if len(counts) > 1:
            raise GraphError(f"warps {warps[0]}-{warps[-1]} of CTA {cta} come to the cluster barrier together, but have been "
                             f"there {' and '.join(map(str, sorted(counts)))} times", where=self.template.name)
        for w in warps:
            table[cta, w] = table.get((cta, w), 0) + 1
        return counts.pop() if counts else 0

    def close(self) -> None:
        """Let warps that end before the others have come to the barrier for the last time arrive for good."""
        rounds = max(self.arrived.values())
        groups: dict[tuple[int, int, int], list[int]] = {}
        for (cta, w), n in self.arrived.items():
            if n < rounds and w < self.warps:
                groups.setdefault((cta, n, self.waited[cta, w]), []).append(w)
        for (cta, first, waited), warps in groups.items():
            for phase in range(first, rounds):
                if phase:  # the phase before must be over before it counts in the next
                    for missed in range(waited, phase):
                        self._wait(tuple(warps), cta, missed, {"exited": True}, "exit", "", "")
                    waited = max(waited, phase)
                self.template.node("cluster_arrive", warps, attrs={"exited": True}, source="exit", cta=cta,
                                   arrive=(((self.barrier, 0), len(warps)),))


def clusters_at_once(gpc_sms: Sequence[int], ctas_per_sm: int, cluster_ctas: int) -> int:
    """Clusters that a chip holds at a time: each lies within one GPC; `gpc_sms` are the SMs of each, `ctas_per_sm` the CTAs that
    one SM holds."""
    return sum(sms * ctas_per_sm // cluster_ctas for sms in gpc_sms)
