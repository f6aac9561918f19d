"""The result does not depend on how many threads execute the shards: bit for bit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from gtsim.backend import Result, SimulationError, simulate
from gtsim.graph import KernelGraph
from hypothesis import given, settings
from hypothesis import strategies as st

from .kernels import PLAIN, Kernel, gemm

THREADS = (2, 4, 8)


def fields(result: Result) -> dict[str, Any]:
    """All that is simulated: not the host's seconds, nor the number of threads itself."""
    out = asdict(result)
    del out["seconds"], out["parameters"]
    return out


def assert_same(one: Result, other: Result) -> None:
    a, b = fields(one), fields(other)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_equal(a[name], b[name], err_msg=name)


def check(graph: KernelGraph, hw: str = "h100_sxm", **options: Any) -> None:
    alone = simulate(graph, hw, **options)
    for threads in THREADS:
        assert_same(alone, simulate(graph, hw, threads=threads, **options))


@pytest.mark.parametrize("fidelity", ["bulk", "line", "fast"])
def test_gemm(fidelity: str) -> None:
    check(gemm(1024, 2048, 256, consumers=2), fidelity=fidelity)


def test_waves_without_a_gap() -> None:
    """Places free at different times, and the next CTA starts at that very moment: order and times stay."""
    k = Kernel(ctas=1000, registers_per_thread=255)
    x = k.b.tensor("x", (1000 * 64,), "float32")
    f = k.b.buffer("f", (64,), "float32", scope="fragment")
    k.t.node("global_load", [0], reads=[x.tile((k.t.column("i"),), (64,))], writes=[f.tile()])
    k.work(37)
    check(k.graph({"i": [(i * i % 1000) * 64 for i in range(1000)]}), overrides=PLAIN)


@pytest.mark.parametrize("sync_us", [0.0, 0.5])
def test_grid_barrier(sync_us: float) -> None:
    k = Kernel(ctas=132)
    x = k.b.tensor("x", (132 * 128,), "float32")
    f = k.b.buffer("f", (128,), "float32", scope="fragment")
    for _ in range(3):
        k.t.node("global_load", [0], reads=[x.tile((k.t.column("i"),), (128,))], writes=[f.tile()])
        k.t.node("grid_sync", [0])
    check(k.graph({"i": [i * 128 for i in range(132)]}), overrides={**PLAIN, "launch.grid_sync_us": sync_us})


def test_a_chip_of_one_sm_and_more_threads_than_shards() -> None:
    check(gemm(256, 256, 128), overrides={"chip.sm_count": 1, "chip.gpc_sms": [1]})


def test_a_resource_of_the_chip() -> None:
    """What all SMs share is served in one order, whatever the threads."""
    k = Kernel(ctas=300, registers_per_thread=255)
    k.work(20)
    k.work(3, resource="shared_by_all")
    chip = {"resources.shared_by_all": {"scope": "chip", "rate_per_cycle": 1, "unit": "cycle"}}
    check(k.graph(), overrides={**PLAIN, **chip})


STEP = st.tuples(st.sampled_from(["load", "store", "atomic", "work", "unit"]), st.integers(0, 3), st.integers(0, 200))


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=12), ctas=st.integers(1, 400), gap=st.sampled_from([0, 5, 1200]),
       fidelity=st.sampled_from(["bulk", "line"]), policy=st.sampled_from(["gto", "lrr", "oldest"]))
def test_random_programs(steps: list[tuple[str, int, int]], ctas: int, gap: int, fidelity: str, policy: str) -> None:
    k = Kernel(ctas=ctas)
    x = k.b.tensor("x", (ctas * 40 + 256,), "float32")
    f = k.b.buffer("f", (160,), "float32", scope="fragment")
    for kind, warp, amount in steps:
        if kind in ("work", "unit"):
            k.work(amount, warps=(warp,), type=f"test_{kind}")
            continue
        tile, own = x.tile((k.t.column("i"),), (160,)), f.tile()
        node = {"load": "global_load", "store": "global_store", "atomic": "atomic"}[kind]
        k.t.node(node, [warp], reads=[tile] if kind == "load" else [own], writes=[own] if kind == "load" else [tile])
    graph = k.b
    graph.add_instances(k.t, [(i, 0, 0) for i in range(ctas)], {"i": [i * 40 for i in range(ctas)]})
    check(graph.build(check=False), overrides={**PLAIN, "launch.cta_gap_cycles": gap}, fidelity=fidelity, policy=policy)


@settings(max_examples=10, deadline=None)
@given(clusters=st.integers(1, 40), size=st.sampled_from([2, 4]), works=st.lists(st.integers(0, 200), min_size=1, max_size=6))
def test_random_clusters(clusters: int, size: int, works: list[int]) -> None:
    k = Kernel(ctas=size * clusters, cluster=(size, 1, 1), arch="sm_90a", registers_per_thread=255)
    s = k.b.buffer("s", (4, 64), "float32", scope="shared")
    f = k.b.buffer("f", (64,), "float32", scope="fragment")
    for i, cycles in enumerate(works):
        for cta in range(size):
            k.t.node("test_work", [0], attrs={"cycles": float(cycles * (cta + 1))}, cta=cta)
            there = s.tile((i % 4, 0), (1, 64), cta=(cta + 1) % size)
            k.t.node("dsmem_store", range(4), reads=[f.tile()], writes=[there], cta=cta)
            k.t.cluster_sync(range(4), cta=cta)
    k.b.add_instances(k.t, [(i * size, 0, 0) for i in range(clusters)])
    check(k.b.build(check=False), "h200_sxm", overrides=PLAIN)


def test_many_short_runs_end() -> None:
    """Threads that are late for the end of a run do not wait for more."""
    kernel = Kernel()
    kernel.work(5)
    graph = kernel.graph()
    cycles = {simulate(graph, overrides=PLAIN, threads=threads).cycles for threads in (3, 3, 32) for _ in range(300)}
    assert len(cycles) == 1


@pytest.mark.parametrize("threads", [0, -1, 65])
def test_a_number_of_threads_out_of_range_is_refused(threads: int) -> None:
    with pytest.raises(SimulationError, match=f"threads={threads} is not between 1 and 64"):
        simulate(gemm(256, 256, 128), threads=threads)
