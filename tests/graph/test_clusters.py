"""Templates of clusters: storage and barriers of each CTA, deliveries across CTAs, the cluster barrier."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gtsim.graph import (
    CheckError,
    EdgeKind,
    GraphError,
    KernelGraph,
    TemplateBuilder,
    TileGraphBuilder,
    check,
    from_networkx,
    graph_hash,
    load_graph,
    save_graph,
    to_networkx,
)


class Pair:
    """A cluster of `size` CTAs with a shared buffer, registers and one mbarrier each."""

    def __init__(self, size: int = 2, count: int = 1, threads: int = 128) -> None:
        self.b = TileGraphBuilder("pair", grid=(size, 1, 1), cluster=(size, 1, 1), threads=threads, arch="sm_90a")
        self.x = self.b.tensor("x", (64, 64), "float16")
        self.s, self.f = (self.b.buffer(n, (64, 64), "float16", scope=scope) for n, scope in (("s", "shared"), ("f", "fragment")))
        self.full = self.b.barrier("full", [count])
        self.t: TemplateBuilder = self.b.template()

    def node(self, type: str, cta: int, **more: Any) -> int:
        return self.t.node(type, more.pop("warps", range(4)), cta=cta, **more)

    def graph(self, **options: Any) -> KernelGraph:
        self.b.add_instances(self.t, [(0, 0, 0)])
        return self.b.build(**options)

    def findings(self) -> list[str]:
        return [f.text for f in check(self.graph(check=False)) if f.severity == "error"]


def pushed(*, synced: bool = True, relaxed: bool = False) -> Pair:
    """CTA 0 stores into CTA 1, which reads."""
    p = Pair()
    p.node("dsmem_store", 0, reads=[p.f.tile()], writes=[p.s.tile(cta=1)])
    if synced:
        for cta in range(2):
            p.t.cluster_arrive(range(4), cta=cta, relaxed=relaxed)
            p.t.cluster_wait(range(4), cta=cta)
    p.node("shared_load", 1, reads=[p.s.tile()], writes=[p.f.tile()])
    return p


def edges(g: KernelGraph) -> set[tuple[str, int, str, int, str]]:
    """(type, cta) of source and destination, and the kind."""
    t = g.templates[0]
    nodes = list(g.nodes_of(t))
    return {(nodes[a].type, nodes[a].cta, nodes[b].type, nodes[b].cta, EdgeKind(k).name)
            for a, b, k in zip(t.edge_src().tolist(), t.edge_dst.tolist(), t.edge_kind.tolist(), strict=True)}


def test_shared_memory_of_each_cta_is_storage_of_its_own() -> None:
    p = Pair()
    for cta in range(2):
        p.node("shared_store", cta, reads=[p.f.tile()], writes=[p.s.tile()])
        p.node("shared_load", cta, reads=[p.s.tile()], writes=[p.f.tile()])
    data = {e for e in edges(p.graph()) if e[4] == "DATA"}
    assert data == {("shared_store", c, "shared_load", c, "DATA") for c in range(2)}


def test_a_remote_tile_names_the_cta_whose_memory_it_is() -> None:
    g = pushed().graph()
    store = next(n for n in g.nodes_of(g.templates[0]) if n.type == "dsmem_store")
    assert [(t.cta, store.scope_of(t)) for t in store.tiles] == [(0, "fragment"), (1, "remote_shared")]
    assert ("dsmem_store", 0, "shared_load", 1, "DATA") in edges(g)


def test_a_read_of_what_another_cta_stored_needs_the_cluster_barrier() -> None:
    assert pushed().findings() == []
    (text,) = pushed(synced=False).findings()
    assert "CTA 1's #1 shared_load" in text and "reads 's' of CTA 1 while CTA 0's #0 dsmem_store" in text


def test_a_relaxed_arrival_publishes_nothing() -> None:
    (text,) = pushed(relaxed=True).findings()
    assert "may not have written it yet" in text


def test_the_cluster_barrier_waits_for_every_cta() -> None:
    g = pushed().graph()
    arrivals = {(a, b) for t, a, u, b, k in edges(g) if (t, u, k) == ("cluster_arrive", "cluster_wait", "COMPLETE")}
    assert arrivals == {(a, b) for a in range(2) for b in range(2)}


def test_warps_that_have_ended_count_as_arrived() -> None:
    p = Pair(threads=256)
    p.node("control", 0, warps=range(4, 8))
    for _ in range(3):
        for cta in range(2):
            p.t.cluster_sync(range(4) if cta == 0 else range(8), cta=cta)
    g = p.graph()
    exits = [n for n in g.nodes_of(g.templates[0]) if n.attrs.get("exited") and n.type == "cluster_arrive"]
    assert [(n.cta, n.warps) for n in exits] == 3 * [(0, (4, 5, 6, 7))]


def test_a_cluster_barrier_that_one_cta_never_comes_to_again_hangs_only_if_its_warps_live() -> None:
    p = Pair()
    p.t.cluster_sync(range(4), cta=0)
    p.node("barrier_wait", 1, wait=(p.full[0], 0))  # CTA 1 lives, and waits for what never comes
    p.t.cluster_sync(range(4), cta=1)
    with pytest.raises(CheckError, match="the cluster barrier|full"):
        p.graph()


def test_warps_that_come_together_have_come_as_often() -> None:
    p = Pair()
    p.t.cluster_sync([0], cta=0)
    with pytest.raises(GraphError, match="have been there 0 and 1 times"):
        p.t.cluster_arrive([0, 1], cta=0)


def multicast(p: Pair, *, expected: bool = True) -> None:
    p.node("tma_load", 0, warps=[0], reads=[p.x.tile()], writes=[p.s.tile(), p.s.tile(cta=1)], tx=p.full[0],
           arrive=[(p.full[0], 1)], deliver=[p.full.at(1)[0]])
    p.node("barrier_arrive", 1, warps=[0], attrs={"count": 1, "expect_bytes": 8192}, arrive=[(p.full[0], 1)],
           expect=p.full[0] if expected else None)
    for cta in range(2):
        p.node("barrier_wait", cta, wait=(p.full[0], 0))
        p.node("shared_load", cta, reads=[p.s.tile()], writes=[p.f.tile()])


def test_a_multicast_fills_and_signals_every_receiver() -> None:
    p = Pair()
    multicast(p)
    g = p.graph()
    load = next(n for n in g.nodes_of(g.templates[0]) if n.type == "tma_load")
    assert load.attrs["multicast"] == 0b11
    assert {("tma_load", 0, "barrier_wait", c, "COMPLETE") for c in range(2)} <= edges(g)
    assert {("tma_load", 0, "shared_load", c, "DATA") for c in range(2)} <= edges(g)


def test_a_phase_that_expects_data_is_not_over_before_it() -> None:
    p = Pair()
    p.node("barrier_arrive", 1, warps=[0], arrive=[(p.full[0], 1)], expect=p.full[0])
    p.node("barrier_wait", 1, wait=(p.full[0], 0))
    with pytest.raises(CheckError, match=r"lacks data that 1 copies.*delivers to CTA 1's full\[0\]"):
        p.graph()


def test_the_nth_delivery_belongs_to_the_nth_expectation() -> None:
    """CTA 0 runs two loads ahead: each phase of CTA 1 waits for its own."""
    p = Pair()
    s = [p.b.buffer(f"s{i}", (64, 64), "float16", scope="shared") for i in range(2)]
    for i in range(2):
        p.node("tma_load", 0, warps=[0], reads=[p.x.tile()], writes=[s[i].tile(cta=1)], deliver=[p.full.at(1)[0]],
               source=f"load {i}")
    for i in range(2):
        p.node("barrier_arrive", 1, warps=[0], arrive=[(p.full[0], 1)], expect=p.full[0])
        p.node("barrier_wait", 1, wait=(p.full[0], i % 2), source=f"wait {i}")
    g = p.graph()
    t = g.templates[0]
    nodes = list(g.nodes_of(t))
    into = {nodes[b].source: {nodes[a].source for a, d in zip(t.edge_src().tolist(), t.edge_dst.tolist(), strict=True) if d == b}
            for b in range(t.nodes) if nodes[b].type == "barrier_wait"}
    assert "load 0" in into["wait 0"] and "load 1" not in into["wait 0"] and "load 1" in into["wait 1"]


def test_arrivals_reach_the_barrier_of_the_cta_they_name() -> None:
    p = Pair(count=256)
    for cta in range(2):
        p.node("barrier_arrive", cta, attrs={"count": 128}, arrive=[(p.full.at(0)[0], 128)])
    p.node("barrier_wait", 0, wait=(p.full[0], 0))
    g = p.graph()
    remote = [n.attrs.get("cta") for n in g.nodes_of(g.templates[0]) if n.type == "barrier_arrive"]
    assert remote == [None, 0]  # CTA 1's goes elsewhere
    assert ("barrier_arrive", 1, "barrier_wait", 0, "COMPLETE") in edges(g)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda p: p.node("barrier_wait", 0, wait=(p.full.at(1)[0], 0)), "can wait for its own barriers only"),
        (lambda p: p.node("shared_store", 0, writes=[p.s.tile(cta=2)]), "a CTA of rank 2; the cluster has 2"),
        (lambda p: p.node("fill", 2, attrs={"elements": 1}, writes=[p.f.tile()]), "a CTA of rank 2"),
        (lambda p: p.full.at(2), "no copy in a CTA of rank 2"),
        (lambda p: p.f.tile(cta=1), "only shared memory can be reached"),
        (lambda p: p.node("tma_load", 0, reads=[p.x.tile()], writes=[p.s.tile(cta=1)], attrs={"multicast": 1}),
         "not that of the tiles"),
    ],
)
def test_what_a_cluster_does_not_have_is_refused(build: Any, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        build(Pair())


def test_a_grid_is_a_whole_number_of_clusters() -> None:
    with pytest.raises(GraphError, match="not a whole number of clusters.*multiple"):
        TileGraphBuilder("odd", grid=(3, 1, 1), cluster=(2, 1, 1), threads=32)


def test_files_and_networkx_keep_the_ranks(tmp_path: Path) -> None:
    p = Pair()
    multicast(p)
    g = p.graph()
    save_graph(g, tmp_path / "g.npz")
    loaded = load_graph(tmp_path / "g.npz")
    assert graph_hash(loaded) == graph_hash(g) == graph_hash(from_networkx(to_networkx(g)))
    assert loaded.launch.cluster == (2, 1, 1) and loaded.templates[0].tile_cta.tolist() == g.templates[0].tile_cta.tolist()


def test_a_file_with_a_rank_beyond_the_cluster_is_refused(tmp_path: Path) -> None:
    g = pushed().graph()
    broken = dataclasses.replace(g.templates[0], tile_cta=np.full_like(g.templates[0].tile_cta, 2))
    save_graph(dataclasses.replace(g, templates=(broken,)), tmp_path / "g.npz")
    with pytest.raises(GraphError, match="t0.tile_cta holds values outside 0..1"):
        load_graph(tmp_path / "g.npz")
