"""What reaches other CTAs of a cluster: its barrier, and loads, stores and bulk copies between the SMs of one GPC."""

from __future__ import annotations

from ...graph import Node, Tile
from ...hwconfigs import Hardware
from ..demand import EVERY_CTA, Demand, Message, demand, unit, warp
from ..errors import SimulationError


def require_clusters(node: Node, hw: Hardware) -> None:
    """Refuse `node` on a GPU without clusters."""
    if not hw.cluster.supported:
        raise SimulationError(f"{hw.name} has no clusters ({node.label()}). Launch the kernel without them.")


def _remote(node: Node, tiles: tuple[Tile, ...], hw: Hardware) -> Tile:
    """The tile in the shared memory of another CTA (or, if the kernel addresses itself this way, of its own)."""
    require_clusters(node, hw)
    shared = [t for t in tiles if t.buffer.scope == "shared"]
    if not shared:
        raise SimulationError(f"{node.label()}: it needs a tile in the shared memory of another CTA")
    return next((t for t in shared if t.cta != node.cta), shared[0])


def _instructions(node: Node, tile: Tile, hw: Hardware) -> float:
    access = int(node.attrs.get("access_bytes", 16))
    return max(tile.nbytes / (access * hw.sm.warp_threads), float(len(node.warps)))


@demand("cluster_arrive")
def cluster_arrive(node: Node, hw: Hardware) -> Demand:
    """The warps go on after the issue; waiters see the last arrival when the barrier's time has passed."""
    require_clusters(node, hw)
    if node.attrs.get("exited"):
        return Demand([])
    cost = hw.cluster.barrier_relaxed_cycles if node.attrs.get("relaxed") else hw.cluster.barrier_cycles
    return Demand([warp({"issue": len(node.warps)}, latency_cycles=cost, message=Message(EVERY_CTA))])


@demand("cluster_wait")
def cluster_wait(node: Node, hw: Hardware) -> Demand:
    """Costs its issue: the time of the barrier lies behind the last arrival."""
    require_clusters(node, hw)
    return Demand([] if node.attrs.get("exited") else [warp({"issue": len(node.warps)})])


@demand("dsmem_load")
def dsmem_load(node: Node, hw: Hardware) -> Demand:
    """ld.shared::cluster: read there, out of that SM, into this one."""
    tile = _remote(node, node.reads, hw)
    return Demand([warp({"issue": _instructions(node, tile, hw), "sm_to_sm_in": tile.nbytes},
                        remote={"smem": tile.nbytes, "sm_to_sm_out": tile.nbytes}, cta=tile.cta,
                        latency_cycles=hw.cluster.load_cycles, message=Message(tile.cta, tile.nbytes, fetch=True))])


@demand("dsmem_store")
def dsmem_store(node: Node, hw: Hardware) -> Demand:
    """st.shared::cluster: the warps go on once the data is on its way; it can be seen there later."""
    tile = _remote(node, node.writes, hw)
    return Demand([warp({"issue": _instructions(node, tile, hw), "sm_to_sm_out": tile.nbytes},
                        remote={"smem": tile.nbytes, "sm_to_sm_in": tile.nbytes}, cta=tile.cta,
                        latency_cycles=hw.cluster.store_visible_cycles, message=Message(tile.cta, tile.nbytes))])


@demand("dsmem_copy")
def dsmem_copy(node: Node, hw: Hardware) -> Demand:
    """cp.async.bulk between shared memories: the TMA unit reads this SM's, the data takes the way of stores."""
    tile = _remote(node, node.writes, hw)
    if not hw.tma.supported:
        raise SimulationError(f"{hw.name} has no TMA ({node.label()}). Compile the kernel for {hw.chip.arch}.")
    count = int(node.attrs.get("copies", 1))
    requests = max(count, -(-tile.nbytes // hw.tma.request_bytes))
    return Demand([
        warp({"issue": 4 * count}, hold_cycles=count * hw.tma.store_issue_cycles),
        unit({"tma": requests, "smem": tile.nbytes, "sm_to_sm_out": tile.nbytes},
             remote={"smem": tile.nbytes, "sm_to_sm_in": tile.nbytes}, cta=tile.cta,
             latency_cycles=hw.tma.launch_cycles + hw.cluster.store_visible_cycles, message=Message(tile.cta, tile.nbytes)),
    ])
