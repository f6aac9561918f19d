"""Loop bodies that are stored once and run often."""

from pathlib import Path

import numpy as np
import pytest
from gtsim.backend import simulate
from gtsim.graph import GraphError, KernelGraph, TileGraphBuilder, check, load_graph, save_graph, to_networkx


def stream(trips: int | list[int], *, fold: bool, moved: int = 64, odd: bool = False, early: bool = False,
           outward: bool = False) -> KernelGraph:
    """A warp loads a tile a trip, a warpgroup adds it up and stores it; all stores are waited for at the end. `fold` stores the
    third trip as a repeated one; `trips` may differ by block. `odd` makes that trip unlike the one before, `early` lets it
    depend on the first, `outward` lets the end depend on the first trip of the two alone."""
    counts = trips if isinstance(trips, list) else [trips]
    b = TileGraphBuilder("stream", grid=(len(counts), 1, 1), threads=160)
    x, y = (b.tensor(name, (64 * max(counts), 64), "float16") for name in "xy")
    s = b.buffer("s", (1, 64, 64), "float16", scope="shared")
    f = b.buffer("f", (64, 64), "float32", scope="fragment")
    full, empty = b.barrier("full", [1]), b.barrier("empty", [128])
    t = b.template()
    group = range(1, 5)
    times = counts[0] - 2 if len(counts) == 1 else t.column("times")
    t.node("fill", group, writes=[f.tile()], attrs={"elements": 4096}, source="clear")

    def trip(k: int) -> None:
        loop = f"tile=3, k={k}"
        t.node("barrier_wait", [0], attrs={"barrier": "empty"}, wait=(empty[0], k % 2 ^ 1), loop=loop)
        t.node("tma_load", [0], reads=[x.tile((moved * k, 0), (64, 64))], writes=[s.tile()], tx=full[0], arrive=[(full[0], 1)],
               loop=loop, source="load")
        t.node("barrier_wait", group, attrs={"barrier": "full"}, wait=(full[0], k % 2), loop=loop)
        elements = 64 if odd and k == 2 else 4096
        t.node("elementwise", group, reads=[s.tile(), f.tile()], writes=[f.tile()], attrs={"elements": elements, "fma": 1.0},
               loop=loop, source="add")
        t.node("barrier_arrive", group, attrs={"barrier": "empty", "count": 128}, arrive=[(empty[0], 128)], loop=loop)
        stored = t.node("global_store", group, reads=[f.tile()], writes=[y.tile((64 * k, 0), (64, 64))],
                        attrs={"access_bytes": 16, "row_bytes": 128}, loop=loop, source="store")
        if early and k == 2:
            t.drafts[stored].depend(1, 1, 1)

    trip(0)
    if fold:
        segment = t.repeat(times)
        trip(1)
        t.segment = segment + 1
        trip(2)
        t.segment = segment + 2
    else:
        for k in range(1, counts[0]):
            trip(k)
    last = t.node("cta_sync", group, attrs={}, source="end")
    if outward:
        t.drafts[last].depend(9, 1, 1)
    columns = {"times": [n - 2 for n in counts]} if len(counts) > 1 else {}
    b.add_instances(t, blocks=[(i, 0, 0) for i in range(len(counts))], columns=columns)
    return b.build()


def contents(graph: KernelGraph) -> tuple[dict[object, object], set[object]]:
    """Nodes by name and loop, and edges between them: nodes may stand in any order."""
    t = graph.templates[0]
    names = [(n.type, n.source, n.loop, n.warps) for n in graph.nodes_of(t)]
    tiles = {name: [(x.buffer.name, x.offset, x.extent, x.version) for x in n.tiles]
             for name, n in zip(names, graph.nodes_of(t), strict=True)}
    facts = zip(t.edge_src().tolist(), t.edge_dst.tolist(), t.edge_kind.tolist(), t.edge_reason.tolist(), strict=True)
    return tiles, {(names[a], names[b], kind, reason) for a, b, kind, reason in facts}


@pytest.mark.parametrize("trips", [3, 4, 9])
def test_a_repeated_trip_stands_for_all_of_them(trips: int) -> None:
    folded, flat = stream(trips, fold=True), stream(trips, fold=False)
    assert folded.templates[0].nodes == 3 * 6 + 2
    out = folded.unrolled()
    assert out.templates[0].nodes == flat.templates[0].nodes == folded.total_nodes == 6 * trips + 2
    assert contents(out) == contents(flat)
    assert out.templates[0].edges == flat.templates[0].edges
    assert not check(folded)


@pytest.mark.parametrize("trips", [3, 4, 9])
def test_the_engine_runs_every_repetition(trips: int) -> None:
    results = [simulate(g, "h100_sxm") for g in (stream(trips, fold=True), stream(trips, fold=False))]
    assert results[0].cycles == results[1].cycles
    assert results[0].traffic == results[1].traffic
    assert results[0].traffic.l2_read_bytes == trips * 64 * 64 * 2
    assert {o.source: o.executions for o in results[0].operations if o.source == "load"} == {"load": trips}


