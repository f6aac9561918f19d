"""Hangs are refuted with the barrier, the phase, who waits, and what keeps the arrival from coming."""

from __future__ import annotations

import pytest
from gtsim.graph import CheckError, TileGraphBuilder

import gtsim

from .rings import MATH, Ring, persistent, plain


def kinds(builder: TileGraphBuilder, hw: str = "h100_sxm") -> list[str]:
    return sorted({f.kind for f in gtsim.check(builder, hw=hw).errors})


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("trips", range(1, 10))
def test_a_persistent_loop_needs_its_phase_carried(trips: int, stages: int) -> None:
    """tile-ai/tilelang#2674: without it, right only if the trips are a multiple of the ring's period, 2 x stages."""
    assert kinds(persistent(trips, stages, 3, carry=True)) == []
    found = kinds(persistent(trips, stages, 3, carry=False))
    assert (found == []) == (trips % (2 * stages) == 0)
    assert set(found) <= {"race", "deadlock"}


def test_the_wait_that_let_it_through_is_named() -> None:
    first = gtsim.check(persistent(1, 1, 3, carry=False)).errors[0]
    assert "producer's #5 tma_load copy(A -> a_s) [tile=1, k=0] overwrites 'a_s'" in first.text
    assert "barrier_wait wait(empty) [tile=1, k=0] in front of it passes at once" in first.fix


def test_one_tile_is_right_either_way() -> None:
    for trips in range(1, 8):
        assert kinds(persistent(trips, 3, 1, carry=False)) == []


