"""Copies: TMA, cp.async, and loads and stores by threads."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

from ...graph import Node, Tile
from ...hwconfigs import Hardware
from ..demand import Demand, MemoryAccess, demand, memory, warp
from ..errors import SimulationError
from .clusters import require_clusters
from .shared import lane_factor


def _tile(node: Node, *, scope_global: bool) -> tuple[int, Tile]:
    for i, tile in enumerate(node.tiles):
        if (tile.buffer.scope == "global") == scope_global:
            return i, tile
    raise SimulationError(f"{node.label()}: it needs a tile in {'global' if scope_global else 'on-chip'} memory")


def _instructions(node: Node, nbytes: int, hw: Hardware, default_access: int = 16) -> float:
    """Warp instructions that move `nbytes`, as often as lanes want each."""
    access = int(node.attrs.get("access_bytes", default_access))
    copies = max(float(node.attrs.get("copies", 1.0)), 1.0)
    return max(nbytes * copies / (access * hw.sm.warp_threads), len(node.warps) * 1.0)


def _tma_instructions(node: Node, tile: Tile) -> int:
    box = node.attrs.get("box")
    return ceil(tile.elements / prod(box)) if box else 1


def _tensor_map(node: Node, tile: Tile) -> str:
    """Name of the tensor map that the copy goes through; empty for a plain bulk copy. A map describes one tensor and one box."""
    return f"tensor map of {tile.buffer.name}, box {node.attrs.get('box')}" if node.attrs.get("tensor_map", True) else ""


def _bulk(node: Node, hw: Hardware, at: int, direction: str, port: str, issue_cycles: float, **more: Any) -> MemoryAccess:
    """The way of a bulk copy. All are launched; those with a tensor map are set up besides, and need it in the SM. The first box
    is on its way while the issuing thread waits to issue the others: that is taken off the launch."""
    tile = node.tiles[at]
    needs = _tensor_map(node, tile)
    launch = hw.tma.launch_cycles + (hw.tma.descriptor_setup_cycles if needs else 0.0)
    request = hw.tma.request_bytes if hw.tma.deduplicate else min(max(tile.buffer.bits // 8, 1), hw.tma.request_bytes)
    return MemoryAccess(at, direction, "tma", port, "tma", request, sink="smem", launch_cycles=max(launch - issue_cycles, 0.0),
                        needs=needs, fetch_cycles=hw.tma.descriptor_miss_cycles if needs else 0.0, **more)


def _with_header(nbytes: int, hw: Hardware) -> float:
    """Work on the port a byte of write requests of `nbytes` each, which are led by a header."""
    wire = -(-nbytes // hw.l2.sector_bytes) * hw.l2.sector_bytes
    return (wire + hw.l2.write_header_bytes) / wire


def _require_tma(node: Node, hw: Hardware) -> None:
    if not hw.tma.supported:
        raise SimulationError(f"{hw.name} has no TMA ({node.label()}). Compile the kernel for {hw.chip.arch}.")


@demand("tma_load")
def tma_load(node: Node, hw: Hardware) -> Demand:
    """One thread issues; the TMA unit streams requests of up to 128 bytes a box row and deposits them in shared memory, without
    bank conflicts: its boxes lie dense. The L2 answers a multicast once; the data passes the port and enters the shared memory of
    every SM that receives it."""
    _require_tma(node, hw)
    at, tile = _tile(node, scope_global=True)
    count = _tma_instructions(node, tile)
    others = int(node.attrs.get("multicast", 0)) & ~(1 << node.cta)
    if others:
        require_clusters(node, hw)
    issue = hw.tma.issue_cycles if node.attrs.get("tensor_map", True) else hw.tma.bulk_issue_cycles
    return Demand([
        warp({"issue": 4 * count}, hold_cycles=count * issue),
        memory(_bulk(node, hw, at, "load", "l2_to_sm", count * issue, receivers=others),
               latency_cycles=hw.cluster.multicast_cycles if others else 0.0),
    ])


@demand("tma_store")
def tma_store(node: Node, hw: Hardware) -> Demand:
    """Completes when shared memory has been read and the last piece has left the SM; docs/assumptions.md."""
    _require_tma(node, hw)
    at, tile = _tile(node, scope_global=True)
    count = _tma_instructions(node, tile)
    direction, issue = "store", hw.tma.store_issue_cycles
    box = node.attrs.get("box")
    row = min(max(box[-1] * tile.buffer.bits // 8, 1), hw.tma.request_bytes) if box else hw.tma.request_bytes
    if node.attrs.get("reduce"):
        direction, issue = "atomic", hw.tma.reduce_issue_cycles
    return Demand([
        warp({"issue": 4 * count}, hold_cycles=count * issue),
        memory(_bulk(node, hw, at, direction, "sm_to_l2", 0.0, write_bytes=hw.l2.sector_bytes, port_work=_with_header(row, hw))),
    ])


@demand("cp_async")
def cp_async(node: Node, hw: Hardware) -> Demand:
    """cp.async: issued by every lane, lands in shared memory without passing registers."""
    at, tile = _tile(node, scope_global=True)
    count = _instructions(node, tile.nbytes, hw)
    target = next((t for t in node.writes if t.buffer.scope == "shared"), None)
    factor = lane_factor(node, target, hw, int(node.attrs.get("access_bytes", 16))) if target is not None else 1.0
    return Demand([
        warp({"issue": count}, hold_cycles=count / len(node.warps) * hw.cp_async.issue_cycles),
        memory(MemoryAccess(at, "load", "lsu", "l2_to_sm", "lsu", hw.l2.line_bytes, sink="smem", sink_work=factor,
                            merge_rows=True)),
    ])


@demand("global_load")
def global_load(node: Node, hw: Hardware) -> Demand:
    """ld.global into registers. The data enters the L1 cache, which is one memory with shared memory, and is read from there.
    Where lanes want the same elements again, their loads find them there and take a wavefront each, or one for four sectors where
    the lanes of an instruction reach different lines. Where a branch stands between the loads of one element and the next
    (`rounds`), each waits for the one before: a hit in L1, or where a part of each sector is wanted at a time, its share of a
    miss."""
    at, tile = _tile(node, scope_global=True)
    count = _instructions(node, tile.nbytes, hw)
    wavefronts = ceil(max(int(node.attrs.get("lines", 1)), 1) * hw.l2.sector_bytes / hw.l2.line_bytes)
    again = (count - count / max(float(node.attrs.get("copies", 1.0)), 1.0)) * wavefronts
    rounds = max(int(node.attrs.get("rounds", 1)), 1) - 1
    missed = min(int(node.attrs.get("row_bytes", hw.l2.sector_bytes)) / hw.l2.sector_bytes, 1.0)
    each = (hw.l1.latency_cycles + missed * (hw.l2.latency_near_cycles - hw.l1.latency_cycles)
            + hw.control.int_op_cycles + 2 * hw.control.alu_latency_cycles)
    return Demand([
        warp({"issue": count, **({"lsu": again, "smem": again * hw.l2.line_bytes} if again else {})}),
        memory(MemoryAccess(at, "load", "lsu", "l2_to_sm", "lsu", hw.l2.line_bytes, sink="smem", sink_work=2.0, merge_rows=True),
               latency_cycles=max(rounds * each - again, 0.0)),
    ])


@demand("global_store")
def global_store(node: Node, hw: Hardware) -> Demand:
    """st.global from registers. A warp instruction makes one request a row that it touches; a request takes whole sectors. Where
    two conditions stand around each store (`rounds`), both are branches and the address is computed anew behind them (SASS of
    ptxas 13.0: some eight dependent integer operations); stores leave meanwhile."""
    return _register_store(node, hw, "store")


@demand("atomic")
def atomic(node: Node, hw: Hardware) -> Demand:
    """red/atom at the L2: like a store, but the L2 reads before it writes."""
    return _register_store(node, hw, "atomic")


def _register_store(node: Node, hw: Hardware, direction: str) -> Demand:
    at, tile = _tile(node, scope_global=True)
    row = max(1, min(int(node.attrs.get("row_bytes", hw.l2.line_bytes)), hw.l2.line_bytes))
    sector = hw.l2.sector_bytes
    behind = int(node.attrs.get("rounds", 0)) * (2 * hw.control.branch_cycles + 8 * hw.control.int_op_cycles)
    header = _with_header(row, hw)
    leaving = tile.nbytes / row * -(-row // sector) * sector * header / hw.resources["sm_to_l2"].rate_per_cycle
    return Demand([
        warp({"issue": _instructions(node, tile.nbytes, hw)}, hold_cycles=max(behind - leaving, 0.0)),
        memory(MemoryAccess(at, direction, "lsu", "sm_to_l2", "lsu", row, write_bytes=-(-row // sector) * sector,
                            port_work=header, merge_rows=row >= hw.l2.line_bytes)),
    ])
