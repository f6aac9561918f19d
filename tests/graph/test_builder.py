"""The builder turns programs of warps into edges, versions and phases."""

from __future__ import annotations

import numpy as np
import pytest
from gtsim.graph import EdgeKind, GraphError, KernelGraph, Reason, TileGraphBuilder, check


def ring(trips: int, stages: int, *, arrive: bool = True, count: int = 128, wait_empty: bool = True) -> KernelGraph:
    """A producer warp fills a ring of `stages` buffers, a consumer warpgroup reads it, `trips` times."""
    b = TileGraphBuilder("ring", grid=(4, 1, 1), threads=256)
    x = b.tensor("x", (256, 64 * trips), "float16")
    s = b.buffer("s", (stages, 64, 64), "float16", scope="shared")
    f = b.buffer("f", (64, 64), "float16", scope="fragment")
    full, empty = b.barrier("full", [1] * stages), b.barrier("empty", [count] * stages)
    t = b.template()
    m0 = t.column("m0")
    for k in range(trips):
        slot, lap = k % stages, k // stages
        tile = s.tile((slot, 0, 0), (1, 64, 64))
        if wait_empty:
            t.node("barrier_wait", [0], attrs={"barrier": "empty"}, wait=(empty[slot], lap % 2 ^ 1), loop=f"k={k}")
        t.node(
            "tma_load",
            [0],
            reads=[x.tile((m0, 64 * k), (64, 64))],
            writes=[tile],
            tx=full[slot],
            arrive=[(full[slot], 1)],
            loop=f"k={k}",
        )
    for k in range(trips):
        slot, lap = k % stages, k // stages
        t.node("barrier_wait", range(4, 8), attrs={"barrier": "full"}, wait=(full[slot], lap % 2), loop=f"k={k}")
        t.node("shared_load", range(4, 8), reads=[s.tile((slot, 0, 0), (1, 64, 64))], writes=[f.tile()], loop=f"k={k}")
        if arrive:
            t.node(
                "barrier_arrive",
                range(4, 8),
                attrs={"barrier": "empty", "count": 128},
                arrive=[(empty[slot], 128)],
                loop=f"k={k}",
            )
    b.add_instances(t, [(i, 0, 0) for i in range(4)], {"m0": [64 * i for i in range(4)]})
    return b.build()


def edges(graph: KernelGraph) -> set[tuple[str, str, str, str]]:
    """(source type[loop], destination type[loop], kind, reason) of the first template."""
    t = graph.templates[0]
    names = [f"{n.type}[{n.loop}]" for n in graph.nodes_of(t)]
    return {
        (names[a], names[b], EdgeKind(k).name, Reason(r).name)
        for a, b, k, r in zip(t.edge_src(), t.edge_dst, t.edge_kind, t.edge_reason, strict=True)
    }


@pytest.mark.parametrize(("trips", "stages"), [(1, 3), (2, 3), (3, 3), (7, 3), (8, 2), (5, 1)])
def test_every_read_sees_the_version_its_load_wrote(trips: int, stages: int) -> None:
    found = edges(ring(trips, stages))
    for k in range(trips):
        sources = {a for a, b, kind, _ in found if b == f"shared_load[k={k}]" and kind == "DATA"}
        assert sources == {f"tma_load[k={k}]"}


def test_a_slot_is_refilled_only_after_its_readers_arrived() -> None:
    found = edges(ring(6, 3))
    for k in range(3, 6):
        assert (f"barrier_arrive[k={k - 3}]", f"barrier_wait[k={k}]", "COMPLETE", "BARRIER") in found
    assert not {e for e in found if e[1] == "barrier_wait[k=0]" and e[3] == "BARRIER" and e[0].startswith("barrier_arrive")}


def test_warps_go_on_after_an_asynchronous_load_has_been_issued() -> None:
    assert ("tma_load[k=0]", "barrier_wait[k=1]", "ISSUE", "PROGRAM") in edges(ring(2, 3))


def test_a_missing_arrival_is_a_deadlock_that_names_the_barrier() -> None:
    with pytest.raises(GraphError, match=r"deadlock: .*empty\[0\] phase 0 has 0 of 128 arrivals"):
        ring(4, 3, arrive=False)


def test_too_many_arrivals_are_reported_with_the_count() -> None:
    with pytest.raises(GraphError, match=r"barrier empty\[0\] takes 100 arrivals a phase but phase 0 received 128"):
        ring(4, 3, count=100)


def test_a_producer_that_does_not_wait_is_a_race() -> None:
    with pytest.raises(GraphError, match=r"overwrites 's' while .* may still use it"):
        ring(4, 3, wait_empty=False, arrive=False)


def test_wait_group_orders_behind_all_but_the_pending_groups() -> None:
    b = TileGraphBuilder("groups", grid=(1, 1, 1), threads=128)
    x, s = b.tensor("x", (64, 256), "float16"), b.buffer("s", (4, 64, 64), "float16", scope="shared")
    t = b.template()
    for k in range(3):
        t.node(
            "cp_async",
            range(4),
            reads=[x.tile((0, 64 * k), (64, 64))],
            writes=[s.tile((k, 0, 0), (1, 64, 64))],
            group="cp_async",
            loop=f"k={k}",
        )
        t.commit("cp_async", range(4), loop=f"k={k}")
    t.wait_group("cp_async", 1, range(4), loop="w")
    b.add_instances(t, [(0, 0, 0)])
    found = {e for e in edges(b.build()) if e[1] == "wait_group[w]" and e[3] == "GROUP"}
    assert found == {(f"cp_async[k={k}]", "wait_group[w]", "COMPLETE", "GROUP") for k in range(2)}


