"""Graphs without program order, without synchronisation, and with data edges only."""

import numpy as np
import pytest
from gtsim.graph import EdgeKind, KernelGraph, Reason, TileGraphBuilder
from gtsim.graph.ablate import without

from tests.backend.kernels import gemm


def edges(graph: KernelGraph) -> set[tuple[str, str, str]]:
    """(source, destination, reason) of the only template, nodes by their source text."""
    t = graph.templates[0]
    names = [n.source for n in graph.nodes_of(t)]
    return {(names[a], names[b], Reason(r).name)
            for a, b, r in zip(t.edge_src().tolist(), t.edge_dst.tolist(), t.edge_reason.tolist(), strict=True)}


@pytest.fixture
def ring() -> KernelGraph:
    """Warp 0 loads x and y into a slot; warp 1 waits, uses x, does something else, and gives the slot back."""
    b = TileGraphBuilder("ring", grid=(1, 1, 1), threads=64)
    g = b.tensor("g", (64, 64), "float16")
    x, y = (b.buffer(n, (32, 64), "float16", scope="shared") for n in "xy")
    out = b.buffer("out", (32, 64), "float16", scope="fragment")
    full, empty = b.barrier("full", [1]), b.barrier("empty", [32])
    t = b.template()
    work = {"elements": 2048, "fma": 1.0}
    t.node("barrier_wait", [0], wait=(empty[0], 1), source="wait empty")
    t.node("tma_load", [0], reads=[g.tile((0, 0), (32, 64))], writes=[x.tile()], tx=full[0], source="load x")
    t.node("tma_load", [0], reads=[g.tile((32, 0), (32, 64))], writes=[y.tile()], tx=full[0], arrive=[(full[0], 1)],
           source="load y")
    t.node("barrier_wait", [0], wait=(empty[0], 0), source="wait again")
    t.node("barrier_wait", [1], wait=(full[0], 0), source="wait full")
    t.node("shared_load", [1], reads=[x.tile()], writes=[out.tile()], source="use x")
    t.node("elementwise", [1], attrs=work, source="other")
    t.node("barrier_arrive", [1], attrs={"count": 32}, arrive=[(empty[0], 32)], source="give back")
    b.add_instances(t, [(0, 0, 0)])
    return b.build()


def test_without_order_operations_stay_between_the_synchronisation_around_them(ring: KernelGraph) -> None:
    left = edges(without(ring, order=True))
    program = {(a, b) for a, b, reason in left if reason == "PROGRAM"}
    assert program == {("wait empty", "load x"), ("wait empty", "load y"), ("wait empty", "wait again"),
                       ("wait full", "use x"), ("wait full", "other"), ("wait full", "give back"), ("other", "give back")}
    # "use x" touches memory, and the edge that drains it says more than program order does.
    assert {e for e in left if e[2] != "PROGRAM"} == {e for e in edges(ring) if e[2] != "PROGRAM"}


def test_without_synchronisation_the_work_keeps_program_order_and_data(ring: KernelGraph) -> None:
    assert edges(without(ring, synchronisation=True)) == {
        ("load x", "load y", "PROGRAM"), ("load x", "use x", "DATA"), ("use x", "other", "PROGRAM")}


def test_without_both_only_data_is_left(ring: KernelGraph) -> None:
    left = without(ring, order=True, synchronisation=True)
    assert edges(left) == {("load x", "use x", "DATA")}
    assert [n.source for n in left.nodes_of(left.templates[0])] == ["load x", "load y", "use x", "other"]
    assert [t.buffer.name for n in left.nodes_of(left.templates[0]) for t in n.tiles] == ["g", "x", "g", "y", "x", "out"]


def test_nothing_dropped_is_the_same_prediction() -> None:
    from gtsim.backend import simulate

    graph = gemm(512, 512, 512)
    again = without(graph)
    assert simulate(again, "h100_sxm").cycles == simulate(graph, "h100_sxm").cycles


@pytest.mark.parametrize("dropped", [{"order": True}, {"synchronisation": True}, {"order": True, "synchronisation": True}])
def test_edges_lead_forward_and_work_is_conserved(dropped: dict[str, bool]) -> None:
    from gtsim.backend import simulate

    graph = gemm(512, 512, 512, consumers=2)
    left = without(graph, **dropped)
    for t in left.templates:
        assert (t.edge_src() < t.edge_dst).all()
        assert len(t.edge_dst) == t.edge_ptr[-1] and len(t.edge_ptr) == t.nodes + 1
        assert np.isin(t.edge_kind, [int(k) for k in EdgeKind]).all()
    a, b = simulate(graph, "h100_sxm"), simulate(left, "h100_sxm")
    assert b.cycles < 1.005 * a.cycles  # less order may queue a little differently
    assert b.cycles < a.cycles or "synchronisation" not in dropped
    assert b.traffic.l2_read_bytes == a.traffic.l2_read_bytes
    assert b.utilization["tensor"] * b.cycles == pytest.approx(a.utilization["tensor"] * a.cycles, rel=1e-3)


def test_warps_that_join_others_keep_their_program_order() -> None:
    b = TileGraphBuilder("join", grid=(1, 1, 1), threads=64)
    t = b.template()
    for name, warps in (("a", [0]), ("b", [1]), ("both", [0, 1])):
        t.node("elementwise", warps, attrs={"elements": 32, "fma": 1.0}, source=name)
    b.add_instances(t, [(0, 0, 0)])
    graph = b.build()
    assert {e[:2] for e in edges(without(graph, synchronisation=True))} == {("a", "both"), ("b", "both")}
    assert edges(without(graph, order=True)) == set()


def test_a_graph_of_synchronisation_only_stays_as_it_is() -> None:
    b = TileGraphBuilder("sync", grid=(1, 1, 1), threads=64)
    t = b.template()
    t.node("cta_sync", range(2))
    b.add_instances(t, [(0, 0, 0)])
    graph = b.build()
    assert without(graph, synchronisation=True).templates[0].nodes == 1
