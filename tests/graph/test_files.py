"""Graph files: what is read is what was written, and nothing else is accepted."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from gtsim.graph import GraphError, TileGraphBuilder, check, from_networkx, graph_hash, load_graph, save_graph, to_networkx
from hypothesis import given, settings
from hypothesis import strategies as st

from .test_builder import ring


def test_a_saved_graph_comes_back_the_same(tmp_path: Path) -> None:
    graph = ring(5, 3)
    save_graph(graph, tmp_path / "g.npz")
    again = load_graph(tmp_path / "g.npz")
    assert graph_hash(again) == graph_hash(graph)
    assert again.launch == graph.launch
    assert list(again.nodes_of(again.templates[0])) == list(graph.nodes_of(graph.templates[0]))


def test_the_hash_follows_structure_and_not_meta(tmp_path: Path) -> None:
    assert graph_hash(ring(5, 3)) == graph_hash(ring(5, 3)) != graph_hash(ring(5, 2))


@pytest.mark.parametrize("length", [0, 10, 500, -20])
def test_a_truncated_file_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "g.npz"
    save_graph(ring(2, 2), path)
    data = path.read_bytes()
    path.write_bytes(data[:length] if length >= 0 else data[: len(data) + length])
    with pytest.raises(GraphError, match="g.npz"):
        load_graph(path)


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 10**6), value=st.integers(0, 255))
def test_a_flipped_byte_gives_an_error_or_a_valid_graph(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int
) -> None:
    path = tmp_path_factory.mktemp("flip") / "g.npz"
    save_graph(ring(2, 2), path)
    data = bytearray(path.read_bytes())
    data[position % len(data)] = value
    path.write_bytes(bytes(data))
    try:
        check(load_graph(path))
    except GraphError:
        pass


def rewrite(path: Path, **changes: object) -> None:
    """Replace arrays (or, as `header`, keys of the header) of a graph file."""
    with np.load(path) as data:
        arrays = {k: data[k] for k in data.files}
    header = json.loads(bytes(arrays["header"]).decode())
    for name, value in changes.items():
        if name == "header":
            header.update(value)  # type: ignore[call-overload]
        elif value is None:
            del arrays[name.replace("__", ".")]
        else:
            arrays[name.replace("__", ".")] = value  # type: ignore[assignment]
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"header": {"schema": 99}}, "graph schema 99, this gtsim reads 2"),
        ({"header": {"format": "x"}}, "not a gtsim graph file"),
        ({"t0__edge_dst": None}, "array t0.edge_dst is missing"),
        ({"t0__edge_dst": np.zeros(3, dtype=np.int32)}, "t0.edge_"),
        ({"t0__node_type": np.full(10, 77, dtype=np.int16)}, "t0.node_type"),
        ({"t0__edge_ptr": np.zeros(9, dtype=np.int64)}, "t0.edge_ptr is missing or not int32"),
        ({"instances__template": np.full(4, 3, dtype=np.int32)}, "instances.template holds values outside"),
        ({"header": {"buffers": [{"name": "x"}]}}, "buffers.0.scope"),
        ({"header": {"schema": True}}, "graph schema True"),
        ({"header": {"attrs": [3]}}, r"attrs.0"),
        ({"header": {"name": 4}}, "header field name"),
        ({"header": {"meta": {"flops": "many"}}}, "meta.flops"),
        ({"header": {"launch": {"grid": [1, "x", -3], "threads": 1}}}, "launch.grid.1"),
        ({"t0__tile_column": np.full((4, 2), -(2**31), dtype=np.int32)}, "t0.tile_column"),
    ],
)
def test_inconsistent_contents_are_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    path = tmp_path / "g.npz"
    save_graph(ring(2, 2), path)
    rewrite(path, **changes)
    with pytest.raises(GraphError, match=message):
        load_graph(path)


def test_pickled_contents_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(GraphError):
        load_graph(path)
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(GraphError, match="not a gtsim graph file"):
        load_graph(path)


def test_writing_where_one_cannot_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="cannot write the graph"):
        save_graph(ring(2, 2), tmp_path / "no" / "g.npz")
    assert not list(tmp_path.iterdir())


def test_networkx_round_trip_keeps_everything() -> None:
    graph = ring(3, 2)
    assert graph_hash(from_networkx(to_networkx(graph))) == graph_hash(graph)


def test_edges_removed_in_networkx_are_gone() -> None:
    nx_graph = to_networkx(ring(3, 2))
    order = [(a, b, k) for a, b, k, d in nx_graph.edges(keys=True, data=True) if d["kind"] != "DATA"]
    nx_graph.remove_edges_from(order)
    t = from_networkx(nx_graph).templates[0]
    assert t.edges == nx_graph.number_of_edges() > 0
    assert set(t.edge_kind.tolist()) == {0}


def test_a_circle_is_found_and_its_barrier_named() -> None:
    nx_graph = to_networkx(ring(3, 2))
    wait = next(i for i, d in nx_graph.nodes(data=True) if d["type"] == "barrier_wait" and d["warps"] == (4, 5, 6, 7))
    last = max(nx_graph.nodes)
    nx_graph.add_edge(last, wait, kind="COMPLETE", reason="BARRIER", label="full[0]")
    findings = check(from_networkx(nx_graph))
    assert findings[0].kind == "deadlock"
    assert "full[0]" in findings[0].text


def test_foreign_multigraphs_are_refused() -> None:
    import networkx as nx

    with pytest.raises(GraphError, match="does not come from to_networkx"):
        from_networkx(nx.MultiDiGraph())
    nx_graph = to_networkx(ring(2, 2))
    nx_graph.add_edge(0, 1, kind="SOMETIMES")
    with pytest.raises(GraphError, match="no valid kind"):
        from_networkx(nx_graph)


def test_an_empty_template_is_refused() -> None:
    b = TileGraphBuilder("empty", grid=(1, 1, 1), threads=32)
    b.add_instances(b.template(), [(0, 0, 0)])
    with pytest.raises(GraphError, match="at least one node"):
        b.build()
