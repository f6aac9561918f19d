"""Clusters on the machine: what crosses SMs takes the time it must, and a cluster lies within one GPC."""

from __future__ import annotations

from typing import Any

import pytest
from gtsim.backend import Result, SimulationError, simulate
from gtsim.backend.occupancy import cluster_residency, gpcs, occupancy
from gtsim.graph import TileGraphBuilder
from gtsim.graph.clusters import clusters_at_once
from gtsim.hwconfigs import load_hardware

from .kernels import PLAIN, Kernel

HW = load_hardware("h200_sxm")
#: Issue and barriers inside an SM cost nothing, so that only what crosses SMs is left.
FREE = {"resources.issue.rate_per_cycle": 1000000, "mbarrier.wait_cycles": 0, "mbarrier.arrive_cycles": 0,
        "mbarrier.arrive_visible_cycles": 0, "resources.smem.rate_per_cycle": 100000}  # fmt: skip


def cluster(size: int = 2, clusters: int = 1, **launch: Any) -> Kernel:
    """A kernel of `clusters` clusters; its builder takes nodes of each rank."""
    kernel = Kernel(ctas=size * clusters, cluster=(size, 1, 1), arch="sm_90a", **launch)
    return kernel


def run(kernel: Kernel, overrides: dict[str, Any] | None = None, **options: Any) -> Result:
    size = kernel.b.cluster_ctas
    kernel.b.add_instances(kernel.t, [(i, 0, 0) for i in range(0, kernel.ctas, size)])
    return simulate(kernel.b.build(), "h200_sxm", overrides={**PLAIN, **FREE, **(overrides or {})}, **options)


@pytest.mark.parametrize(("relaxed", "key"), [(False, "barrier_cycles"), (True, "barrier_relaxed_cycles")])
@pytest.mark.parametrize("size", [2, 4, 16])
def test_the_cluster_barrier_opens_its_time_after_the_last_arrival(size: int, relaxed: bool, key: str) -> None:
    kernel = cluster(size)
    for cta in range(size):
        kernel.t.node("test_sync_work", [0], attrs={"cycles": 100.0 * (cta + 1)}, cta=cta)
        kernel.t.cluster_arrive(range(4), cta=cta, relaxed=relaxed)
        kernel.t.cluster_wait(range(4), cta=cta)
        kernel.t.node("test_sync_work", [0], attrs={"cycles": 50.0}, cta=cta)
    assert run(kernel).cycles == pytest.approx(100 * size + getattr(HW.cluster, key) + 50, abs=1)


def test_an_arrival_elsewhere_takes_the_way_between_sms() -> None:
    for cta, expected in ((0, 0.0), (1, HW.cluster.arrive_visible_cycles)):
        kernel = cluster()
        full = kernel.b.barrier("full", [1])
        kernel.t.node("test_sync_work", [0], cta=cta, attrs={"cycles": 10.0})
        kernel.t.node("barrier_arrive", [0], cta=cta, arrive=[(full.at(0)[0], 1)])
        kernel.t.node("barrier_wait", [1], cta=0, wait=(full[0], 0))
        assert run(kernel).cycles == pytest.approx(10 + expected, abs=1)


