"""Clusters that cannot be launched: too large, wider than any GPC, or not dividing the grid."""

from __future__ import annotations

from collections.abc import Iterable

from ...clusters import clusters_at_once
from ..findings import Finding
from ..subject import Subject, rule
from .residency import resident


@rule("structure")
def whole_clusters(subject: Subject) -> Iterable[Finding]:
    """The grid is a whole number of clusters (CUDA programming guide, thread block clusters)."""
    launch = subject.graph.launch
    for axis, ctas, size in zip("xyz", launch.grid, launch.cluster, strict=True):
        if ctas % size:
            yield Finding(
                "residency",
                "error",
                subject.graph.name,
                f"{ctas} CTAs in {axis} are not a whole number of clusters of {size}",
                f"Make the grid's extent in {axis} a multiple of {size}.",
                {"axis": axis, "ctas": ctas, "cluster": size},
            )


@rule("target")
def cluster_can_be_placed(subject: Subject) -> Iterable[Finding]:
    """Some GPC of the target can hold all CTAs of a cluster at once."""
    limits, launch = subject.limits, subject.graph.launch
    size = launch.cluster_ctas
    if size == 1 or (subject.target is not None and not subject.target.clusters):  # what has no clusters at all is told elsewhere
        return
    if limits.cluster_ctas and size > limits.cluster_ctas:
        yield Finding(
            "residency",
            "error",
            subject.graph.name,
            f"a cluster of {size} CTAs; {limits.name or 'the target'} allows {limits.cluster_ctas}",
            "Use a smaller cluster.",
            {"cluster": size, "limit": limits.cluster_ctas},
        )
        return
    ctas_per_sm, limiter = resident(subject)
    if limits.gpc_sms and ctas_per_sm and not clusters_at_once(limits.gpc_sms, ctas_per_sm, size):
        room = max(limits.gpc_sms) * ctas_per_sm
        yield Finding(
            "residency",
            "error",
            subject.graph.name,
            f"a cluster of {size} CTAs runs within one GPC, and the largest of {limits.name} holds {room} of them "
            f"({max(limits.gpc_sms)} SMs with {ctas_per_sm} each, limited by {limiter})",
            "Use a smaller cluster, or smaller CTAs.",
            {"cluster": size, "room": room, "limiter": limiter},
        )
