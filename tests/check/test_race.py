"""Two accesses of one slot without an order path are refuted, both named with their iteration."""

from __future__ import annotations

import pytest
from gtsim.graph import Finding, TileGraphBuilder

import gtsim

from .rings import Ring

GROUPS = {"consumer 0": range(0, 4), "consumer 1": range(4, 8)}


def errors(builder: TileGraphBuilder, hw: str = "h100_sxm") -> tuple[Finding, ...]:
    return gtsim.check(builder, hw=hw).errors


def staged_once(trips: int, *, loop_back: bool) -> TileGraphBuilder:
    """All threads stage one operand, both warpgroups multiply it; a new trip stages over it."""
    b = TileGraphBuilder("staged", grid=(4, 1, 1), threads=256, registers_per_thread=128, arch="sm_90a")
    x, s = (
        b.tensor("A", (64, 64 * trips), "float16"),
        b.buffer("A_shared", (64, 64), "float16", scope="shared", swizzle_bytes=128),
    )
    r, f = b.buffer("r", (64, 64), "float16", scope="fragment"), b.buffer("acc", (64, 64), "float32", scope="fragment")
    t = b.template("class 0")
    for k in range(trips):
        loop = f"ko={k}"
        for role, warps in GROUPS.items():
            t.node(
                "global_load",
                warps,
                reads=[x.tile((0, 64 * k), (64, 64))],
                writes=[r.tile()],
                source="copy(A -> A_shared)",
                role=role,
                loop=loop,
            )
            half = s.tile((32 * (role == "consumer 1"), 0), (32, 64))
            t.node("shared_store", warps, reads=[r.tile()], writes=[half], source="copy(A -> A_shared)", role=role, loop=loop)
        t.node("cta_sync", range(8), source="sync", loop=loop)
        for role, warps in GROUPS.items():
            t.node(
                "wgmma",
                warps,
                reads=[s.tile(), f.tile()],
                writes=[f.tile()],
                blocking=True,
                source="gemm(A_shared -> acc)",
                attrs={"m": 64, "n": 64, "k": 64, "dtype": "float16", "instruction": "m64n64k16"},
                role=role,
                loop=loop,
            )
        if loop_back:
            t.node("cta_sync", range(8), source="sync", loop=loop)
    b.add_instances(t, [(i, 0, 0) for i in range(4)])
    return b


def test_two_warpgroups_that_read_one_buffer_need_an_order_back() -> None:
    """tile-ai/tilelang#2613: write after read without a barrier at the end of the trip."""
    assert errors(staged_once(4, loop_back=True)) == ()
    assert errors(staged_once(1, loop_back=False)) == ()
    found = errors(staged_once(4, loop_back=False))
    assert found and {f.kind for f in found} == {"race"}
    text = found[0].text
    assert "shared_store copy(A -> A_shared) [ko=1] overwrites 'A_shared' while" in text
    assert "wgmma gemm(A_shared -> acc) [ko=0] may still use it" in text
    first, second = found[0].details["first"], found[0].details["second"]
    assert {first["role"], second["role"]} == set(GROUPS) and (first["access"], second["access"]) == ("read", "write")


def consume_then_load(trips: int, stages: int, *, hoisted: bool) -> TileGraphBuilder:
    """A loop that adds up a buffer and then loads the next tile into it. Pipelined (`hoisted`), the loads of `stages` - 1 trips
    come first, and nothing awaits them before the buffer is read."""
    b = TileGraphBuilder("consume", grid=(1, 1, 1), threads=32, arch="sm_80")
    x, s = b.tensor("A", (trips, 32), "int32"), b.buffer("S", (32,), "int32", scope="shared")
    acc = b.buffer("acc", (32,), "int32", scope="fragment")
    t = b.template("class 0")

    def load(k: int) -> None:
        t.node(
            "cp_async",
            [0],
            reads=[x.tile((k, 0), (1, 32))],
            writes=[s.tile()],
            group="cp_async",
            source="copy(A -> S)",
            loop=f"k={k}",
        )
        t.commit("cp_async", [0], loop=f"k={k}")

    t.node("shared_store", [0], reads=[acc.tile()], writes=[s.tile()], source="S = Sinit")
    t.node("cta_sync", [0])
    ahead = stages - 1 if hoisted else 0
    for k in range(min(ahead, trips)):
        load(k)
    for k in range(trips):
        t.node("shared_load", [0], reads=[s.tile()], writes=[acc.tile()], source="acc += S", loop=f"k={k}")
        if k + ahead < trips:
            load(k + ahead)
        t.wait_group("cp_async", ahead, [0], loop=f"k={k}")
    b.add_instances(t, [(0, 0, 0)])
    return b


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_load_hoisted_above_the_use_of_the_old_value(stages: int) -> None:
    """tile-ai/tilelang#2668: right without a pipeline, wrong with two stages and more."""
    assert errors(consume_then_load(8, stages, hoisted=False), "a100_sxm") == ()
    found = errors(consume_then_load(8, stages, hoisted=True), "a100_sxm")
    assert found and {f.kind for f in found} == {"race"}
    assert "acc += S [k=0] reads 'S' while" in found[0].text and "copy(A -> S) [k=" in found[0].text


def test_a_read_that_does_not_wait_for_its_load() -> None:
    ring = Ring(2)
    ring.load(0, 0, "k=0")
    ring.product(0, "k=0")
    (finding,) = errors(ring.done())
    assert finding.text == (
        "consumer's #1 wgmma gemm(a_s -> acc) [k=0] reads 'a_s' while producer's #0 tma_load copy(A -> a_s) "
        "[k=0] may not have written it yet (slot 0): no order path between them"
    )
    assert finding.details["slot"] == 0


def test_a_slot_given_back_while_products_are_in_flight() -> None:
    ring = Ring(1)
    for k in range(2):
        ring.wait_empty(0, k ^ 1, f"k={k}")
        ring.load(0, k, f"k={k}")
        ring.wait_full(0, k, f"k={k}")
        ring.product(0, f"k={k}", blocking=False)
        ring.arrive_empty(0, f"k={k}")
    (finding,) = errors(ring.done())
    assert "tma_load copy(A -> a_s) [k=1] overwrites 'a_s' while consumer's" in finding.text


def test_slots_of_two_ctas_of_a_cluster_are_two_slots() -> None:
    b = TileGraphBuilder("pair", grid=(2, 1, 1), cluster=(2, 1, 1), threads=128, arch="sm_90a")
    s, f = b.buffer("s", (64, 64), "float16", scope="shared"), b.buffer("f", (64, 64), "float16", scope="fragment")
    t = b.template()
    for cta in range(2):
        t.node("shared_store", range(4), reads=[f.tile()], writes=[s.tile()], cta=cta)
    b.add_instances(t, [(0, 0, 0)])
    assert errors(b) == ()
