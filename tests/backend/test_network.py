"""The network between SMs: ways through a mesh, messages that meet on a link, and where clusters are put."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from gtsim.backend import Result, SimulationError, simulate
from gtsim.backend.network import crossbar_transit_cycles, mesh_like_crossbar
from gtsim.hwconfigs import load_hardware
from hypothesis import given
from hypothesis import strategies as st

from .kernels import PLAIN, Kernel
from .random_kernels import Case, kernels
from .test_invariance import facts, renumbered

HW = load_hardware("h200_sxm")
HOP, LINK = 10, 16
CROSSING = crossbar_transit_cycles(HW)
#: 16 SMs as 4 x 4; ports, issue and shared memory take no time, so that only the mesh is left.
MESH: dict[str, Any] = {
    "chip.sm_count": 16, "chip.gpc_sms": [16], "cluster.network": "mesh", "cluster.mesh_columns": 4, "cluster.hop_cycles": HOP,
    "cluster.link_bytes_per_cycle": LINK, "mbarrier.wait_cycles": 0, "mbarrier.arrive_cycles": 0,
    "mbarrier.arrive_visible_cycles": 0,
    **{f"resources.{r}.rate_per_cycle": 1000000 for r in ("issue", "smem", "sm_to_sm_in", "sm_to_sm_out", "tma")},
}  # fmt: skip
CROSSBAR = {**MESH, "cluster.network": "crossbar"}
PAIRS = [(0, 1, 1), (0, 4, 1), (0, 5, 2), (0, 15, 6), (12, 3, 6), (10, 8, 2)]


def kernel_of(size: int = 16, clusters: int = 1) -> Kernel:
    return Kernel(ctas=size * clusters, cluster=(size, 1, 1), arch="sm_90a", registers_per_thread=255, smem_bytes=200000)


def run(kernel: Kernel, overrides: dict[str, Any] = MESH, **options: Any) -> Result:
    size = kernel.b.cluster_ctas
    kernel.b.add_instances(kernel.t, [(i, 0, 0) for i in range(0, kernel.ctas, size)])
    return simulate(kernel.b.build(), "h200_sxm", overrides={**PLAIN, **overrides}, **options)


def transfers(ways: Iterable[tuple[int, int]], nbytes: int = 1024, type: str = "dsmem_store", **options: Any) -> Result:
    """One message from each first CTA to each second one, all sent at once; for loads the data goes that way too. CTA r is on
    SM r."""
    kernel = kernel_of()
    f = kernel.b.buffer("f", (nbytes,), "int8", scope="fragment")
    for i, (source, target) in enumerate(ways):
        s = kernel.b.buffer(f"s{i}", (nbytes,), "int8", scope="shared")
        if type == "dsmem_load":
            kernel.t.node(type, [i % 4], cta=target, reads=[s.tile(cta=source)], writes=[f.tile()])
        else:
            kernel.t.node(type, [i % 4], cta=source, reads=[f.tile()], writes=[s.tile(cta=target)])
    return run(kernel, **options)


def signals(size: int, ways: Iterable[tuple[int, int]], clusters: int = 1, overrides: dict[str, Any] = MESH) -> Result:
    """Arrivals on barriers elsewhere, in every cluster."""
    kernel = kernel_of(size, clusters)
    for i, (source, target) in enumerate(ways):
        bar = kernel.b.barrier(f"bar{i}", [1])
        kernel.t.node("barrier_arrive", [0], cta=source, arrive=[(bar.at(target)[0], 1)])
        kernel.t.node("barrier_wait", [i % 3 + 1], cta=target, wait=(bar[0], 0))
    return run(kernel, overrides)


def everyone(size: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(size) for b in range(size) if a != b]


# -- one message -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target", "hops"), PAIRS)
def test_a_message_takes_a_router_more_than_hops_and_its_bytes_over_the_link(source: int, target: int, hops: int) -> None:
    result = transfers([(source, target)])
    way = (hops + 1) * HOP
    assert result.cycles == pytest.approx(HW.cluster.store_visible_cycles - CROSSING + way + 1024 / LINK, abs=1)
    n = result.network
    assert (n.requests, n.bytes, n.mean_hops, n.link_wait_cycles) == (8, 1024, hops, 0)
    assert n.residence_cycles == pytest.approx(way, abs=0.01)
    assert n.link_utilization * result.cycles * 48 == pytest.approx(hops * 1024 / LINK, rel=0.005)  # 48 links


@pytest.mark.parametrize(("source", "target", "hops"), PAIRS)
def test_a_load_goes_there_and_back(source: int, target: int, hops: int) -> None:
    result = transfers([(source, target)], type="dsmem_load")
    way = (hops + 1) * HOP
    assert result.cycles == pytest.approx(HW.cluster.load_cycles - 2 * CROSSING + 2 * way + 1024 / LINK, abs=1)
    assert (result.network.requests, result.network.bytes) == (16, 1024)


@pytest.mark.parametrize(("source", "target", "hops"), PAIRS)
def test_an_arrival_takes_its_way_and_no_bandwidth(source: int, target: int, hops: int) -> None:
    result = signals(16, [(source, target)])
    assert result.cycles == pytest.approx(HW.cluster.arrive_visible_cycles - CROSSING + (hops + 1) * HOP, abs=1)
    assert (result.network.requests, result.network.bytes, result.network.link_utilization) == (1, 0, 0)


@pytest.mark.parametrize(("size", "farthest"), [(2, 1), (4, 3), (16, 6)])
def test_the_cluster_barrier_waits_for_the_farthest_cta(size: int, farthest: int) -> None:
    kernel = kernel_of(size)
    for cta in range(size):
        kernel.t.cluster_sync(range(4), cta=cta)
    result = run(kernel)
    assert result.cycles == pytest.approx(HW.cluster.barrier_cycles - CROSSING + (farthest + 1) * HOP, abs=1)
    assert result.network.requests == size * (size - 1)


@pytest.mark.parametrize(("source", "target", "hops"), PAIRS)
def test_in_a_crossbar_every_way_is_the_same(source: int, target: int, hops: int) -> None:
    result = transfers([(source, target)], overrides=CROSSBAR)
    assert result.cycles == pytest.approx(HW.cluster.store_visible_cycles, abs=1)
    assert (result.network.mean_hops, result.network.link_utilization) == (1, 0)
    assert result.network.residence_cycles == pytest.approx(CROSSING, abs=0.01)


def test_a_long_message_is_cut_into_whole_requests() -> None:
    slow = {**MESH, "resources.sm_to_sm_out.rate_per_cycle": 20}
    n = transfers([(0, 1)], nbytes=8192, overrides=slow).network  # seven pieces of about 64 cycles
    assert (n.requests, n.bytes) == (64, 8192)


# -- messages that meet ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "meet"),
    [((0, 1), True), ((1, 5), True), ((1, 13), True), ((0, 4), False), ((4, 5), False), ((5, 1), False), ((1, 0), False)],
)
def test_rows_come_first_and_each_direction_is_a_link(other: tuple[int, int], meet: bool) -> None:
    """0 -> 5 goes by 1: over 0 -> 1 and 1 -> 5, and by no other link."""
    assert (transfers([(0, 5), other]).network.link_wait_cycles > 0) == meet


def test_of_two_messages_on_a_link_the_second_waits_for_the_first() -> None:
    """0 -> 2 and 1 -> 2: the first is on the link 1 -> 2 from 10 to 74, behind a router; the second waits till then."""
    work = 1024 / LINK
    result = transfers([(0, 2), (1, 2)])
    n = result.network
    assert n.link_wait_cycles * n.requests == pytest.approx(8 * (HOP + work), rel=1e-4)
    assert n.residence_cycles == pytest.approx((3 * HOP + HOP + work + 2 * HOP) / 2, abs=0.01)
    assert result.cycles == pytest.approx(HW.cluster.store_visible_cycles - CROSSING + HOP + work + 2 * HOP + work, abs=1)


def test_a_short_message_passes_before_one_that_is_still_on_its_way() -> None:
    """0 -> 3 is on the link 2 -> 3 from 20 on; 256 bytes that take it from 0 to 16 do not wait, 512 bytes do."""
    for nbytes, waits in ((256, False), (512, True)):
        kernel = kernel_of()
        for source, length in ((0, 4096), (2, nbytes)):
            f = kernel.b.buffer(f"f{source}", (length,), "int8", scope="fragment")
            s = kernel.b.buffer(f"s{source}", (length,), "int8", scope="shared")
            kernel.t.node("dsmem_store", [0], cta=source, reads=[f.tile()], writes=[s.tile(cta=3)])
        assert (run(kernel).network.link_wait_cycles > 0) == waits


def test_a_link_that_all_need_serves_one_after_the_other() -> None:
    """Three SMs of a row send to the fourth: the last link carries all their bytes."""
    work = 3 * 4096 / LINK
    cycles = transfers([(0, 3), (1, 3), (2, 3)], nbytes=4096).cycles
    assert cycles == pytest.approx(HW.cluster.store_visible_cycles - CROSSING + work, abs=7 * HOP)


def test_the_way_of_stores_that_follow_each_other_fills_the_link() -> None:
    """Ten stores of one warp pass a link of 16 bytes a cycle back to back, behind a port that could take more."""
    kernel = kernel_of()
    f = kernel.b.buffer("f", (1024,), "int8", scope="fragment")
    for i in range(10):
        s = kernel.b.buffer(f"s{i}", (1024,), "int8", scope="shared")
        kernel.t.node("dsmem_store", [0], cta=0, reads=[f.tile()], writes=[s.tile(cta=1)])
    assert run(kernel).cycles == pytest.approx(HW.cluster.store_visible_cycles - CROSSING + 2 * HOP + 10 * 1024 / LINK, abs=2)


# -- multicast ---------------------------------------------------------------------------------------------------------------


def multicast(receivers: Iterable[int], overrides: dict[str, Any]) -> Result:
    kernel = kernel_of(4)
    x = kernel.b.tensor("x", (64, 64), "float16")
    s = kernel.b.buffer("s", (64, 64), "float16", scope="shared")
    full = kernel.b.barrier("full", [1])
    others = list(receivers)
    kernel.t.node("tma_load", [0], cta=0, reads=[x.tile()], writes=[s.tile(), *(s.tile(cta=r) for r in others)], tx=full[0],
                  arrive=[(full[0], 1)], deliver=[full.at(r)[0] for r in others])
    for cta in others:
        kernel.t.node("barrier_arrive", [0], cta=cta, attrs={"count": 1}, arrive=[(full[0], 1)], expect=full[0])
    for cta in (0, *others):
        kernel.t.node("barrier_wait", range(4), cta=cta, wait=(full[0], 0))
    return run(kernel, overrides)


def test_a_multicast_takes_each_link_of_its_ways_once() -> None:
    result = multicast([1, 2, 3], MESH)
    assert result.traffic.l2_read_bytes == 8192
    assert result.network.bytes == 3 * 8192
    assert result.network.mean_hops == 2  # 1, 2 and 3
    assert result.network.link_utilization * result.cycles * 48 == pytest.approx(3 * 8192 / LINK, rel=0.005)


def test_a_multicast_takes_the_port_to_the_l2_once_and_the_ports_between_sms() -> None:
    one, all_ = (multicast([1, 2, 3], o) for o in (MESH, CROSSBAR))
    work = [r.utilization["l2_to_sm"] * r.cycles for r in (one, all_)]
    assert all_.network.bytes == 0 and work[1] == pytest.approx(4 * work[0], rel=1e-3)
    slow = {**MESH, "resources.sm_to_sm_in.rate_per_cycle": 1}
    assert multicast([1, 2, 3], slow).cycles == pytest.approx(one.cycles - 8192 / LINK + 8192, rel=0.01)


def test_a_multicast_waits_for_the_farthest_receiver() -> None:
    near, far = (multicast([r], {**MESH, "cluster.hop_cycles": 50}).cycles for r in (1, 3))
    assert far - near == pytest.approx(100, abs=1)


# -- a mesh like the crossbar ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "rows", "hops", "share"), [(4, 4, 8 / 3, 16 / 15), (2, 2, 4 / 3, 2 / 3), (2, 1, 1, 1), (4, 2, 2, 8 / 7)]
)
def test_a_mesh_like_the_crossbar_has_its_average(columns: int, rows: int, hops: float, share: float) -> None:
    """The busiest link of 4 x 4 carries what 2 SMs send to 8 others, 16 of 240 ways, when a port carries 15 of them."""
    changes = mesh_like_crossbar(HW, columns, rows)
    assert changes["cluster.hop_cycles"] == pytest.approx(CROSSING / (hops + 1))
    assert changes["cluster.link_bytes_per_cycle"] == pytest.approx(share * HW.resources["sm_to_sm_out"].rate_per_cycle)


def test_all_to_all_takes_the_crossbars_time_on_average() -> None:
    result = signals(16, everyone(16), overrides={**MESH, **mesh_like_crossbar(HW, 4, 4)})
    assert result.network.residence_cycles == pytest.approx(CROSSING, rel=1e-4)
    assert result.network.mean_hops == pytest.approx(8 / 3)


@pytest.mark.parametrize("name", ["h100_sxm", "h800_sxm", "h200_sxm"])
def test_the_mesh_of_the_hardware_files_is_the_4_by_4_like_the_crossbar(name: str) -> None:
    hw = load_hardware(name)
    for key, value in mesh_like_crossbar(hw, hw.cluster.mesh_columns, 4).items():
        if not isinstance(value, str):
            assert getattr(hw.cluster, key.split(".")[1]) == pytest.approx(value, rel=0.01)


def test_a_mesh_needs_two_sms() -> None:
    with pytest.raises(ValueError, match="connects nothing"):
        mesh_like_crossbar(HW, 1, 1)


# -- placement ---------------------------------------------------------------------------------------------------------------


def mean_hops(placement: str, size: int, ways: list[tuple[int, int]] | None = None, **chip: Any) -> float:
    overrides = {**MESH, "cluster.placement": placement, **{f"chip.{k}": v for k, v in chip.items()}}
    sms = chip.get("sm_count", 16)
    return signals(size, ways or everyone(size), sms // size, overrides).network.mean_hops


@pytest.mark.parametrize(
    ("size", "order", "topology"),
    [(2, 1, 1), (4, 5 / 3, 4 / 3), (8, 2, 2), (16, 8 / 3, 8 / 3)],  # a row of four against 2 x 2
)
def test_topology_puts_a_cluster_on_a_block(size: int, order: float, topology: float) -> None:
    assert mean_hops("order", size) == pytest.approx(order)
    assert mean_hops("topology", size) == pytest.approx(topology)


def test_naive_placement_is_as_far_as_any_two_sms_on_average() -> None:
    """Pairs of SMs in no relation to the mesh: 8/3 hops over all; 64 pairs on eight GPCs come near it."""
    many = {"sm_count": 128, "gpc_sms": [16] * 8}
    assert mean_hops("naive", 2, **many) == pytest.approx(8 / 3, abs=0.4)
    assert mean_hops("naive", 16, **many) == pytest.approx(8 / 3)


def test_ranks_that_follow_each_other_are_neighbours() -> None:
    assert mean_hops("topology", 16, [(r, r + 1) for r in range(15)]) == 1


def test_topology_finds_neighbours_among_sms_that_fill_no_square() -> None:
    """18 SMs are 4 x 4 and two more: nine pairs."""
    assert mean_hops("topology", 2, sm_count=18, gpc_sms=[18]) <= 11 / 9


def test_ctas_share_an_sm_only_where_no_other_is_free() -> None:
    for placement in ("order", "naive", "topology"):
        kernel = Kernel(ctas=8, cluster=(8, 1, 1), arch="sm_90a", smem_bytes=100000)
        for cta in range(8):
            kernel.t.node("test_sync_work", [0], attrs={"cycles": 500.0, "resource": "lane"}, cta=cta)
        few = {**MESH, "chip.sm_count": 8, "chip.gpc_sms": [8], "cluster.placement": placement}
        assert run(kernel, few).cycles == 500
    two = Kernel(ctas=8, cluster=(8, 1, 1), arch="sm_90a", smem_bytes=100000)
    for cta in range(8):
        two.t.node("test_sync_work", [0], attrs={"cycles": 500.0, "resource": "lane"}, cta=cta)
    four = {**MESH, "chip.sm_count": 4, "chip.gpc_sms": [4], "cluster.placement": "topology"}
    assert run(two, four).cycles == 1000


# -- the rest ----------------------------------------------------------------------------------------------------------------


def test_two_runs_are_the_same_and_fast_counts_what_it_leaves_out() -> None:
    def once(fidelity: str) -> Result:
        kernel = kernel_of(4, 400)
        s, f = (kernel.b.buffer(n, (2048,), "int8", scope=c) for n, c in (("s", "shared"), ("f", "fragment")))
        for cta in range(4):
            kernel.t.node("test_sync_work", [0], attrs={"cycles": 100.0}, cta=cta)
            kernel.t.node("dsmem_store", [0], cta=cta, reads=[f.tile()], writes=[s.tile(cta=3 - cta)])
        return run(kernel, {**MESH, "cluster.placement": "topology"}, fidelity=fidelity)

    whole, again, fast = once("bulk"), once("bulk"), once("fast")
    assert (whole.cycles, whole.network) == (again.cycles, again.network)
    assert fast.skipped["ctas"] > 0
    assert fast.network.bytes == whole.network.bytes == 400 * 4 * 2048
    assert fast.network.residence_cycles == pytest.approx(whole.network.residence_cycles, rel=0.01)


def test_threads_change_nothing() -> None:
    def once(threads: int) -> Result:
        kernel = kernel_of(4, 40)
        s, f = (kernel.b.buffer(n, (8192,), "int8", scope=c) for n, c in (("s", "shared"), ("f", "fragment")))
        for cta in range(4):
            kernel.t.node("dsmem_store", [0], cta=cta, reads=[f.tile()], writes=[s.tile(cta=3 - cta)])
            kernel.t.cluster_sync(range(4), cta=cta)
        chip = {"chip.sm_count": 48, "chip.gpc_sms": [16, 18, 14], "cluster.placement": "naive"}
        return run(kernel, {**MESH, **chip}, threads=threads)

    one, three = once(1), once(3)
    assert (one.cycles, one.events, one.network) == (three.cycles, three.events, three.network)
    assert one.network.link_wait_cycles > 0


SMALL = {"cluster.network": "mesh", "cluster.mesh_columns": 2, "cluster.hop_cycles": 13, "cluster.link_bytes_per_cycle": 3.5}


@given(case=kernels(repeats=False, fixed={**SMALL, "cluster.placement": "naive"}), seed=st.integers(0, 99))
def test_neither_threads_nor_numbers_of_nodes_change_a_mesh(case: Case, seed: int) -> None:
    whole = case.run()
    other = replace(case.graph, templates=tuple(renumbered(t, seed) for t in case.graph.templates))
    assert facts(case.run(threads=3)) == facts(case.run(other)) == facts(whole)
    assert 0 <= whole.network.link_utilization <= 1
    assert 0 <= whole.network.link_wait_cycles <= whole.network.residence_cycles


@given(case=kernels(fixed={**SMALL, "cluster.placement": "topology"}))
def test_every_byte_that_crosses_a_mesh_crosses_a_crossbar(case: Case) -> None:
    """Multicasts, which do not take the ports between SMs in a crossbar, apart."""
    if any(n.attrs.get("multicast") for t in case.graph.templates for n in case.graph.nodes_of(t)):
        return
    crossbar = Case(case.graph, {**case.overrides, "cluster.network": "crossbar"}, case.options, case.start)
    mesh, other = (c.run(fidelity="bulk").network for c in (case, crossbar))
    assert (mesh.bytes, mesh.requests) == (other.bytes, other.requests)


def test_without_clusters_nothing_crosses() -> None:
    kernel = Kernel()
    kernel.work(10)
    result = kernel.run(overrides={"cluster.network": "mesh"})
    assert (result.network.requests, result.network.residence_cycles) == (0, 0)


def test_a_message_needs_its_port() -> None:
    from gtsim.backend import Demand, Message, demand, warp
    from gtsim.graph import NodeType, register_node_type

    register_node_type(NodeType("test_message", "a message", "test"), replace=True)
    stages = (
        (warp({"issue": 1.0}, message=Message(1, 64)), "takes sm_to_sm_out"),
        (warp({"sm_to_sm_out": 64.0}, message=Message(1, 64)), "has work on the other SM too"),
        (warp({"sm_to_sm_out": 64.0}, remote={"sm_to_sm_in": 64.0}, cta=1, message=Message(-1, 64)), "goes to one CTA"),
    )
    for stage, text in stages:
        demand("test_message", replace=True)(lambda node, hw, stage=stage: Demand([stage]))
        kernel = kernel_of(2)
        kernel.t.node("test_message", [0])
        with pytest.raises(SimulationError, match=text):
            run(kernel)
