"""Blocks that write what other blocks use are refuted; atomics, flags, bounds and own tiles are not."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from gtsim.graph import Finding, TileGraphBuilder

import gtsim


def found(builder: TileGraphBuilder) -> list[Finding]:
    return [f for f in gtsim.check(builder).errors if f.kind == "race"]


def stores(
    origins: list[tuple[int, int]],
    extent: tuple[int, int] = (64, 64),
    *,
    shape: tuple[int, int] = (4096, 4096),
    type: str = "global_store",
    dtype: str = "float16",
    reads: list[tuple[int, int]] | None = None,
    **attrs: Any,
) -> TileGraphBuilder:
    """Block i stores a tile of C at origins[i], and first loads one of C at reads[i]."""
    n = len(origins)
    b = TileGraphBuilder("k", grid=(n, 1, 1), threads=128, arch="sm_90a")
    c, f = b.tensor("C", shape, dtype), b.buffer("f", extent, dtype, scope="fragment")
    t = b.template()
    row, col = t.column("row"), t.column("col")
    columns = {"row": [o[0] for o in origins], "col": [o[1] for o in origins]}
    if reads is not None:
        there = (t.column("from_row"), t.column("from_col"))
        columns |= {"from_row": [o[0] for o in reads], "from_col": [o[1] for o in reads]}
        t.node("global_load", range(4), reads=[c.tile(there, extent)], writes=[f.tile()], source="copy(C -> f)")
    t.node(type, range(4), reads=[f.tile()], writes=[c.tile((row, col), extent)], source="copy(f -> C)", attrs=attrs)
    b.add_instances(t, [(i, 0, 0) for i in range(n)], columns)
    return b


GRID = [(64 * i, 64 * j) for i in range(8) for j in range(8)]


def test_tiles_side_by_side_pass() -> None:
    assert found(stores(GRID)) == []
    assert found(stores([(i, 0) for i in range(64)], (1, 4096))) == []


def test_two_blocks_that_write_one_tile_are_named() -> None:
    (f,) = found(stores([*GRID, (128, 192)]))
    assert f.text == (
        "block (19, 0, 0) at copy(f -> C) and block (64, 0, 0) at copy(f -> C) both write C[128:192, 192:256], and nothing "
        "orders blocks"
    )
    assert "T.atomic_add" in f.fix and f.details["box"] == [[128, 192], [192, 256]]
    first = {"block": [19, 0, 0], "access": "write", "type": "global_store", "source": "copy(f -> C)", "loop": ""}
    assert f.details["first"] == first


@pytest.mark.parametrize(("shift", "races"), [(63, True), (1, True), (64, False)])
def test_tiles_that_overlap_by_a_row(shift: int, races: bool) -> None:
    assert bool(found(stores([(1000, 256), (1000 + shift, 256)]))) == races


def test_what_sticks_out_of_the_tensor_is_cut() -> None:
    assert found(stores([(0, 0), (64, 0)], (64, 64), shape=(64, 64))) == []


def test_reading_what_another_block_writes() -> None:
    own = stores(GRID, reads=GRID)
    assert found(own) == []
    shifted = stores(GRID, reads=[*GRID[1:], (2048, 2048)])
    (f,) = found(shifted)
    assert f.text == (
        "block (0, 0, 0) at copy(C -> f) reads C[0:64, 64:128], which block (1, 0, 0) at copy(f -> C) writes, and nothing orders "
        "blocks"
    )
    assert f.details["first"]["access"] == "write" and f.details["second"]["block"] == [0, 0, 0]


@pytest.mark.parametrize(
    "change",
    [dict(type="atomic"), dict(type="tma_store", reduce=True), dict(approximate=True)],
    ids=lambda c: next(iter(c)) + str(next(iter(c.values()))),
)
def test_atomics_and_bounds_are_left_out(change: dict[str, Any]) -> None:
    assert found(stores([(0, 0)] * 4, **change)) == []


def test_tensors_that_each_block_makes_from_a_pointer_are_left_out() -> None:
    pytest.importorskip("tilelang")
    import tilelang.language as T

    @T.prim_func
    def groups(places: T.Tensor((4,), T.ptr), X: T.Tensor((4, 64), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=64) as g:
            own = T.make_tensor(places[g], (64,), "float32")
            for i in T.Parallel(64):
                own[i] = X[g, i]

    @T.prim_func
    def together(X: T.Tensor((4, 64), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=64) as g:
            for i in T.Parallel(64):
                Y[i] = X[g, i]

    assert [f.kind for f in gtsim.check(groups).errors] == []
    assert [f.kind for f in gtsim.check(together).errors] == ["race"]


def test_flags_may_order_blocks() -> None:
    assert found(stores([(0, 0)] * 4))
    b = stores([(0, 0)] * 4)
    ticket = b.tensor("ticket", (1,), "int32")
    one = b.buffer("one", (1,), "int32", scope="local")
    b._templates[0].node("atomic", [0], reads=[one.tile()], writes=[ticket.tile()])
    assert found(b) == []
    c = stores([(0, 0)] * 4)
    c.meta["orders_blocks"] = True
    assert found(c) == []


def test_blocks_of_different_templates() -> None:
    b = stores(GRID)
    other = b.template("other")
    c, f = b._templates[0].drafts[0].writes[0].buffer, b._templates[0].drafts[0].reads[0].buffer
    from gtsim.graph.handles import TileRef

    other.node(
        "tma_store", [0], reads=[TileRef(f, (0, 0), (64, 64))], writes=[TileRef(c, (32, 32), (64, 64))], source="late store"
    )
    b.grid = (65, 1, 1)
    b.add_instances(other, [(64, 0, 0)], {"row": [0], "col": [0]})
    (finding,) = found(b)
    assert "block (64, 0, 0) at late store" in finding.text and "C[32:64, 32:64]" in finding.text


def test_the_same_by_brute_force() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        n, extent = int(rng.integers(2, 12)), (int(rng.integers(1, 40)), int(rng.integers(1, 40)))
        at = [(int(a), int(b)) for a, b in rng.integers(0, 120, (n, 2))]
        reads = [(int(a), int(b)) for a, b in rng.integers(0, 120, (n, 2))] if rng.random() < 0.5 else None

        def meet(a: tuple[int, int], b: tuple[int, int], extent: tuple[int, int] = extent) -> bool:
            return all(x < y + e and y < x + e for x, y, e in zip(a, b, extent, strict=True))

        races = any(meet(at[i], at[j]) for i in range(n) for j in range(i))
        races |= any(meet(at[i], r) for i in range(n) for j, r in enumerate(reads or ()) if i != j)
        assert bool(found(stores(at, extent, reads=reads))) == races


def test_a_huge_grid_costs_little() -> None:
    n = 1 << 18
    b = stores([(i // 512 * 8, i % 512 * 8) for i in range(n)], (8, 8))
    graph = b.build()
    from gtsim.graph.check.rules.blocks import races_between_blocks
    from gtsim.graph.check.subject import Limits, Subject

    started = time.perf_counter()
    assert list(races_between_blocks(Subject(graph, Limits()))) == []
    assert time.perf_counter() - started < 5


def lowered(which: str) -> Any:
    import tilelang.language as T

    def split_k(atomic: bool) -> Any:
        @T.prim_func
        def split(A: T.Tensor((256, 1024), "float16"), B: T.Tensor((1024, 256), "float16"), C: T.Tensor((256, 256), "float32")):
            with T.Kernel(2, 2, 4, threads=128) as (bx, by, bz):
                a, b = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 128), "float16")
                c = T.alloc_fragment((128, 128), "float32")
                T.clear(c)
                for k in T.Pipelined(8, num_stages=2):
                    T.copy(A[by * 128, bz * 256 + k * 32], a)
                    T.copy(B[bz * 256 + k * 32, bx * 128], b)
                    T.gemm(a, b, c)
                if atomic:
                    T.atomic_add(C[by * 128, bx * 128], c)
                else:
                    T.copy(c, C[by * 128, bx * 128])

        return split

    def rows(kind: str) -> Any:
        @T.prim_func
        def rowwise(X: T.Tensor((1024, 128), "float32"), rows: T.Tensor((1024,), "int32"), Y: T.Tensor((1024, 128), "float32")):
            with T.Kernel(1024, threads=128) as bx:
                for j in T.Parallel(128):
                    if kind == "all write row 0":
                        Y[0, j] = X[bx, j]
                    elif kind == "scatter":
                        Y[rows[bx], j] = X[bx, j]
                    elif kind == "next row in place":
                        X[bx, j] = X[(bx + 1) % 1024, j] + 1.0
                    elif kind == "in place":
                        X[bx, j] = X[bx, j] + 1.0
                    elif kind == "guarded":
                        if j < 64:
                            Y[bx // 2, j + bx % 2 * 64] = X[bx, j]
                    elif kind == "halves":
                        Y[bx // 2, j] = X[bx, j]

        return rowwise

    return split_k(which == "atomic") if which in ("atomic", "plain") else rows(which)


@pytest.mark.parametrize(
    ("which", "text"),
    [
        ("plain", "block (0, 0, 0) at copy(c -> C) and block (0, 0, 1) at copy(c -> C) both write C[0:128, 0:128]"),
        ("atomic", ""),
        ("all write row 0", "block (1, 0, 0) at parallel(Y = X[bx, j]) both write Y[0:1, 0:128]"),
        ("next row in place", " writes, and nothing orders blocks"),
        ("in place", ""),
        ("guarded", ""),
        ("halves", "both write Y[0:1, 0:128]"),
    ],
)
def test_from_source(which: str, text: str) -> None:
    pytest.importorskip("tilelang")
    races = [f for f in gtsim.check(lambda: lowered(which)).errors if f.kind == "race"]
    assert [text in f.text for f in races] == ([True] if text else []), races


def test_a_scatter_goes_by_its_indices() -> None:
    pytest.importorskip("tilelang")

    def races(rows: np.ndarray) -> int:
        return sum(f.kind == "race" for f in gtsim.check(lambda: lowered("scatter"), metadata={"rows": rows}).errors)

    assert races(np.arange(1024)[::-1].astype(np.int32)) == 0 and races(np.zeros(1024, dtype=np.int32)) == 1
    with pytest.raises(gtsim.frontend.FrontendError, match="metadata"):
        gtsim.check(lambda: lowered("scatter"))


def test_a_prediction_warns_of_it() -> None:
    pytest.importorskip("tilelang")
    graph = gtsim.lower(lambda: lowered("plain"))
    assert any("both write C[0:128, 0:128]" in w for w in graph.warnings)


def test_runs_of_a_loop_are_tiles_too() -> None:
    """Each of four blocks stores 9 tiles, 3 apart in its own quarter; with 10, the last one is the next block's first."""
    pytest.importorskip("tilelang")
    import tilelang.language as T

    def strided(trips: int) -> Any:
        @T.prim_func
        def store(Y: T.Tensor((128 * 64, 64), "float32")):
            with T.Kernel(4, threads=128) as bx:
                f = T.alloc_fragment((64, 64), "float32")
                T.clear(f)
                for i in T.serial(trips):
                    T.copy(f, Y[(bx * 27 + i * 3) * 64, 0])

        return store

    assert [f.kind for f in gtsim.check(strided, (9,)).errors] == []
    (finding,) = gtsim.check(strided, (10,)).errors
    assert finding.kind == "race" and "both write Y[1728:1792, 0:64]" in finding.text
