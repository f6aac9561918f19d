"""CUDA-core work: element-wise arithmetic, reductions, scalar control."""

from __future__ import annotations

from ...graph import Node
from ...graph.nodes.simt import OPS
from ...hwconfigs import Hardware
from ..demand import Demand, demand, warp

#: BSSY, BRA and BSYNC around code that some lanes skip (SASS of ptxas 13.0)
_BRANCH_INSTRUCTIONS = 3


def _pipes(node: Node, hw: Hardware) -> dict[str, float]:
    """Lane work by pipe and warp instructions for the element counts of `node`."""
    count = int(node.attrs["elements"])
    ops = {op: count * float(node.attrs.get(op, 0.0)) for op in OPS}
    ops["alu"] += ops.pop("int")
    uses = {pipe: work for pipe, work in ops.items() if work > 0}
    branches = _BRANCH_INSTRUCTIONS * count * float(node.attrs.get("branches", 0.0))
    uses["issue"] = max((sum(uses.values()) + branches) / hw.sm.warp_threads, float(len(node.warps)))
    return uses


@demand("elementwise")
def elementwise(node: Node, hw: Hardware) -> Demand:
    """Every pipe works at its own rate; the result is there a dependent chain after the last issue. Elements that branch wait
    for each other: the chain around their branches comes again for each."""
    alu, sfu = hw.control.alu_latency_cycles, hw.control.sfu_latency_cycles
    latency = int(node.attrs.get("depth", 1)) * alu + (sfu if node.attrs.get("sfu") else 0.0)
    if node.attrs.get("shuffle"):
        latency += hw.control.shuffle_latency_cycles
    again = int(node.attrs.get("serial_depth", 0)) * alu + int(node.attrs.get("serial_sfu", 0)) * sfu
    return Demand([warp(_pipes(node, hw), latency_cycles=latency + (int(node.attrs.get("serial", 1)) - 1) * again)])


@demand("fill")
def fill(node: Node, hw: Hardware) -> Demand:
    """Registers are cleared two at a time (CS2R, seen in the SASS of ptxas 13.0)."""
    instructions = max(int(node.attrs["elements"]) / (2 * hw.sm.warp_threads), float(len(node.warps)))
    shared = sum(t.nbytes for t in node.writes if t.buffer.scope == "shared")
    uses = {"issue": instructions, **({"smem": shared} if shared else {})}
    return Demand([warp(uses, latency_cycles=hw.control.alu_latency_cycles)])


@demand("reduce")
def reduce(node: Node, hw: Hardware) -> Demand:
    """Each thread folds its own elements, then the lanes that share a result exchange partial ones, a step at a time."""
    steps = int(node.attrs.get("shuffle_steps", 0))
    uses = _pipes(node, hw)
    if steps:
        lanes = int(node.attrs.get("results", 1)) * 2**steps * steps
        uses["shuffle"] = uses.get("shuffle", 0.0) + lanes
        uses["alu"] = uses.get("alu", 0.0) + lanes
        uses["issue"] += 2 * lanes / hw.sm.warp_threads
    latency = hw.control.alu_latency_cycles + steps * (hw.control.shuffle_latency_cycles + hw.control.alu_latency_cycles)
    return Demand([warp(uses, latency_cycles=latency)])


@demand("scan")
def scan(node: Node, hw: Hardware) -> Demand:
    """A warp scans 32 elements in five shuffle steps, then the carry goes to the next piece."""
    steps, pieces = int(node.attrs.get("shuffle_steps", 5)), int(node.attrs.get("pieces", 1))
    step = hw.control.shuffle_latency_cycles + hw.control.alu_latency_cycles
    return Demand([warp(_pipes(node, hw), latency_cycles=steps * step + (pieces - 1) * step)])


@demand("control")
def control(node: Node, hw: Hardware) -> Demand:
    """A dependent chain of integer operations and branches; nothing of it overlaps within its warp."""
    ops, branches = int(node.attrs.get("int_ops", 0)), int(node.attrs.get("branches", 0))
    held = ops * hw.control.int_op_cycles + branches * hw.control.branch_cycles
    return Demand([warp({"issue": len(node.warps) * (ops + 3 * branches)}, hold_cycles=0.0,
                        latency_cycles=max(0.0, held - ops - 3 * branches))])


@demand("setmaxnreg")
def setmaxnreg(node: Node, hw: Hardware) -> Demand:
    """Register reallocation; the pool is large enough where the occupancy was computed for it."""
    return Demand([warp({"issue": len(node.warps)}, latency_cycles=hw.control.setmaxnreg_cycles)])


@demand("opaque")
def opaque(node: Node, hw: Hardware) -> Demand:
    """A statement that the frontend could not interpret costs nothing (and is listed in the report)."""
    return Demand([])
