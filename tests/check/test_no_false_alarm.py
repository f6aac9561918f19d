"""Kernels that are known to run are not refuted: the examples, in several shapes, on both architectures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gtsim
from gtsim.kernel_file import load_kernel

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HOPPER, AMPERE = "h100_sxm", "a100_sxm"
SHAPES: list[tuple[str, str, dict[str, Any]]] = [
    *(
        ("gemm", hw, dict(M=m, N=n, K=k))
        for hw in (HOPPER, AMPERE)
        for m, n, k in ((4096, 4096, 4096), (512, 384, 64), (1000, 1000, 1000), (640, 640, 1004), (256, 256, 192))
    ),
    *(
        ("gemm", hw, dict(M=1024, N=1024, K=1024, block_M=m, block_N=n, block_K=k, num_stages=s, threads=t))
        for hw, m, n, k, s, t in (
            (HOPPER, 64, 64, 32, 4, 128),
            (HOPPER, 128, 256, 64, 2, 256),
            (HOPPER, 64, 128, 64, 1, 128),
            (HOPPER, 128, 128, 64, 0, 256),
            (HOPPER, 128, 48, 64, 3, 128),
            (HOPPER, 32, 64, 64, 3, 128),
            (AMPERE, 64, 64, 32, 4, 128),
            (AMPERE, 128, 128, 32, 2, 128),
            (AMPERE, 128, 128, 64, 0, 256),
        )
    ),
    *(("gemm", HOPPER, dict(M=512, N=512, K=64 * trips, num_stages=stages)) for trips in (1, 2, 5) for stages in (1, 2, 4)),
    ("gemm", HOPPER, dict(M=2048, N=2048, K=512, swizzle=4, dtype="bfloat16")),
    ("gemm_silu", HOPPER, {}),
    ("gemm_silu", AMPERE, {}),
    ("gemm_fp8", HOPPER, {}),
    ("gemm_ws_manual", HOPPER, {}),
    *(("gemm_ws_manual", HOPPER, dict(M=512, N=512, K=64 * k, num_stages=s)) for k, s in ((1, 3), (2, 4), (7, 2), (9, 4))),
    *(("gemm_cluster", HOPPER, dict(M=512, N=512, K=64 * k, num_stages=s)) for k, s in ((1, 3), (8, 2), (64, 4))),
    *(("flash_attention", hw, {}) for hw in (HOPPER, AMPERE)),
    *((name, hw, {}) for name in ("rmsnorm", "elementwise") for hw in (HOPPER, AMPERE)),
]


@pytest.fixture(scope="module")
def factories() -> dict[str, Any]:
    pytest.importorskip("tilelang")
    return {name: load_kernel(str(EXAMPLES / f"{name}.py"))[1] for name in sorted({name for name, _, _ in SHAPES})}


@pytest.mark.parametrize(
    ("name", "hw", "arguments"), SHAPES, ids=lambda v: "-".join(map(str, v.values())) if isinstance(v, dict) else str(v)
)
def test_examples(factories: dict[str, Any], name: str, hw: str, arguments: dict[str, Any]) -> None:
    report = gtsim.check(factories[name], (), arguments, hw=hw)
    assert report.errors == (), report


def test_stages_that_do_not_fit_are_refuted(factories: dict[str, Any]) -> None:
    report = gtsim.check(factories["gemm"], (), dict(num_stages=9), hw=HOPPER)
    assert [f.kind for f in report.errors] == ["overflow"]
    assert report.errors[0].details["need"] == 9 * 32768 + 18 * 8


def test_an_occupancy_hint_stops_reallocating_roles(factories: dict[str, Any]) -> None:
    """tile-ai/tilelang#2559 from source: see also test_residency."""
    import tilelang.language as T

    def hinted() -> Any:
        m = n = k = 1024

        @T.prim_func
        def hinted_kernel(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float16")):
            with T.Kernel(n // 128, m // 128, threads=256) as (bn, bm):
                T.annotate_min_blocks_per_sm(2)
                a_s, b_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
                acc = T.alloc_fragment((128, 128), "float32")
                T.clear(acc)
                for i in T.Pipelined(k // 64, num_stages=2):
                    T.copy(A[bm * 128, i * 64], a_s)
                    T.copy(B[i * 64, bn * 128], b_s)
                    T.gemm(a_s, b_s, acc)
                T.copy(acc, C[bm * 128, bn * 128])

        return hinted_kernel

    report = gtsim.check(hinted, hw=HOPPER)
    assert {f.kind for f in report.errors} == {"residency"}
    assert "2 CTAs an SM, as the kernel asks" in report.errors[0].text


def test_a_pipeline_that_overwrites_what_it_has_not_read(factories: dict[str, Any]) -> None:
    """tile-ai/tilelang#2668 from source: TileLang 0.1.15 hoists the load of the next value above the use of this one."""
    import tilelang
    import tilelang.language as T

    if not tilelang.__version__.startswith("0.1.15"):
        pytest.skip("a defect of TileLang 0.1.15")

    def consume(stages: int) -> Any:
        @T.prim_func
        def consume_kernel(A: T.Tensor((8, 32), "int32"), first: T.Tensor((32,), "int32"), out: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32) as _:
                s, acc = T.alloc_shared((32,), "int32"), T.alloc_fragment((32,), "int32")
                T.clear(acc)
                for i in T.Parallel(32):
                    s[i] = first[i]
                for k in T.Pipelined(8, num_stages=stages):
                    for i in T.Parallel(32):
                        acc[i] += s[i]
                    T.copy(A[k, 0:32], s)
                T.copy(acc, out)

        return consume_kernel

    for hw in (HOPPER, AMPERE):
        assert gtsim.check(consume, (0,), hw=hw).errors == ()
        for stages in (2, 3):
            report = gtsim.check(consume, (stages,), hw=hw)
            assert report.errors and {f.kind for f in report.errors} == {"race"}
