"""Warnings: what costs time, with the reason; they never make a kernel fail."""

from __future__ import annotations

import pytest
from gtsim.graph import Finding, TileGraphBuilder
from gtsim.graph.banks import matrix_conflict
from gtsim.graph.model import Buffer

import gtsim

from .rings import plain


def warnings(builder: TileGraphBuilder, hw: str = "h100_sxm") -> dict[str, Finding]:
    report = gtsim.check(builder, hw=hw)
    assert report.errors == ()
    return {f.kind: f for f in report.warnings}


def product(
    *,
    rows: int = 64,
    warps: range = range(4),
    swizzle: int = 128,
    type: str = "mma",
    grid: int = 132,
    smem: int = 16384,
    registers: int = 64,
    trips: int = 1,
    arch: str = "sm_90a",
) -> TileGraphBuilder:
    b = TileGraphBuilder("product", grid=(grid, 1, 1), threads=128, registers_per_thread=registers, smem_bytes=smem, arch=arch)
    x = b.tensor("A", (64, 64 * trips), "float16")
    s = b.buffer("a_s", (64, 64), "float16", scope="shared", swizzle_bytes=swizzle)
    f = b.buffer("acc", (rows, 64), "float32", scope="fragment")
    t = b.template()
    for k in range(trips):
        loop = f"k={k}" if trips > 1 else ""
        t.node("cta_sync", range(4), loop=loop)
        t.node(
            "cp_async",
            range(4),
            reads=[x.tile((0, 64 * k), (64, 64))],
            writes=[s.tile()],
            group="cp_async",
            source="copy(A -> a_s)",
            loop=loop,
        )
        t.commit("cp_async", range(4), loop=loop)
        t.wait_group("cp_async", 0, range(4), loop=loop)
        t.node("cta_sync", range(4), loop=loop)
        t.node(
            type,
            warps,
            reads=[s.tile()],
            writes=[f.tile()],
            source="gemm(a_s -> acc)",
            blocking=True,
            loop=loop,
            attrs={"m": rows, "n": 64, "k": 64, "dtype": "float16"},
        )
    b.add_instances(t, [(i, 0, 0) for i in range(grid)])
    return b


def test_mma_on_hopper_says_why() -> None:
    assert "tensor-core" not in warnings(product(type="wgmma"))
    assert "tensor-core" not in warnings(product(arch="sm_80"), "a100_sxm")
    assert "32 rows are fewer than the 64 of wgmma" in warnings(product(rows=32))["tensor-core"].text
    assert "2 warps are not whole warpgroups" in warnings(product(warps=range(2)))["tensor-core"].text


def test_unswizzled_operands() -> None:
    assert "bank-conflict" not in warnings(product())
    found = warnings(product(swizzle=0))["bank-conflict"]
    assert found.text == "mma reads a_s without a swizzle: rows 128 bytes apart meet in the same banks, 8 to 1"


@pytest.mark.parametrize(
    ("dtype", "columns", "access", "step", "ways"),
    [("float32", 32, 4, 1, 1), ("float32", 32, 4, 32, 32), ("float32", 33, 4, 33, 1), ("float16", 64, 2, 1, 1),
     ("float16", 64, 2, 64, 32), ("float16", 16, 2, 16, 8)],
)
def test_lanes_that_meet_in_a_bank(dtype: str, columns: int, access: int, step: int, ways: int) -> None:
    b = TileGraphBuilder("lanes", grid=(132, 1, 1), threads=128, smem_bytes=16384, arch="sm_90a")
    s, f = b.buffer("s", (32, columns), dtype, scope="shared"), b.buffer("r", (32, columns), dtype, scope="fragment")
    t = b.template()
    t.node("shared_store", range(4), reads=[f.tile()], writes=[s.tile()], source="copy(r -> s)",
           attrs={"access_bytes": access, "lanes": (32,), "lane_steps": (step,)})
    b.add_instances(t, [(i, 0, 0) for i in range(132)])
    found = warnings(b)
    assert ("bank-conflict" in found) == (ways > 1)
    if ways > 1:
        assert found["bank-conflict"].text == f"shared_store writes s with lanes that meet in the same banks, {ways} to 1"


@pytest.mark.parametrize(
    ("columns", "strides", "ways"),
    [(64, (), 8), (32, (), 4), (16, (), 2), (8, (), 1), (128, (), 8), (96, (), 4), (72, (), 1), (64, (72, 1), 1)],
)
def test_how_many_rows_meet_in_a_bank(columns: int, strides: tuple[int, ...], ways: int) -> None:
    assert matrix_conflict(Buffer("s", "shared", "float16", (64, columns), strides)) == ways


@pytest.mark.parametrize(
    ("grid", "warns"),
    [(132, False), (1056, False), (1188, True), (1584, False), (2112, False), (2244, True), (1056 * 20 + 132, False)],
)
def test_a_last_wave_that_is_nearly_empty(grid: int, warns: bool) -> None:
    """64 registers x 128 threads: 8 CTAs an SM, 1056 on the chip."""
    found = warnings(product(type="wgmma", grid=grid))
    assert ("tail-wave" in found) == warns, found
    if warns:
        assert f"{grid} CTAs are" in found["tail-wave"].text


def test_small_tiles_alone_on_an_sm() -> None:
    found = warnings(product(type="wgmma", grid=1000, smem=130_000))["occupancy"]
    assert "130000 bytes of shared memory" in found.text and "4096 elements" in found.text
    assert "occupancy" not in warnings(product(type="wgmma", grid=100, smem=130_000))  # one wave: nothing could overlap


def test_one_slot_is_no_pipeline() -> None:
    found = warnings(product(type="wgmma", trips=4))
    assert "a_s has one slot for 4 trips" in found["pipelining"].text
    assert "pipelining" not in warnings(plain(6, 2)) and "pipelining" in warnings(plain(6, 1))


def test_roles_that_were_not_made() -> None:
    assert "its loads became cp.async" in warnings(product(type="wgmma", trips=4))["specialisation"].text
    assert "specialisation" not in warnings(plain(6, 2))
    b = product(type="wgmma", trips=4)
    b.meta["pass_configs"] = {"tl.disable_warp_specialized": True}
    assert "pass config" in warnings(b)["specialisation"].text
    assert "specialisation" not in warnings(product(trips=4, arch="sm_80"), "a100_sxm")


def test_what_the_frontend_saw() -> None:
    b = product(type="wgmma")
    b.meta["warnings"] = [
        "copy(A -> a_s) in a loop is synchronous: no pipeline covers it",
        "not interpreted, costs nothing: foo()",
    ]
    found = warnings(b)
    assert found["pipelining"].where == "copy(A -> a_s)" and "foo()" in found["frontend"].text