def test_the_number_of_runs_may_differ_by_block() -> None:
    counts = [3, 7, 4, 7]
    graph = stream(counts, fold=True)
    assert graph.times(0).ravel().tolist() == [1, 5, 2, 5]
    assert graph.total_nodes == sum(6 * n + 2 for n in counts)
    flat = graph.unrolled()
    assert [t.nodes for t in flat.templates] == [20, 26, 44] and flat.instances.template.tolist() == [0, 2, 1, 2]
    assert simulate(graph, "h100_sxm").cycles == simulate(flat, "h100_sxm").cycles
    traffic = simulate(graph, "h100_sxm").traffic
    assert traffic.l2_read_bytes + traffic.l2_coalesced_bytes == sum(counts) * 8192


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"odd": True}, "differ in attrs"),
        ({"early": True}, "more than a period earlier"),
        ({"outward": True}, "depends on a period that is not the last"),
    ],
)
def test_periods_that_are_not_alike_are_refused(change: dict[str, bool], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        stream(5, fold=True, **change)


@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_on_chip_tiles_must_come_back(scope: str) -> None:
    b = TileGraphBuilder("k", grid=(1, 1, 1), threads=32)
    s = b.buffer("s", (4, 8), "float32", scope=scope)
    t = b.template()
    segment = t.repeat(3)
    for part in range(2):
        t.segment = segment + part
        t.node("fill", [0], writes=[s.tile((part, 0), (1, 8))], attrs={"elements": 8})
    b.add_instances(t, blocks=[(0, 0, 0)])
    with pytest.raises(GraphError, match="on-chip tile moves"):
        b.build()


@pytest.mark.parametrize(("read_at", "message"), [(0, ""), (64, "written by tiles that move on")])
def test_a_tensor_that_is_read_where_it_is_written_may_move(read_at: int, message: str) -> None:
    b = TileGraphBuilder("k", grid=(1, 1, 1), threads=32)
    x, f = b.tensor("x", (640, 64), "float16"), b.buffer("f", (64, 64), "float16", scope="fragment")
    t = b.template()
    segment = t.repeat(5)
    for part in range(2):
        t.segment = segment + part
        width = {"access_bytes": 16, "row_bytes": 128}
        t.node("global_load", [0], reads=[x.tile((64 * part + read_at, 0), (64, 64))], writes=[f.tile()], attrs=width)
        t.node("global_store", [0], reads=[f.tile()], writes=[x.tile((64 * part, 0), (64, 64))], attrs=width)
    b.add_instances(t, blocks=[(0, 0, 0)])
    if message:
        with pytest.raises(GraphError, match=message):
            b.build()
    else:
        assert b.build().total_nodes == 12


def test_files_keep_repeats(tmp_path: Path) -> None:
    graph = stream([3, 9], fold=True)
    save_graph(graph, tmp_path / "g.npz")
    back = load_graph(tmp_path / "g.npz")
    assert back.times(0).tolist() == graph.times(0).tolist()
    assert (back.templates[0].repeat_step == graph.templates[0].repeat_step).all()
    assert simulate(back, "h100_sxm").cycles == simulate(graph, "h100_sxm").cycles


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"t0.repeat_first": np.array([3], dtype=np.int32)}, "which are not free"),
        ({"t0.repeat_nodes": np.array([60], dtype=np.int32)}, "which are not free"),
        ({"t0.repeat_nodes": np.array([5], dtype=np.int32)}, "repeat_step has"),
        ({"t0.repeat_times": np.array([-7], dtype=np.int64)}, "numbers of runs holds values outside 1"),
        ({"t0.repeat_times": np.array([1 << 30], dtype=np.int64)}, "numbers of runs holds values outside 1"),
        ({"t0.repeat_column": np.array([9], dtype=np.int32)}, "a column that the instance table lacks"),
        ({"t0.repeat_loop": np.zeros(2, dtype=np.int64)}, "t0.repeat_loop has shape"),
        ({"t0.repeat_step": np.zeros((0, 3), dtype=np.int64)}, "repeat_step has 0 rows"),
    ],
)
def test_damaged_repeats_are_named(tmp_path: Path, changes: dict[str, np.ndarray], message: str) -> None:
    path = tmp_path / "g.npz"
    save_graph(stream([3, 9], fold=True), path)
    with np.load(path) as data:
        arrays = {**{k: data[k] for k in data.files}, **changes}
    np.savez(path, **arrays)
    with pytest.raises(GraphError, match=message):
        load_graph(path)


def test_networkx_wants_the_runs_written_out() -> None:
    graph = stream(5, fold=True)
    with pytest.raises(GraphError, match="unrolled"):
        to_networkx(graph)
    assert to_networkx(graph.unrolled()).number_of_nodes() == graph.total_nodes
