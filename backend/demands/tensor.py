"""Tensor cores: wgmma runs asynchronously on all four of an SM, mma.sync in each warp's own."""

from __future__ import annotations

import re

from ...graph import Node, canonical_dtype, dtype_bits
from ...hwconfigs import Hardware
from ..demand import Demand, demand, unit, warp
from ..errors import SimulationError
from .shared import matrix_factor

#: Bits of K that one instruction takes in a row (PTX ISA: wgmma k16 for 16-bit, k32 for 8-bit, k8 for tf32 types).
WGMMA_K_BITS = 256
#: Instructions around those of a group: fence, commit, descriptor moves (assumed).
FRAME_INSTRUCTIONS = 4
#: FLOP of mma.sync m16n8k16, the shape whose interval the hardware files state.
MMA_REFERENCE_FLOP = 2 * 16 * 8 * 16
#: Names of the rate classes in the hardware files.
_CLASSES = {"float16": "fp16", "bfloat16": "bf16", "float32": "tf32", "tfloat32": "tf32", "int8": "int8", "uint8": "int8",
            "int4": "int4", "uint4": "int4"}


def rate_class(dtype: str) -> str:
    """The key of `tensor.rate_vs_16bit` for an operand type: `float8_e4m3fn` -> `fp8`."""
    name = canonical_dtype(dtype)
    return "fp8" if name.startswith("float8") else _CLASSES.get(name, name)


def flop16(node: Node, hw: Hardware, flop: float) -> float:
    """`flop` scaled to the 16-bit rate.

    Raises:
        SimulationError: the tensor cores of `hw` do not take the node's operand type.
    """
    rate = hw.tensor.rate_vs_16bit.get(rate_class(node.attrs["dtype"]))
    if not rate:
        raise SimulationError(
            f"{hw.name} has no tensor-core rate for {node.attrs['dtype']} ({node.label()}). "
            f"It knows {', '.join(hw.tensor.rate_vs_16bit)}."
        )
    return flop / rate


def shape_of(node: Node) -> tuple[int, int, int]:
    """m, n, k of the node's instruction."""
    match = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", str(node.attrs.get("instruction", "")))
    if not match:
        raise SimulationError(
            f"{node.label()}: attribute 'instruction' must look like m64n128k16, got {node.attrs.get('instruction')!r}"
        )
    m, n, k = map(int, match.groups())
    return m, n, k


def skipped(node: Node) -> int:
    """Products of a sparse wgmma for each one that is computed: it takes the time of half its depth (PTX ISA,
    wgmma.mma_async.sp: 2:4 structured sparsity)."""
    return 2 if node.attrs.get("sparse", False) else 1


@demand("wgmma")
def wgmma(node: Node, hw: Hardware) -> Demand:
    """Interval of an instruction = max(N/2, operand fetch); fetch of SS is (64 + N) rows of 32 bytes (PARAMETERS formula 1).
    The tensor cores start with the first instruction (PTX ISA: wgmma.mma_async is asynchronous), the others issue meanwhile."""
    if not hw.wgmma.supported:
        raise SimulationError(f"{hw.name} has no wgmma ({node.label()}). Compile the kernel for {hw.chip.arch}.")
    register_a = bool(node.attrs.get("a_register", False))
    m, n, k = shape_of(node)
    skip = skipped(node)
    total = 2 * node.attrs["m"] * node.attrs["n"] * node.attrs["k"]
    count = int(node.attrs.get("instructions", max(1, total // (2 * m * n * k))))
    row_bytes = k * dtype_bits(node.attrs["dtype"]) // 8
    a_factor, b_factor = (matrix_factor(t, hw) for t in node.reads[:2]) if len(node.reads) > 1 else (1.0, 1.0)
    operands = count * ((0 if register_a else m) / skip * a_factor + n * b_factor) * row_bytes
    issue = hw.wgmma.issue_rs_cycles if register_a else hw.wgmma.issue_cycles
    setup = hw.wgmma.setup_cycles if node.attrs.get("setup", True) else 0.0
    tail = hw.wgmma.tail_rs_cycles if register_a else hw.wgmma.tail_cycles
    return Demand(
        [
            warp({"issue": len(node.warps) * (FRAME_INSTRUCTIONS + 1)}, hold_cycles=setup + issue),
            unit({"tensor": flop16(node, hw, count * 2 * m * n * k / skip), "smem": operands,
                  "issue": len(node.warps) * (count - 1)}, latency_cycles=tail, pieces=count, queue=node.warps[0]),
        ]
    )


@demand("mma")
def mma(node: Node, hw: Hardware) -> Demand:
    """mma.sync at its measured interval, with the ldmatrix traffic of its operands."""
    m, n, k = shape_of(node)
    warps = len(node.warps)
    per_warp = int(
        node.attrs.get("instructions", max(1, node.attrs["m"] * node.attrs["n"] * node.attrs["k"] // (m * n * k * warps)))
    )
    speedup = hw.mma.sparse_speedup if node.attrs.get("sparse", False) else 1.0
    scale = flop16(node, hw, 2 * m * n * k / speedup) / MMA_REFERENCE_FLOP
    cycles = per_warp * scale * hw.mma.interval_m16n8k16_cycles
    read = int(node.attrs.get("smem_bytes", 0))
    ldmatrix = read / 512  # ldmatrix.x4 moves 512 bytes (PTX ISA)
    smem = read * _operand_factor(node, hw)
    return Demand(
        [
            warp(
                {
                    "issue": warps * per_warp + ldmatrix,
                    "tensor": warps * cycles * hw.resources["tensor"].rate_per_cycle,
                    "smem": smem,
                },
                latency_cycles=hw.mma.latency_cycles + (hw.mma.ldmatrix_latency_cycles if smem else 0),
            )
        ]
    )


def _operand_factor(node: Node, hw: Hardware) -> float:
    """Bank conflicts of both operands together, by the sizes of their tiles."""
    shared = [t for t in node.reads[:2] if t.buffer.scope == "shared"]
    nbytes = sum(t.nbytes for t in shared)
    return sum(t.nbytes * matrix_factor(t, hw) for t in shared) / nbytes if nbytes else 1.0
