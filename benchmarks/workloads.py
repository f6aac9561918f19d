"""Kernels that the speed benchmarks simulate: the examples, lowered, and two written as graphs.

The four of `SCALING` are those of the parallel GPGPU-Sim study (compute-bound GEMM, vector addition, Monte-Carlo estimate of pi,
histogram in the shared memory of clusters of 16), large enough that `line` fidelity takes some seconds on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gtsim.graph import KernelGraph, TileGraphBuilder

import gtsim

HW = "h200_sxm"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))


def gemm(size: int, hw: str = HW) -> KernelGraph:
    """A square fp16 GEMM (examples/gemm.py)."""
    from gemm import gemm as kernel

    return gtsim.lower(kernel, (), {"M": size, "N": size, "K": size}, hw=hw)


def attention(tokens: int = 16384, heads: int = 32, hw: str = HW) -> KernelGraph:
    """FlashAttention forward, causal (examples/flash_attention.py)."""
    from flash_attention import flash_attention

    sizes = {"batch": 1, "heads": heads, "kv_heads": heads, "seq_q": tokens, "seq_kv": tokens, "causal": True}
    return gtsim.lower(flash_attention, (), sizes, hw=hw)


def vector_add(rows: int = 8192) -> KernelGraph:
    """Two fp32 tensors of `rows` x 4096 elements are added (examples/elementwise.py)."""
    from elementwise import add_relu

    return gtsim.lower(add_relu, (), {"M": rows, "N": 4096, "dtype": "float32"}, hw=HW)


def monte_carlo(ctas: int = 132 * 8, rounds: int = 400) -> KernelGraph:
    """Points from a linear congruential generator, counted by warp, summed in shared memory, added up by one atomic a CTA."""
    warps = 8
    b = TileGraphBuilder("monte_carlo", grid=(ctas, 1, 1), threads=32 * warps, registers_per_thread=32, arch="sm_90a")
    total = b.tensor("total", (ctas, 32), "float32")
    part = b.buffer("part", (warps, 32), "float32", scope="shared")
    own = b.buffer("own", (32,), "float32", scope="fragment")
    t = b.template()
    block = t.column("block")
    segment = t.repeat(rounds)
    for period in range(2):
        t.segment = segment + period
        for w in range(warps):
            points = {"elements": 32 * 16, "int": 4.0, "fma": 2.0, "alu": 2.0, "cvt": 2.0, "depth": 8}
            t.node("elementwise", [w], reads=[own.tile()], writes=[own.tile()], attrs=points, source="points",
                   loop=f"round={period}")
    t.segment = segment + 2
    for w in range(warps):
        t.node("reduce", [w], reads=[own.tile()], writes=[own.tile()], source="sum of a warp",
               attrs={"elements": 32, "fma": 1.0, "shuffle_steps": 5, "op": "sum"})
        t.node("shared_store", [w], reads=[own.tile()], writes=[part.tile((w, 0), (1, 32))])
    t.node("cta_sync", range(warps))
    t.node("shared_load", [0], reads=[part.tile()], writes=[own.tile()])
    t.node("atomic", [0], reads=[own.tile()], writes=[total.tile((block, 0), (1, 32))], source="sum of a CTA")
    b.add_instances(t, [(i, 0, 0) for i in range(ctas)], {"block": list(range(ctas))})
    return b.build()


def histogram(clusters: int = 64, rounds: int = 12, size: int = 16) -> KernelGraph:
    """Each CTA of a cluster of `size` holds some of the bins; every round it reads a tile and adds to the bins of all others."""
    warps = 8
    b = TileGraphBuilder("histogram", grid=(size * clusters, 1, 1), cluster=(size, 1, 1), threads=32 * warps, arch="sm_90a",
                         registers_per_thread=64)
    x = b.tensor("x", (size * clusters * rounds * 64, 256), "int8")
    result = b.tensor("bins", (size * clusters, 256), "int32")
    bins = b.buffer("bins_s", (size, 256), "int32", scope="shared")
    own = b.buffer("own", (64, 256), "int8", scope="fragment")
    t = b.template()
    row, block = t.column("row"), t.column("block")
    for k in range(rounds):
        for cta in range(size):
            where: dict[str, Any] = {"cta": cta, "loop": f"round={k}"}
            t.node("global_load", range(warps), reads=[x.tile((row + 64 * (cta * rounds + k), 0), (64, 256))],
                   writes=[own.tile()], **where)
            t.node("elementwise", range(warps), reads=[own.tile()], writes=[own.tile()], source="bin of a value",
                   attrs={"elements": 64 * 256, "int": 2.0, "depth": 2}, **where)
            for step in range(1, size):
                other = (cta + step) % size
                t.node("dsmem_store", [step % warps], reads=[own.tile()], writes=[bins.tile((cta, 0), (1, 256), cta=other)],
                       source="add to bins", **where)
    for cta in range(size):
        t.cluster_sync(range(warps), cta=cta)
    for cta in range(size):
        t.node("shared_load", range(warps), reads=[bins.tile()], writes=[own.tile()], cta=cta)
        t.node("global_store", range(warps), reads=[own.tile()], writes=[result.tile((block + cta, 0), (1, 256))], cta=cta)
    first = [i * size for i in range(clusters)]
    b.add_instances(t, [(i, 0, 0) for i in first], {"row": [64 * rounds * i for i in first], "block": first})
    return b.build(check=False)  # adding to bins needs no order, which the check cannot know


SCALING: dict[str, Callable[[], KernelGraph]] = {
    "gemm 2048^3": lambda: gemm(2048),
    "vector add": vector_add,
    "monte carlo": monte_carlo,
    "dsmem histogram": histogram,
}