def arrives_behind(trips: int, *, epilogue: bool) -> TileGraphBuilder:
    """A GEMV whose producer signals a load when it issues the next one; the last is signalled behind the loop, if at all."""
    ring = Ring(2)
    for k in range(trips):
        ring.wait_empty(k % 2, k // 2 % 2 ^ 1, f"ko={k}")
        ring.load(k % 2, k, f"ko={k}", arrive=False)
        if k or (epilogue and trips == 1):
            ring.t.node(
                "barrier_arrive",
                [0],
                arrive=[(ring.full[(k - 1) % 2 if k else 0], 1)],
                source="arrive(full)",
                role="producer",
                loop=f"ko={k}",
            )
    if trips > 1:
        ring.t.node("barrier_arrive", [0], arrive=[(ring.full[(trips - 1) % 2], 1)], source="arrive(full)", role="producer")
    for k in range(trips):
        ring.wait_full(k % 2, k // 2 % 2, f"ko={k}")
        ring.product(k % 2, f"ko={k}")
        ring.arrive_empty(k % 2, f"ko={k}")
    return ring.done()


def test_a_loop_of_one_trip_that_nobody_signals() -> None:
    """tile-ai/tilelang#2566: the arrival that belongs to the next trip never comes if there is no next trip."""
    for trips in (2, 3, 5):
        assert kinds(arrives_behind(trips, epilogue=False)) == []
    assert kinds(arrives_behind(1, epilogue=True)) == []
    report = gtsim.check(arrives_behind(1, epilogue=False))
    (finding,) = report.errors
    assert finding.kind == "deadlock" and not report.ok
    first, second = finding.text.split("\n")
    assert first == "deadlock: consumer waits at wait(full) [ko=0]: full[0] phase 0 has 0 of 1 arrivals"
    assert second == ("nothing that is left to run arrives on full[0], although copy(A -> a_s) [ko=0] completes its bytes there")
    assert finding.details["barrier"] == "full" and finding.details["needed"] == 1 and not finding.details["circle"]


def backward(seq: int) -> TileGraphBuilder:
    """Attention backward: a tile of Q by TMA and a row of fp32 softmax sums a step share one barrier, counted for two TMA loads.

    Rows of `seq` fp32 values start every 4 * seq bytes; where that is not a multiple of 16 the row is loaded by threads, and
    nobody arrives for it.
    """
    b = TileGraphBuilder("backward", grid=(1, 4, 1), threads=256, registers_per_thread=168, arch="sm_90a")
    q, lse = b.tensor("Q", (4, seq, 64), "float16"), b.tensor("lse", (4, seq), "float32")
    q_s = b.buffer("q_s", (2, 64, 64), "float16", scope="shared", swizzle_bytes=128)
    lse_s = b.buffer("lse_s", (2, 64), "float32", scope="shared")
    f, row = b.buffer("s", (64, 64), "float32", scope="fragment"), b.buffer("row", (64,), "float32", scope="fragment")
    full, empty = b.barrier("full", [2] * 2), b.barrier("empty", [128] * 2)
    t = b.template("class 0")
    head = t.column("head")
    bulk = 4 * seq % 16 == 0
    for i in range(-(-seq // 64)):
        slot, loop = i % 2, f"i={i}"
        t.node("barrier_wait", [0], wait=(empty[slot], i // 2 % 2 ^ 1), source="wait(empty)", role="producer", loop=loop)
        t.node(
            "tma_load",
            [0],
            reads=[q.tile((head, 64 * i, 0), (1, 64, 64))],
            writes=[q_s.tile((slot, 0, 0), (1, 64, 64))],
            attrs={"tensor_map": True, "box": (1, 64, 64)},
            tx=full[slot],
            arrive=[(full[slot], 1)],
            source="copy(Q -> q_s)",
            role="producer",
            loop=loop,
        )
        place = lse_s.tile((slot, 0), (1, 64))
        if bulk:
            t.node(
                "tma_load",
                [0],
                reads=[lse.tile((head, 64 * i), (1, 64))],
                writes=[place],
                tx=full[slot],
                attrs={"tensor_map": False},
                arrive=[(full[slot], 1)],
                source="copy(lse -> lse_s)",
                role="producer",
                loop=loop,
            )
        else:
            t.node(
                "global_load",
                [0],
                reads=[lse.tile((head, 64 * i), (1, 64))],
                writes=[row.tile()],
                source="copy(lse -> lse_s)",
                role="producer",
                loop=loop,
            )
            t.node(
                "shared_store", [0], reads=[row.tile()], writes=[place], source="copy(lse -> lse_s)", role="producer", loop=loop
            )
        t.node("barrier_wait", MATH, wait=(full[slot], i // 2 % 2), source="wait(full)", role="consumer", loop=loop)
        t.node(
            "wgmma",
            MATH,
            reads=[q_s.tile((slot, 0, 0), (1, 64, 64)), place],
            writes=[f.tile()],
            blocking=True,
            attrs={"m": 64, "n": 64, "k": 64, "dtype": "float16", "instruction": "m64n64k16"},
            source="gemm(q_s -> s)",
            role="consumer",
            loop=loop,
        )
        t.node("barrier_arrive", MATH, arrive=[(empty[slot], 128)], source="arrive(empty)", role="consumer", loop=loop)
    b.add_instances(t, [(0, i, 0) for i in range(4)], {"head": list(range(4))})
    return b


@pytest.mark.parametrize(("seq", "hangs"), [(256, False), (252, False), (250, True), (130, True), (64, False)])
def test_misaligned_rows_stop_being_bulk_copies_and_their_arrivals_go(seq: int, hangs: bool) -> None:
    """tile-ai/tilelang#2567: sequence 250 hangs, 256 runs."""
    report = gtsim.check(backward(seq))
    assert bool(report.errors) == hangs
    if hangs:
        (finding,) = report.errors
        assert "consumer waits at wait(full) [i=0]: full[0] phase 0 has 1 of 2 arrivals (from producer)" in finding.text
        assert len(finding.text.split("\n")) <= 3


def test_a_hand_written_kernel_of_640_threads_passes() -> None:
    """tile-ai/tilelang#2346: four barriers, one producer warpgroup, four consuming ones."""
    b = TileGraphBuilder("wide", grid=(4, 1, 1), threads=640, registers_per_thread=96, arch="sm_90a")
    x = b.tensor("A", (256, 4096), "int8")
    s = b.buffer("a_s", (2, 256, 128), "int8", scope="shared", swizzle_bytes=128)
    f = b.buffer("c", (64, 128), "int8", scope="fragment")
    full, empty = b.barrier("full", [128, 128]), b.barrier("empty", [512, 512])
    t = b.template()
    for k in range(7):
        slot, loop = k % 2, f"k={k}"
        t.node(
            "barrier_wait", range(16, 20), wait=(empty[slot], k // 2 % 2 ^ 1), source="wait(empty)", role="producer", loop=loop
        )
        t.node(
            "tma_load",
            [16],
            reads=[x.tile((0, 128 * k), (256, 128))],
            writes=[s.tile((slot, 0, 0), (1, 256, 128))],
            attrs={"tensor_map": True, "box": (256, 128)},
            tx=full[slot],
            source="copy",
            role="producer",
            loop=loop,
        )
        t.node("barrier_arrive", range(16, 20), arrive=[(full[slot], 128)], source="arrive(full)", role="producer", loop=loop)
        for g in range(4):
            warps = range(4 * g, 4 * g + 4)
            t.node("barrier_wait", warps, wait=(full[slot], k // 2 % 2), source="wait(full)", role=f"consumer {g}", loop=loop)
            t.node(
                "shared_load",
                warps,
                reads=[s.tile((slot, 64 * g, 0), (1, 64, 128))],
                writes=[f.tile()],
                source="load",
                role=f"consumer {g}",
                loop=loop,
            )
            t.node("barrier_arrive", warps, arrive=[(empty[slot], 128)], source="arrive(empty)", role=f"consumer {g}", loop=loop)
    b.add_instances(t, [(i, 0, 0) for i in range(4)])
    assert gtsim.check(b).errors == ()


def test_a_circle_is_told_with_both_sides() -> None:
    ring = Ring(1)
    ring.wait_empty(0, 0, "k=0")  # waits for a phase that only the consumer's first arrival completes
    ring.load(0, 0, "k=0")
    ring.wait_full(0, 0, "k=0")
    ring.product(0, "k=0")
    ring.arrive_empty(0, "k=0")
    (finding,) = gtsim.check(ring.done()).errors
    assert finding.text.split("\n") == [
        "deadlock: producer waits at wait(empty) [k=0]: empty[0] phase 0 has 0 of 128 arrivals",
        "consumer should arrive at arrive(empty) [k=0], but consumer waits at wait(full) [k=0]: "
        "full[0] phase 0 has 0 of 1 arrivals",
        "producer should arrive at copy(A -> a_s) [k=0], but waits for that itself: a circle",
    ]
    assert finding.details["circle"] and len(finding.details["chain"]) == 2


def test_too_few_arrivals_are_counted() -> None:
    ring = Ring(1, threads=384, empty=256)
    for k in range(2):
        ring.wait_empty(0, k % 2 ^ 1, f"k={k}")
        ring.load(0, k, f"k={k}")
        ring.wait_full(0, k % 2, f"k={k}")
        ring.product(0, f"k={k}")
        ring.arrive_empty(0, f"k={k}")
    (finding,) = gtsim.check(ring.done()).errors
    assert "producer waits at wait(empty) [k=1]: empty[0] phase 0 has 128 of 256 arrivals (from consumer)" in finding.text
    assert finding.details["arrived"] == 128 and finding.details["arrived_by"][0]["loop"] == "k=0"


def test_too_many_arrivals_name_the_last() -> None:
    ring = Ring(1, empty=100)
    ring.load(0, 0, "k=0")
    ring.wait_full(0, 0, "k=0")
    ring.arrive_empty(0, "k=0")
    (finding,) = gtsim.check(ring.done()).errors
    assert finding.kind == "arrivals" and "the last from consumer at arrive(empty) [k=0]" in finding.text


def test_building_raises_what_check_lists() -> None:
    with pytest.raises(CheckError, match=r"class 0: deadlock: .*full\[0\] phase 0 has 0 of 1") as caught:
        arrives_behind(1, epilogue=False).build()
    assert [f.kind for f in caught.value.findings] == ["deadlock"]


@pytest.mark.parametrize(("trips", "stages"), [(1, 1), (1, 4), (5, 2), (9, 3)])
def test_a_right_ring_is_clean(trips: int, stages: int) -> None:
    assert kinds(plain(trips, stages)) == []


def test_what_is_wrong_in_any_order_is_told_of_a_kernel_that_hangs() -> None:
    """Shared memory, instructions and what costs time do not depend on the order that a hang leaves unknown."""
    builder = arrives_behind(1, epilogue=False)
    builder.smem_bytes = 300_000
    report = gtsim.check(builder)
    assert [f.kind for f in report.errors] == ["deadlock", "overflow"]
    assert "a CTA needs 300000 bytes of shared memory" in report.errors[1].text
    assert report.to_dict()["kernels"][0]["built"] is False
    on_ampere = {f.kind for f in gtsim.check(arrives_behind(1, epilogue=False), hw="a100_sxm").errors}
    assert on_ampere == {"deadlock", "illegal"}
    ring = Ring(1)  # one slot for two trips, and nobody signals the second load
    for k in range(2):
        ring.load(0, k, f"k={k}", arrive=not k)
        ring.wait_full(0, k, f"k={k}")
        ring.product(0, f"k={k}")
    report = gtsim.check(ring.done())
    assert [f.kind for f in report.errors] == ["deadlock"] and "pipelining" in {f.kind for f in report.warnings}


def test_too_many_arrivals_do_not_hide_the_rest_either() -> None:
    ring = Ring(1, empty=100, registers=400)
    ring.load(0, 0, "k=0")
    ring.wait_full(0, 0, "k=0")
    ring.arrive_empty(0, "k=0")
    assert {f.kind for f in gtsim.check(ring.done()).errors} == {"arrivals", "overflow"}


def test_classes_that_hang_alike_are_told_once() -> None:
    b = arrives_behind(1, epilogue=False)
    twin = b.template("class 1")
    twin.drafts = b._templates[0].drafts
    twin.column("row")
    b.grid = (8, 1, 1)
    b.add_instances(twin, [(i, 0, 0) for i in range(4, 8)], {"row": [64 * i for i in range(4, 8)]})
    assert [f.where for f in gtsim.check(b).errors] == ["class 0"]
    with pytest.raises(CheckError) as caught:
        b.build()
    assert caught.value.partial is not None and len(caught.value.partial.templates) == 2