def test_a_barrier_waits_for_the_memory_operations_before_it() -> None:
    b = TileGraphBuilder("sync", grid=(1, 1, 1), threads=256)
    s, f = b.buffer("s", (128, 64), "float16", scope="shared"), b.buffer("f", (64, 64), "float16", scope="fragment")
    t = b.template()
    for g in range(2):
        t.node("shared_store", range(4 * g, 4 * g + 4), reads=[f.tile()], writes=[s.tile((64 * g, 0), (64, 64))], loop=f"g={g}")
    t.node("cta_sync", range(8))
    t.node("shared_load", range(4), reads=[s.tile()], writes=[f.tile()], loop="r")
    b.add_instances(t, [(0, 0, 0)])
    found = edges(b.build())
    for g in range(2):
        assert (f"shared_store[g={g}]", "cta_sync[]", "COMPLETE", "SYNC") in found
        assert (f"shared_store[g={g}]", "shared_load[r]", "DATA", "DATA") in found  # both pieces of the tile


def test_register_tiles_of_two_warpgroups_are_separate() -> None:
    b = TileGraphBuilder("regs", grid=(1, 1, 1), threads=256)
    f = b.buffer("f", (64, 64), "float32", scope="fragment")
    t = b.template()
    for g in range(2):
        t.node("fill", range(4 * g, 4 * g + 4), writes=[f.tile()], attrs={"elements": 4096}, loop=f"g={g}")
        t.node(
            "elementwise", range(4 * g, 4 * g + 4), reads=[f.tile()], writes=[f.tile()], attrs={"elements": 4096}, loop=f"g={g}"
        )
    b.add_instances(t, [(0, 0, 0)])
    data = {e[:2] for e in edges(b.build()) if e[2] == "DATA"}
    assert data == {(f"fill[g={g}]", f"elementwise[g={g}]") for g in range(2)}


def test_structure_does_not_grow_with_the_number_of_ctas() -> None:
    def build(ctas: int) -> KernelGraph:
        b = TileGraphBuilder("many", grid=(ctas, 1, 1), threads=32)
        x, s = b.tensor("x", (64 * ctas, 64), "float16"), b.buffer("s", (64, 64), "float16", scope="shared")
        t = b.template()
        t.node("tma_load", [0], reads=[x.tile((t.column("m0"), 0), (64, 64))], writes=[s.tile()])
        b.add_instances(t, np.stack([np.arange(ctas), 0 * np.arange(ctas), 0 * np.arange(ctas)], 1), {"m0": 64 * np.arange(ctas)})
        return b.build()

    small, large = build(2), build(20000)
    assert small.nbytes == large.nbytes
    assert large.instances.nbytes == 10000 * small.instances.nbytes


def test_instances_stand_in_launch_order() -> None:
    b = TileGraphBuilder("order", grid=(2, 2, 1), threads=32)
    t = b.template()
    t.node("cta_sync", [0])
    b.add_instances(t, [(1, 1, 0), (0, 0, 0), (0, 1, 0), (1, 0, 0)])
    assert b.build().instances.block.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda b, t: t.node("tma_lod", [0]), "unknown node type 'tma_lod'. Did you mean tma_load"),
        (lambda b, t: t.node("fill", [0], attrs={"elements": 1.5}), "attribute 'elements' of 'fill' must be int"),
        (lambda b, t: t.node("fill", [0], attrs={}), "attribute 'elements' of 'fill' is missing"),
        (lambda b, t: t.node("fill", [0], attrs={"elements": 1, "elems": 2}), "node type 'fill' has no attribute 'elems'"),
        (lambda b, t: t.node("cta_sync", []), "no warps execute it"),
        (lambda b, t: b.tensor("x", (4, 4), "float16").tile((0,), (4,)), "buffer 'x' has 2 dimensions"),
        (lambda b, t: b.tensor("x", (4, 4), "floaty"), "unknown element type 'floaty'"),
        (lambda b, t: b.buffer("x", (4, 4), "float16", scope="smem"), "unknown scope 'smem'"),
        (lambda b, t: b.barrier("full", [0]), "arrival count below 1"),
        (lambda b, t: b.barrier("full", [1])[1], "barrier 'full' has 1 slots, not slot 1"),
        (lambda b, t: (t.column("m0"), b.add_instances(t, [(0, 0, 0)])), "column 'm0' needs one origin"),
    ],
)
def test_misuse_is_named(use: object, message: str) -> None:
    b = TileGraphBuilder("misuse", grid=(1, 1, 1), threads=32)
    with pytest.raises(GraphError, match=message.replace("(", r"\(").replace("'", "'")):
        use(b, b.template())  # type: ignore[operator]


def test_check_names_tiles_and_warps_out_of_range() -> None:
    b = TileGraphBuilder("range", grid=(1, 1, 1), threads=32)
    s = b.buffer("s", (64, 64), "float16", scope="shared")
    t = b.template()
    t.node("fill", [5], writes=[s.tile((1, 0), (64, 64))], attrs={"elements": 4096}, source="fill(s)")
    b.add_instances(t, [(0, 0, 0)])
    text = " ".join(f.text for f in check(b.build(check=False)))
    assert "uses warp 5 of a CTA of 1 warps" in text
    assert "leaves buffer 's' of shape [64, 64]" in text
