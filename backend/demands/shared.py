"""Loads and stores of shared memory by threads, and what bank conflicts make of every access there."""

from __future__ import annotations

from ...graph import Node, Tile
from ...graph.banks import conflict, matrix_conflict, row_conflict
from ...hwconfigs import Hardware
from ..demand import Demand, demand, warp
from ..errors import SimulationError


def lane_factor(node: Node, tile: Tile, hw: Hardware, access_bytes: int) -> float:
    """Cycles of an access by lanes over those without bank conflicts: where the lanes are as the node says, else along the rows
    of the tile.

    Raises:
        SimulationError: `lanes` and `lane_steps` do not belong together.
    """
    lanes, steps = node.attrs.get("lanes", ()), node.attrs.get("lane_steps", ())
    if len(lanes) != len(steps):
        raise SimulationError(f"{node.label()}: {len(lanes)} counts of lanes and {len(steps)} steps. Give as many lane_steps as "
                              "lanes.")
    if not hw.smem.bank_conflicts:
        return 1.0
    width = min(access_bytes, 16)  # the widest access of a lane
    return conflict(tile.buffer, lanes, steps, width) if lanes else row_conflict(tile, width)


def matrix_factor(tile: Tile, hw: Hardware) -> float:
    """The same where a tile is taken as matrices of eight rows of 16 bytes: by ldmatrix, or by wgmma."""
    return matrix_conflict(tile.buffer) if hw.smem.bank_conflicts and tile.buffer.scope == "shared" else 1.0


@demand("shared_load")
def shared_load(node: Node, hw: Hardware) -> Demand:
    """ld.shared or ldmatrix."""
    return _by_threads(node, hw)


@demand("shared_store")
def shared_store(node: Node, hw: Hardware) -> Demand:
    """st.shared or stmatrix."""
    return _by_threads(node, hw)


def _by_threads(node: Node, hw: Hardware) -> Demand:
    tile = next((t for t in node.tiles if t.buffer.scope in ("shared", "remote_shared")), None)
    if tile is None:
        raise SimulationError(f"{node.label()}: it needs a tile in shared memory")
    access = int(node.attrs.get("access_bytes", 16))
    if access < 1:
        raise SimulationError(f"{node.label()}: access_bytes is {access}, less than a byte. Say how much a lane moves.")
    moved = tile.nbytes * max(float(node.attrs.get("copies", 1.0)), 1.0)
    instructions = max(moved / (access * hw.sm.warp_threads), len(node.warps) * 1.0)
    work = moved * lane_factor(node, tile, hw, access)
    return Demand([warp({"issue": instructions, "smem": work}, latency_cycles=hw.smem.latency_cycles)])
