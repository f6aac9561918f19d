"""Instructions and operands that a target refuses."""

from __future__ import annotations

from typing import Any

import pytest
from gtsim.graph import Finding, TileGraphBuilder, check
from gtsim.graph.check import limits_of

import gtsim


def one(type: str, *, warps: range = range(4), arch: str = "sm_90a", grid: int = 1, **attrs: Any) -> TileGraphBuilder:
    b = TileGraphBuilder("one", grid=(grid, 1, 1), threads=128, arch=arch)
    t = b.template()
    t.node(type, warps, attrs=attrs, source=f"use {type}")
    b.add_instances(t, [(i, 0, 0) for i in range(grid)])
    return b


def illegal(builder: TileGraphBuilder, arch: str) -> list[Finding]:
    return [f for f in check(builder.build(check=False), limits_of(arch)) if f.kind == "illegal"]


PRODUCT = {"m": 64, "n": 64, "k": 16, "dtype": "float16"}


@pytest.mark.parametrize(
    ("type", "attrs", "legal", "refused"),
    [
        ("tma_load", {}, ("sm_90a", "sm_100a", "sm_120"), ("sm_80", "sm_89")),
        ("cp_async", {}, ("sm_80", "sm_90a"), ("sm_75",)),
        ("wgmma", PRODUCT, ("sm_90a",), ("sm_80", "sm_100a", "sm_120")),
        ("setmaxnreg", {"registers": 24}, ("sm_90a", "sm_100a"), ("sm_80",)),
        ("cluster_arrive", {}, ("sm_90a", "sm_100a"), ("sm_86",)),
        ("dsmem_copy", {}, ("sm_90a", "sm_100a"), ("sm_86",)),
        ("mma", {**PRODUCT, "dtype": "float8_e4m3fn"}, ("sm_89", "sm_90a"), ("sm_80",)),
        ("mma", {**PRODUCT, "dtype": "bfloat16"}, ("sm_80",), ("sm_75",)),
    ],
)
def test_which_target_has_which_instruction(
    type: str, attrs: dict[str, Any], legal: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    for arch in legal:
        assert illegal(one(type, **attrs), arch) == []
    for arch in refused:
        (finding,) = illegal(one(type, **attrs), arch)
        assert "does not exist on " + arch in finding.text and f"use {type}" in finding.where


@pytest.mark.parametrize(
    ("shape", "dtype", "fine"),
    [
        ("m64n256k16", "float16", True),
        ("m64n96k16", "bfloat16", True),
        ("m64n264k16", "float16", False),
        ("m64n100k16", "float16", False),
        ("m64n64k32", "float8_e4m3fn", True),
        ("m64n64k8", "float32", True),
        ("m64n64k8", "float16", False),
        ("m128n64k16", "float16", False),
    ],
)
def test_wgmma_shapes(shape: str, dtype: str, fine: bool) -> None:
    found = illegal(one("wgmma", **{**PRODUCT, "dtype": dtype, "instruction": shape}), "sm_90a")
    assert (found == []) == fine


def test_wgmma_takes_whole_warpgroups() -> None:
    (finding,) = illegal(one("wgmma", warps=range(2), **PRODUCT), "sm_90a")
    assert "wgmma by 2 warps" in finding.text


def tma(
    shape: tuple[int, ...],
    box: tuple[int, ...],
    *,
    dtype: str = "float16",
    strides: tuple[int, ...] = (),
    swizzle: int = 0,
    mapped: bool = True,
    origins: tuple[int, ...] = (0,),
) -> TileGraphBuilder:
    b = TileGraphBuilder("tma", grid=(len(origins), 1, 1), threads=128, arch="sm_90a")
    x = b.tensor("X", shape, dtype, strides)
    s = b.buffer("s", box, dtype, scope="shared", swizzle_bytes=swizzle)
    t = b.template()
    at = t.column("at")
    t.node(
        "tma_load",
        [0],
        reads=[x.tile((*(0,) * (len(shape) - 1), at), box)],
        writes=[s.tile()],
        source="copy(X -> s)",
        attrs={"tensor_map": mapped, "box": box},
    )
    b.add_instances(t, [(i, 0, 0) for i in range(len(origins))], {"at": list(origins)})
    return b


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (tma((512, 512), (64, 64)), ""),
        (tma((512, 512), (64, 64), swizzle=128), ""),
        (tma((512, 512), (512, 64)), "at most 256 a dimension"),
        (tma((512, 512), (64, 4)), "rows of 8 bytes of X in the box, not a multiple of 16"),
        (tma((512, 500), (64, 64)), "dimension 0 of X has a stride of 1000 bytes, not a multiple of 16"),
        (tma((512, 504), (64, 64)), ""),
        (tma((512, 512), (64, 64), strides=(1, 512)), "not contiguous in its last dimension (stride 512)"),
        (tma((512, 512), (64, 128), swizzle=128), "wider than the swizzle of 128 bytes"),
        (tma((2, 2, 2, 2, 8, 8), (2, 1, 1, 1, 8, 8)), "a box of 6 dimensions"),
        (tma((4096,), (64,), dtype="float32", mapped=False, origins=(0, 64, 128)), ""),
        (tma((4096,), (62,), dtype="float32", mapped=False), "a bulk copy of 248 bytes of X, not a multiple of 16"),
        (tma((4096,), (64,), dtype="float32", mapped=False, origins=(0, 64, 250)), "from element 250 of X, byte 1000"),
    ],
)
def test_tma_operands(kernel: TileGraphBuilder, text: str) -> None:
    found = illegal(kernel, "sm_90a")
    assert [text in f.text for f in found] == ([True] if text else [])


@pytest.mark.parametrize(("length", "fine"), [(256, True), (252, True), (250, False)])
def test_rows_of_a_bulk_copy_start_where_the_stride_puts_them(length: int, fine: bool) -> None:
    b = TileGraphBuilder("rows", grid=(4, 1, 1), threads=128, arch="sm_90a")
    x, s = b.tensor("lse", (4, length), "float32"), b.buffer("s", (64,), "float32", scope="shared")
    t = b.template()
    t.node("tma_load", [0], reads=[x.tile((t.column("head"), 64), (1, 64))], writes=[s.tile()], attrs={"tensor_map": False})
    b.add_instances(t, [(i, 0, 0) for i in range(4)], {"head": [0, 1, 2, 3]})
    found = illegal(b, "sm_90a")
    assert [f"from element {length + 64} of lse" in f.text for f in found] == ([] if fine else [True])


def test_the_same_copy_in_every_instance_is_told_once() -> None:
    assert len(illegal(tma((4096,), (64,), dtype="float32", mapped=False, origins=tuple(range(1, 40, 2))), "sm_90a")) == 1


def test_a_cluster_of_32() -> None:
    b = TileGraphBuilder("big", grid=(32, 1, 1), cluster=(32, 1, 1), threads=32, arch="sm_90a")
    t = b.template()
    t.node("control", [0])
    b.add_instances(t, [(0, 0, 0)])
    assert ["32 CTAs" in f.text for f in gtsim.check(b).errors] == [True]