def exchange(type: str, nbytes: int, senders: int = 1, target: int = 0) -> Result:
    """`senders` CTAs move `nbytes` each between their SM and that of CTA `target`, at once."""
    kernel = cluster(senders + 1)
    s = kernel.b.buffer("s", (nbytes // 2,), "float16", scope="shared")
    f = kernel.b.buffer("f", (nbytes // 2,), "float16", scope="fragment")
    parts = kernel.b.buffer("parts", (senders, nbytes // 2), "float16", scope="shared")
    for cta in range(1, senders + 1):
        if type == "dsmem_load":
            kernel.t.node(type, range(4), cta=cta, reads=[s.tile(cta=target)], writes=[f.tile()])
        else:
            own = f if type == "dsmem_store" else s
            kernel.t.node(type, range(4), cta=cta, reads=[own.tile()],
                          writes=[parts.tile((cta - 1, 0), (1, nbytes // 2), cta=target)])
    return run(kernel)


RATE = HW.resources["sm_to_sm_out"].rate_per_cycle


@pytest.mark.parametrize("nbytes", [256, 16384])
@pytest.mark.parametrize(("type", "latency"), [
    ("dsmem_load", HW.cluster.load_cycles),
    ("dsmem_store", HW.cluster.store_visible_cycles),
    ("dsmem_copy", HW.tma.store_issue_cycles + HW.tma.launch_cycles + HW.cluster.store_visible_cycles),
])  # fmt: skip
def test_what_crosses_sms_takes_a_latency_and_its_bytes_over_the_rate(type: str, latency: float, nbytes: int) -> None:
    result = exchange(type, nbytes)
    tma = nbytes / HW.tma.request_bytes if type == "dsmem_copy" and nbytes / HW.tma.request_bytes > nbytes / RATE else 0
    assert result.cycles == pytest.approx(latency + max(nbytes / RATE, tma), abs=2)
    assert result.utilization["sm_to_sm_in"] == pytest.approx(result.utilization["sm_to_sm_out"], rel=1e-6)
    assert result.traffic.l2_read_bytes == 0


def test_the_port_of_a_popular_sm_is_the_bottleneck() -> None:
    """Three CTAs store into one: its way in serves one after the other; loads from it share its way out."""
    for type, latency in (("dsmem_store", HW.cluster.store_visible_cycles), ("dsmem_load", HW.cluster.load_cycles)):
        assert exchange(type, 8192, senders=3).cycles == pytest.approx(latency + 3 * 8192 / RATE, abs=3)


def loads(size: int, *, shared: bool, rows: int = 64, **options: Any) -> Result:
    """Every CTA of a cluster needs the same tile: by one multicast, or each by itself."""
    kernel = cluster(size)
    x = kernel.b.tensor("x", (rows, 64), "float16")
    s = kernel.b.buffer("s", (rows, 64), "float16", scope="shared")
    full = kernel.b.barrier("full", [1])
    for cta in range(size):
        if shared and cta:
            kernel.t.node("barrier_arrive", [0], cta=cta, attrs={"count": 1}, arrive=[(full[0], 1)], expect=full[0])
        else:
            others = range(1, size) if shared else ()
            kernel.t.node("tma_load", [0], cta=cta, reads=[x.tile()], writes=[s.tile(), *(s.tile(cta=r) for r in others)],
                          tx=full[0], arrive=[(full[0], 1)], deliver=[full.at(r)[0] for r in others])
        kernel.t.node("barrier_wait", range(4), cta=cta, wait=(full[0], 0))
    return run(kernel, **options)


@pytest.mark.parametrize("fidelity", ["bulk", "line"])
@pytest.mark.parametrize("size", [2, 4])
def test_a_multicast_reads_the_l2_once(size: int, fidelity: str) -> None:
    alone, together = (
        loads(size, shared=s, fidelity=fidelity, overrides={"l2.coalescer": False}).traffic for s in (False, True)
    )
    assert alone.l2_read_bytes == size * 64 * 128
    assert together.l2_read_bytes == 64 * 128
    assert together.dram_read_bytes == alone.dram_read_bytes


def test_a_multicast_passes_the_port_of_every_receiver() -> None:
    alone, together = (loads(4, shared=s, rows=512) for s in (False, True))
    for port in ("l2_to_sm", "smem"):
        busy = [r.utilization[port] * r.cycles for r in (alone, together)]
        assert busy[0] == pytest.approx(busy[1], rel=1e-3)


def test_a_multicast_of_one_line_is_later_by_its_own_latency() -> None:
    near = {"l2.latency_far_cycles": HW.l2.latency_near_cycles}
    alone, together = (loads(2, shared=s, rows=1, overrides=near).cycles for s in (False, True))
    assert together - alone == pytest.approx(HW.cluster.multicast_cycles, abs=4)


# -- placement ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hw", "size", "at_once"),
    [
        ("h200_sxm", 2, 66), ("h200_sxm", 4, 32), ("h200_sxm", 8, 16), ("h200_sxm", 16, 8),
        ("h100_sxm", 2, 66), ("h100_sxm", 4, 31), ("h100_sxm", 8, 15), ("h100_sxm", 16, 7),
    ],
)  # fmt: skip
def test_how_many_clusters_run_at_once(hw: str, size: int, at_once: int) -> None:
    """Sum over the GPCs of whole clusters: one more takes a second round. H100: 15 clusters of 8 were seen at once."""
    assert clusters_at_once(gpcs(load_hardware(hw)), 1, size) == at_once
    for clusters, rounds in ((at_once, 1), (at_once + 1, 2)):
        kernel = cluster(size, clusters, registers_per_thread=255, smem_bytes=200000)  # one CTA an SM
        for cta in range(size):
            kernel.t.node("test_sync_work", [0], attrs={"cycles": 500.0}, cta=cta)
        kernel.b.add_instances(kernel.t, [(i * size, 0, 0) for i in range(clusters)])
        result = simulate(kernel.b.build(), hw, overrides=PLAIN)
        assert (result.cycles, result.waves, result.ctas) == (500 * rounds, rounds, clusters * size)


def test_the_table_of_cluster_sizes() -> None:
    """GPCs of 18, 18, 18, 16, 16, 16, 16 and 14 SMs: at 8 CTAs a cluster, two SMs of each 18 and six of the 14 stay empty."""
    rows = {r.cluster_ctas: (r.clusters, r.ctas, r.sms) for r in cluster_residency(load_hardware("h100_sxm"))}
    assert rows == {1: (132, 132, 132), 2: (66, 132, 132), 4: (31, 124, 124), 8: (15, 120, 120), 16: (7, 112, 112)}
    assert [r.ctas for r in cluster_residency(load_hardware("h100_sxm"), 2)] == [264, 264, 264, 248, 240]
    assert [r.cluster_ctas for r in cluster_residency(load_hardware("a100_sxm"))] == [1]
    with pytest.raises(SimulationError, match="holds 1 to 32 CTAs, not 0"):
        cluster_residency(HW, 0)


def test_two_ctas_an_sm_double_the_places_of_a_gpc() -> None:
    kernel = cluster(16, 16, threads=1024, smem_bytes=100000)
    for cta in range(16):
        kernel.t.node("test_sync_work", [0], attrs={"cycles": 500.0, "resource": "lane"}, cta=cta)
    kernel.b.add_instances(kernel.t, [(i * 16, 0, 0) for i in range(16)])
    graph = kernel.b.build()
    residency = occupancy(graph, HW)
    assert (residency.ctas_per_sm, residency.clusters, residency.waves) == (2, 16, 1)
    assert simulate(graph, "h200_sxm", overrides=PLAIN).cycles == 1000  # two CTAs share each sub-partition


def test_a_cluster_waits_for_places_of_one_gpc() -> None:
    """One GPC of four SMs, clusters of three: the fourth SM stays empty, and a CTA that ends early frees its place only."""
    few = {"chip.sm_count": 4, "chip.gpc_sms": [4]}
    kernel = cluster(3, 2, registers_per_thread=255, smem_bytes=200000)
    for cta, cycles in enumerate((100.0, 200.0, 300.0)):
        kernel.t.node("test_sync_work", [0], attrs={"cycles": cycles}, cta=cta)
    # Three places are free again when the second CTA has ended: the empty SM, that of the first, and that of the second.
    assert run(kernel, few).cycles == 200 + 300


def test_a_cta_without_operations_ends_at_once() -> None:
    kernel = cluster(2, 3)
    kernel.t.node("test_sync_work", [0], attrs={"cycles": 70.0}, cta=1)
    assert run(kernel).cycles == 70


def test_ctas_of_one_cluster_start_together_and_need_not_end_together() -> None:
    kernel = cluster(2)
    full = kernel.b.barrier("full", [1])
    kernel.t.node("test_sync_work", [0], attrs={"cycles": 40.0}, cta=0)
    kernel.t.node("barrier_arrive", [0], cta=0, arrive=[(full.at(1)[0], 1)])
    kernel.t.node("barrier_wait", [0], cta=1, wait=(full[0], 0))
    kernel.t.node("test_sync_work", [0], attrs={"cycles": 1000.0}, cta=1)
    expected = 10 + 40 + HW.cluster.arrive_visible_cycles + 1000
    assert run(kernel, {"launch.cta_dispatch_cycles": 10}).cycles == pytest.approx(expected, abs=2)


def test_two_runs_are_the_same() -> None:
    def once() -> tuple[int, int]:
        kernel = cluster(4, 50, smem_bytes=60000)
        for cta in range(4):
            kernel.t.node("test_sync_work", [0], attrs={"cycles": 100.0 * (cta + 1)}, cta=cta)
            kernel.t.cluster_sync(range(4), cta=cta)
        result = run(kernel)
        return result.cycles, result.events

    assert once() == once()


@pytest.mark.parametrize(
    ("size", "hw", "overrides", "text"),
    [
        (32, "h200_sxm", {}, "a cluster has 32 CTAs, h200_sxm allows 16"),
        (16, "h200_sxm", {"chip.gpc_sms": [12], "chip.sm_count": 132}, "a cluster needs 16 places in one GPC.*allows 12"),
        (2, "a100_sxm", {}, "h200|clusters|allows 1"),
    ],
)
def test_clusters_that_cannot_be_placed_are_refused_by_name(size: int, hw: str, overrides: dict[str, Any], text: str) -> None:
    b = TileGraphBuilder("big", grid=(size, 1, 1), cluster=(size, 1, 1), threads=128, smem_bytes=150000)
    t = b.template()
    t.node("test_sync_work", [0], attrs={"cycles": 1.0})
    b.add_instances(t, [(0, 0, 0)])
    with pytest.raises(SimulationError, match=text):
        simulate(b.build(), hw, overrides={**PLAIN, **overrides})


def test_work_of_another_sm_cannot_be_on_a_subpartition() -> None:
    from gtsim.backend import Demand, demand, warp
    from gtsim.graph import NodeType, register_node_type

    register_node_type(NodeType("test_far", "work elsewhere", "test"), replace=True)
    for own, text in (({"issue": 1.0}, "takes no work of another SM"), ({}, "needs some on its own too")):
        stage = warp(own, remote={"lane": 1.0}, cta=1)
        demand("test_far", replace=True)(lambda node, hw, stage=stage: Demand([stage]))
        kernel = cluster()
        kernel.t.node("test_far", [0])
        with pytest.raises(SimulationError, match=text):
            run(kernel)
