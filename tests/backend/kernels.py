"""Hand-built kernels whose timing can be computed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gtsim.backend import Demand, Result, demand, simulate, unit, warp
from gtsim.graph import Attr, KernelGraph, Node, NodeType, TemplateBuilder, TileGraphBuilder, register_node_type
from gtsim.hwconfigs import Hardware

#: Overrides that make the machine plain: no launch costs, so that every cycle in a test is accounted for.
PLAIN: Mapping[str, Any] = {
    "launch.kernel_us": 0.0,
    "launch.cta_gap_cycles": 0,
    "launch.cta_dispatch_cycles": 0,
    "resources.probe": {"scope": "sm", "rate_per_cycle": 1, "unit": "cycle"},
    "resources.lane": {"scope": "subpartition", "rate_per_cycle": 1, "unit": "cycle"},
}

_ATTRS = {
    "cycles": Attr(float, "work on the resource"),
    "latency": Attr(float, "latency behind it"),
    "resource": Attr(str, "the resource"),
    "hold": Attr(float, "cycles that the warps are held beyond the work"),
}
for _name, _blocking in (("test_work", False), ("test_sync_work", True), ("test_unit", False), ("test_two_pipes", False)):
    register_node_type(NodeType(_name, "test operation", "test", _ATTRS, blocking=_blocking), replace=True)


@demand("test_work", replace=True)
def _work(node: Node, hw: Hardware) -> Demand:
    return Demand(
        [
            warp(
                {node.attrs.get("resource", "probe"): node.attrs.get("cycles", 0.0)},
                hold_cycles=node.attrs.get("hold", 0.0),
                latency_cycles=node.attrs.get("latency", 0.0),
            )
        ]
    )


@demand("test_sync_work", replace=True)
def _sync_work(node: Node, hw: Hardware) -> Demand:
    return _work(node, hw)


@demand("test_two_pipes", replace=True)
def _two_pipes(node: Node, hw: Hardware) -> Demand:
    return Demand([warp({"lane": node.attrs["cycles"], "other": node.attrs["cycles"]})])


@demand("test_unit", replace=True)
def _unit(node: Node, hw: Hardware) -> Demand:
    return Demand(
        [
            unit(
                {node.attrs.get("resource", "probe"): node.attrs.get("cycles", 0.0)},
                latency_cycles=node.attrs.get("latency", 0.0),
            )
        ]
    )


class Kernel:
    """A kernel of identical CTAs; `t` takes its nodes."""

    def __init__(self, ctas: int = 1, threads: int = 128, **launch: Any) -> None:
        self.b = TileGraphBuilder("test", grid=(ctas, 1, 1), threads=threads, **launch)
        self.t: TemplateBuilder = self.b.template()
        self.ctas = ctas

    def work(self, cycles: float = 0.0, warps: Any = (0,), type: str = "test_work", role: str = "", **attrs: Any) -> int:
        """Append a test operation."""
        return self.t.node(type, warps, attrs={"cycles": float(cycles), **attrs}, role=role)

    def graph(self, columns: Mapping[str, Any] | None = None) -> KernelGraph:
        """The finished graph."""
        self.b.add_instances(self.t, [(i, 0, 0) for i in range(self.ctas)], columns)
        return self.b.build()

    def run(
        self,
        columns: Mapping[str, Any] | None = None,
        overrides: Mapping[str, Any] | None = None,
        hw: str = "h100_sxm",
        **options: Any,
    ) -> Result:
        """Simulate on the plain machine."""
        return simulate(self.graph(columns), hw, overrides={**PLAIN, **(overrides or {})}, **options)


def gemm(m: int, n: int, k: int, *, stages: int = 3, consumers: int = 1, dtype: str = "float16") -> KernelGraph:
    """A warp-specialised GEMM, 128 x 128 x 64 tiles: one TMA producer warp, `consumers` warpgroups, register epilogue."""
    bm = bn = 128
    bk = 64
    b = TileGraphBuilder(
        "gemm", grid=(-(-n // bn), -(-m // bm), 1), threads=128 * (1 + consumers), registers_per_thread=168, arch="sm_90a"
    )
    a_, b_, c_ = b.tensor("A", (m, k), dtype), b.tensor("B", (n, k), dtype), b.tensor("C", (m, n), dtype)
    a_s = b.buffer("a_s", (stages, bm, bk), dtype, scope="shared", swizzle_bytes=128)
    b_s = b.buffer("b_s", (stages, bn, bk), dtype, scope="shared", swizzle_bytes=128)
    acc = b.buffer("acc", (bm // consumers, bn), "float32", scope="fragment")
    full, empty = b.barrier("full", [1] * stages), b.barrier("empty", [128 * consumers] * stages)
    t = b.template()
    m0, n0 = t.column("m0"), t.column("n0")
    rows = bm // consumers
    for kt in range(-(-k // bk)):
        s, lap, loop = kt % stages, kt // stages, f"kt={kt}"
        t.node("barrier_wait", [0], attrs={"barrier": "empty"}, wait=(empty[s], lap % 2 ^ 1), role="producer", loop=loop)
        t.node(
            "tma_load",
            [0],
            reads=[a_.tile((m0, kt * bk), (bm, bk))],
            writes=[a_s.tile((s, 0, 0), (1, bm, bk))],
            tx=full[s],
            source="copy(A)",
            role="producer",
            loop=loop,
        )
        t.node(
            "tma_load",
            [0],
            reads=[b_.tile((n0, kt * bk), (bn, bk))],
            writes=[b_s.tile((s, 0, 0), (1, bn, bk))],
            tx=full[s],
            arrive=[(full[s], 1)],
            source="copy(B)",
            role="producer",
            loop=loop,
        )
    for g in range(consumers):
        warps, role = range(4 + 4 * g, 8 + 4 * g), f"consumer {g}"
        for kt in range(-(-k // bk)):
            s, lap, loop = kt % stages, kt // stages, f"kt={kt}"
            t.node("barrier_wait", warps, attrs={"barrier": "full"}, wait=(full[s], lap % 2), role=role, loop=loop)
            t.node(
                "wgmma",
                warps,
                reads=[a_s.tile((s, g * rows, 0), (1, rows, bk)), b_s.tile((s, 0, 0), (1, bn, bk)), acc.tile()],
                writes=[acc.tile()],
                blocking=True,
                source="gemm",
                role=role,
                loop=loop,
                attrs={
                    "m": rows,
                    "n": bn,
                    "k": bk,
                    "dtype": dtype,
                    "instruction": f"m64n{bn}k16",
                    "instructions": rows // 64 * (bk // 16),
                },
            )
            t.node(
                "barrier_arrive", warps, attrs={"barrier": "empty", "count": 128}, arrive=[(empty[s], 128)], role=role, loop=loop
            )
        t.node(
            "global_store",
            warps,
            reads=[acc.tile()],
            writes=[c_.tile((m0 + g * rows, n0), (rows, bn))],
            attrs={"access_bytes": 4, "row_bytes": 16},
            source="store C",
            role=role,
        )
    tiles = [(x, y) for y in range(-(-m // bm)) for x in range(-(-n // bn))]
    b.add_instances(t, [(x, y, 0) for x, y in tiles], {"m0": [bm * y for _, y in tiles], "n0": [bn * x for x, _ in tiles]})
    b.meta["flops"] = 2 * m * n * k
    return b.build()
