"""Barriers, waits and fences."""

from __future__ import annotations

from ...graph import Node
from ...hwconfigs import Hardware
from ..demand import Demand, Message, demand, warp
from ..errors import SimulationError
from .clusters import require_clusters


@demand("barrier_wait")
def barrier_wait(node: Node, hw: Hardware) -> Demand:
    """try_wait of a phase that has completed; while it has not, the node is not ready."""
    return Demand([warp({"issue": 2 * len(node.warps)}, latency_cycles=max(hw.mbarrier.wait_cycles - 2, 0))])


@demand("barrier_arrive")
def barrier_arrive(node: Node, hw: Hardware) -> Demand:
    """The warps go on after the issue; waiters see the arrival later, those of another SM later still."""
    arrive = hw.mbarrier.arrive_cycles
    visible = hw.mbarrier.arrive_visible_cycles
    target = int(node.attrs.get("cta", node.cta))
    if target != node.cta:
        require_clusters(node, hw)
        visible = hw.cluster.arrive_visible_cycles
    return Demand([warp({"issue": len(node.warps)}, hold_cycles=max(arrive - 1, 0),
                        latency_cycles=0.0), warp({}, latency_cycles=max(visible - arrive, 0), message=Message(target))])


@demand("cta_sync")
def cta_sync(node: Node, hw: Hardware) -> Demand:
    """bar.sync: a base cost plus a part for each warp (PARAMETERS formula 7)."""
    warps = len(node.warps)
    return Demand([warp({"issue": warps}, latency_cycles=hw.sync.base_cycles + hw.sync.per_warp_cycles * warps)])


@demand("commit_group")
def commit_group(node: Node, hw: Hardware) -> Demand:
    """Closing a group of cp.async; wgmma and bulk commits are part of their group's issue."""
    cost = hw.cp_async.commit_cycles if node.attrs["queue"] == "cp_async" else 1.0
    return Demand([warp({"issue": len(node.warps)}, hold_cycles=max(cost - 1, 0))])


@demand("wait_group")
def wait_group(node: Node, hw: Hardware) -> Demand:
    """Waiting for groups that are complete."""
    cost = hw.wgmma.wait_cycles if node.attrs["queue"] == "wgmma" else hw.cp_async.wait_cycles
    return Demand([warp({"issue": len(node.warps)}, latency_cycles=max(cost - 1, 0))])


@demand("fence")
def fence(node: Node, hw: Hardware) -> Demand:
    """A fence of the async proxy, or of memory as a warp, a CTA or the whole GPU sees it."""
    costs = {"proxy_async": hw.sync.fence_proxy_async_cycles, "warp": hw.sync.warp_sync_cycles,
             "cta": hw.sync.fence_cta_cycles, "gpu": hw.sync.fence_gpu_cycles}
    cost = costs.get(node.attrs["kind"])
    if cost is None:
        raise SimulationError(f"{node.label()}: a fence of kind {node.attrs['kind']!r} is none of {', '.join(costs)}.")
    return Demand([warp({"issue": len(node.warps)}, latency_cycles=cost)])
