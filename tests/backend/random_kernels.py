"""Random valid kernels and machines for property tests and fuzzing: every kind of operation, edge and launch that a graph knows.

A kernel is a list of steps that are appended in one order for all warps, so that it always comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gtsim.backend import EarlyStart, Result, occupancy, simulate
from gtsim.graph import GraphError, KernelGraph, TileGraphBuilder
from gtsim.hwconfigs import Hardware, load_hardware
from hypothesis import strategies as st

from .kernels import PLAIN

WARPS = 8
ROWS, COLUMNS = 96, 72
#: Resources of every scope that test operations may take work on.
PROBES: dict[str, Any] = {
    "resources.pair": {"scope": "tpc", "rate_per_cycle": 0.7, "unit": "cycle"},
    "resources.group": {"scope": "gpc", "rate_per_cycle": 3, "unit": "cycle"},
    "resources.whole": {"scope": "chip", "rate_per_cycle": 5.5, "unit": "cycle"},
}
SCOPES = ("probe", "lane", "pair", "group", "whole")


class Case:
    """A kernel, the machine it runs on, and how it is simulated. `start`, of a kernel in the shadow of others: when its wait
    passes, and when places are free."""

    def __init__(self, graph: KernelGraph, overrides: dict[str, Any], options: dict[str, Any],
                 start: tuple[float, list[float]] | None = None) -> None:
        self.graph, self.overrides, self.options, self.start = graph, overrides, options, start
        self.hw: Hardware = load_hardware("h200_sxm", overrides)

    def __repr__(self) -> str:
        lines = [f"{len(self.graph.instances)} instances of {self.graph.launch}"]
        for t in self.graph.templates:
            lines.append(f"  repeats {t.repeat_first.tolist()} {t.repeat_nodes.tolist()} {t.repeat_times.tolist()}")
            for node in self.graph.nodes_of(t):
                edges = slice(int(t.edge_ptr[node.index]), int(t.edge_ptr[node.index + 1]))
                tiles = [(x.buffer.name, x.mode, x.offset, x.extent) for x in node.tiles]
                lines.append(f"  {node.label()} CTA {node.cta} warps {node.warps} {dict(node.attrs)} {tiles} -> "
                             f"{list(zip(t.edge_dst[edges].tolist(), t.edge_kind[edges].tolist(), strict=True))}")
        new = {k: v for k, v in self.overrides.items() if k not in PLAIN and k not in PROBES}
        return "\n".join([*lines, f"  {new} {self.options} {self.start}"])

    def early(self) -> EarlyStart | None:
        """What earlier kernels leave, for the places that this kernel has."""
        if self.start is None:
            return None
        shape = (occupancy(self.graph, self.hw).ctas_per_sm, self.hw.chip.sm_count)
        return EarlyStart(self.start[0], np.resize(np.array(self.start[1]), shape))

    def run(self, graph: KernelGraph | None = None, **options: Any) -> Result:
        """Simulate it, or another graph the same way."""
        return simulate(graph or self.graph, self.hw, start=self.early(), **{**self.options, **options})


def machines(fixed: dict[str, Any] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """Overrides for a small machine whose parameters may be anything within reason."""
    cycles, rate = st.integers(0, 600), st.sampled_from([0.25, 1, 3.5, 17, 64, 4000])
    usual: dict[str, st.SearchStrategy[Any]] = {
        "launch.kernel_us": st.sampled_from([0.0, 0.5]),
        "launch.cta_gap_cycles": cycles,
        "launch.cta_dispatch_cycles": st.sampled_from([0.0, 1.1, 40.0]),
        "l2.latency_near_cycles": cycles,
        "l2.latency_far_cycles": cycles,
        "l2.capacity_bytes": st.sampled_from([4096, 1 << 16, 50 << 20]),
        "l2.dirty_at_start": st.sampled_from([0.0, 0.5, 1.0]),
        "l2.hash": st.sampled_from(["plain", "xor"]),
        "l2.remote_copy": st.booleans(),
        "l2.coalescer": st.booleans(),
        "l2.coalescer_sms": st.integers(1, 4),
        "l2.mshr_per_slice": st.sampled_from([1, 5, 256]),
        "dram.banks": st.sampled_from([1, 32]),
        "dram.row_bytes": st.sampled_from([128, 1024]),
        "dram.row_cycle_ns": st.sampled_from([0.0, 47.3, 400.0]),
        "dram.latency_cycles": cycles,
        "dram.turnaround_fraction": st.sampled_from([0.0, 0.3]),
        "dram.peak_gbs": st.sampled_from([1.0, 300.0, 4800.0]),
        "tma.inflight_lines": st.sampled_from([1, 7, 384]),
        "tma.launch_cycles": cycles,
        "lsu.inflight_sectors": st.sampled_from([1, 40, 2048]),
        "mbarrier.wait_cycles": st.integers(0, 60),
        "cluster.barrier_cycles": cycles,
        **{f"resources.{name}.rate_per_cycle": rate for name in
           ("issue", "smem", "tma", "lsu", "l2", "l2_write", "l2_to_sm", "sm_to_l2", "sm_to_sm_in", "sm_to_sm_out")},
    }
    chip = st.lists(st.integers(1, 6), max_size=2).map(  # the first GPC holds any cluster
        lambda gpcs: {"chip.sm_count": 4 + sum(gpcs), "chip.gpc_sms": [4, *gpcs]})
    chosen = st.lists(st.sampled_from(sorted(usual)), max_size=14, unique=True).flatmap(
        lambda keys: st.fixed_dictionaries({key: usual[key] for key in keys}))
    return st.tuples(chip, chosen).map(lambda parts: {**PLAIN, **PROBES, **parts[0], **parts[1], **(fixed or {})})


OPTIONS = st.fixed_dictionaries({"policy": st.sampled_from(["gto", "lrr", "oldest"]),
                                 "fidelity": st.sampled_from(["bulk", "line", "fast"])})
#: Warps that execute an operation together.
TEAMS = st.sampled_from([(0,), (1,), (5,), (0, 4), (2, 6), (0, 1, 2, 3), (4, 5, 6, 7), tuple(range(WARPS))])
TILE = st.tuples(st.integers(-20, ROWS), st.integers(-20, COLUMNS), st.integers(1, 40), st.integers(1, 80))


def steps(*kinds: str) -> st.SearchStrategy[tuple[Any, ...]]:
    """One step of a program: (kind, CTA of the cluster, another CTA, warps, tile, resource, work, latency)."""
    return st.tuples(st.sampled_from(kinds), st.integers(0, 3), st.integers(0, 3), TEAMS, TILE, st.sampled_from(SCOPES),
                     st.integers(0, 400), st.integers(0, 200))


WORK = ("test_work", "test_sync_work", "test_unit", "held", "elementwise", "cta_sync", "fence")
MEMORY = ("global_load", "global_store", "atomic", "cp_async", "tma_load", "tma_store", "tma_reduce")
CLUSTER = ("cluster_sync", "signal", "dsmem_load", "dsmem_store", "dsmem_copy", "multicast")
STREAM = ("pdl_trigger", "pdl_wait")


class Program:
    """Appends steps to a template."""

    def __init__(self, size: int, ctas: int, dtype: str, pad: int, smem: int, registers: int) -> None:
        arch = {"arch": "sm_90a"} if size > 1 else {}
        self.b = TileGraphBuilder("random", grid=(size * ctas, 1, 1), cluster=(size, 1, 1), threads=32 * WARPS, smem_bytes=smem,
                                  registers_per_thread=registers, **arch)  # type: ignore[arg-type]
        self.size, self.t, self.barriers = size, self.b.template(), 0
        strides = (COLUMNS + pad, 1)
        self.x, self.y = (self.b.tensor(name, (ROWS, COLUMNS), dtype, strides=strides) for name in "xy")
        self.s = self.b.buffer("s", (8, 8), "float32", scope="shared")
        self.f = self.b.buffer("f", (8, 8), "float32", scope="fragment")

    def add(self, step: tuple[Any, ...], moved: int = 0) -> None:
        """Append one step; its tile in global memory lies `moved` rows further."""
        kind, cta, other, warps, (row, column, height, width), resource, work, latency = step
        cta, other = cta % self.size, other % self.size
        own: dict[str, Any] = {"cta": cta}
        attrs = {"cycles": float(work), "latency": float(latency), "resource": resource}
        origin = (self.t.column("row") + row + moved, column)
        x, y = self.x.tile(origin, (height, width)), self.y.tile(origin, (height, width))
        on_chip: Callable[..., Any] = self.s.tile
        node = self.t.node
        if kind in ("test_work", "test_sync_work", "test_unit"):
            node(kind, warps, attrs=attrs, **own)
        elif kind == "held":
            node("test_work", warps, attrs={**attrs, "hold": float(latency)}, **own)
        elif kind == "elementwise":
            node(kind, warps, attrs={"elements": 8 * work + 1, "fma": 1.5, "sfu": 0.25, "depth": 3}, **own)
        elif kind == "cta_sync":
            node(kind, range(WARPS), **own)
        elif kind == "fence":
            node(kind, warps, attrs={"kind": "proxy_async"}, **own)
        elif kind == "global_load":
            node(kind, warps, reads=[x], writes=[self.f.tile()], **own)
        elif kind in ("global_store", "atomic"):
            node(kind, warps, reads=[self.f.tile()], writes=[y], attrs={"row_bytes": 16 if work % 2 else 128}, **own)
        elif kind == "cp_async":
            node(kind, warps, reads=[x], writes=[on_chip()], group="cp_async", **own)
            self.t.commit("cp_async", warps, **own)
            self.t.wait_group("cp_async", 0, warps, **own)
        elif kind in ("tma_store", "tma_reduce"):
            more = {"attrs": {"reduce": True}} if kind == "tma_reduce" else {}
            node("tma_store", warps[:1], reads=[on_chip()], writes=[y], group="bulk", **more, **own)
            self.t.commit("bulk", warps[:1], node=False, **own)
            if latency % 2:
                self.t.wait_group("bulk", 0, warps[:1], **own)
        elif kind == "tma_load":
            full = self.barrier()[0]
            node(kind, [0], reads=[x], writes=[on_chip()], tx=full, arrive=[(full, 1)], **own)
            node("barrier_wait", warps, wait=(full, 0), **own)
        elif kind in STREAM:
            node(kind, warps, **own)
        else:
            self.across(kind, cta, other, warps, x)

    def across(self, kind: str, cta: int, other: int, warps: tuple[int, ...], x: Any) -> None:
        """A step that reaches other CTAs of the cluster."""
        node, here, there = self.t.node, {"cta": cta}, self.s.tile(cta=other)
        if kind == "cluster_sync":
            for rank in range(self.size):
                self.t.cluster_sync(range(WARPS), cta=rank)
        elif kind == "signal":
            bar = self.barrier()
            node("barrier_arrive", warps, arrive=[(bar.at(other)[0] if self.size > 1 else bar[0], 1)], **here)
            node("barrier_wait", warps, wait=(bar[0], 0), cta=other)
        elif kind == "multicast":
            bar = self.barrier()
            for rank in range(self.size):
                if rank != cta:
                    node("barrier_arrive", [0], attrs={"count": 1}, arrive=[(bar[0], 1)], expect=bar[0], cta=rank)
            others = [rank for rank in range(self.size) if rank != cta]
            node("tma_load", [0], reads=[x], writes=[self.s.tile(), *(self.s.tile(cta=r) for r in others)], tx=bar[0],
                 arrive=[(bar[0], 1)], deliver=[bar.at(r)[0] for r in others], **here)
            for rank in range(self.size):
                node("barrier_wait", warps, wait=(bar[0], 0), cta=rank)
        elif kind == "dsmem_load":
            node(kind, warps, reads=[there], writes=[self.f.tile()], **here)
        else:
            node(kind, warps[:1], reads=[self.s.tile() if kind == "dsmem_copy" else self.f.tile()], writes=[there], **here)

    def barrier(self) -> Any:
        """A fresh barrier: every phase of it is used once."""
        self.barriers += 1
        return self.b.barrier(f"bar{self.barriers}", [1])


@st.composite
def kernels(draw: st.DrawFn, *, repeats: bool = True, stream: bool = True, clusters: bool = True,
            fixed: dict[str, Any] | None = None) -> Case:
    """A random kernel on a random machine: steps, and in between loop bodies that repeat."""
    size = draw(st.sampled_from([1, 1, 1, 2, 4] if clusters else [1]))
    kinds = (*WORK, *MEMORY, *(CLUSTER if size > 1 else ()), *(STREAM if stream else ()))
    ctas = draw(st.integers(1, 24))
    smem, registers = draw(st.sampled_from([(1024, 32), (100000, 32), (200000, 64), (1024, 255)]))
    p = Program(size, ctas, draw(st.sampled_from(["float16", "float32", "int8"])), draw(st.integers(0, 9)), smem, registers)
    for step in draw(st.lists(steps(*kinds), min_size=1, max_size=12)):
        p.add(step)
    if repeats and draw(st.booleans()):
        body = draw(st.lists(steps(*WORK, "global_load", "cp_async", "global_store"), min_size=1, max_size=4))
        move = draw(st.sampled_from([0, 5, 16]))
        segment = p.t.repeat(p.t.column("times") if draw(st.booleans()) else draw(st.integers(1, 9)))
        for part in range(2):
            p.t.segment = segment + part
            for step in body:
                p.add(step, part * move)
        p.t.segment = segment + 2
        for step in draw(st.lists(steps(*kinds), max_size=4)):
            p.add(step)
    numbers = np.random.default_rng(draw(st.integers(0, 99)))
    columns = {"row": numbers.integers(-10, ROWS, ctas), "times": numbers.integers(1, 6, ctas)}
    p.b.add_instances(p.t, [(i * size, 0, 0) for i in range(ctas)], {k: columns[k] for k in p.t.columns})
    try:
        graph = p.b.build(check=False)
    except GraphError:  # the two periods of the loop body are not alike
        from hypothesis import reject

        reject()
    start = draw(st.none() | st.tuples(st.integers(0, 3000), st.lists(st.integers(0, 2000), min_size=1, max_size=9))) \
        if stream else None
    return Case(graph, draw(machines(fixed)), draw(OPTIONS), start)
