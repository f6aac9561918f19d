"""Tensor cores against published measurements: throughput of a chip in TFLOP/s (TOP/s), or cycles of an instruction.

The rows are Luo et al., arXiv 2402.13499 (A100, and H800 PCIe: 114 SMs at up to 1755 MHz), and FlashGPU's notes on H200.
"""

from __future__ import annotations

import pytest

from .kernels import Kernel

H800_PCIE = {"chip.sm_count": 114, "mma.latency_cycles": 0}


def mma_tflops(hw: str, dtype: str, k: int, sparse: bool, clock_mhz: float, **overrides: object) -> float:
    """Rate of four warps an SM that execute m16n8kK back to back."""
    kernel = Kernel(ctas=114 if overrides else 108, registers_per_thread=255, smem_bytes=160000)
    count = 512
    kernel.t.node("mma", range(4), attrs={"m": 16, "n": 8, "k": k, "dtype": dtype, "instruction": f"m16n8k{k}",
                                          "instructions": count, "sparse": sparse})
    result = kernel.run(hw=hw, clock_mhz=clock_mhz, overrides={"mma.latency_cycles": 0, **overrides})
    return kernel.ctas * 4 * count * 2 * 16 * 8 * k / result.cycles * clock_mhz * 1e6 / 1e12


@pytest.mark.parametrize(("dtype", "k", "sparse", "measured"), [
    ("float16", 16, False, 310.6), ("int8", 32, False, 607.6), ("float16", 32, True, 622.8)])
def test_mma_sync_on_a100(dtype: str, k: int, sparse: bool, measured: float) -> None:
    assert mma_tflops("a100_sxm", dtype, k, sparse, 1410) == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize(("dtype", "k", "sparse", "measured"), [
    ("float16", 16, False, 494.0), ("int8", 32, False, 978.0), ("float16", 32, True, 723.0)])
def test_mma_sync_on_h800_falls_short_of_its_peak(dtype: str, k: int, sparse: bool, measured: float) -> None:
    assert mma_tflops("h800_sxm", dtype, k, sparse, 1755, **H800_PCIE) == pytest.approx(measured, rel=0.05)


def wgmma_cycles(hw: str, count: int, *, k: int = 16, n: int = 128, dtype: str = "float16", a_register: bool = False,
                 sparse: bool = False, **overrides: object) -> int:
    """A group of `count` instructions m64nNkK of one warpgroup, waited for."""
    kernel = Kernel()
    kernel.t.node("wgmma", range(4), blocking=True, attrs={
        "m": 64, "n": n, "k": k * count, "dtype": dtype, "instruction": f"m64n{n}k{k}", "instructions": count,
        "a_register": a_register, "sparse": sparse, "setup": False})
    return kernel.run(hw=hw, overrides=overrides).cycles


def test_one_wgmma_with_its_wait_on_h200() -> None:
    assert wgmma_cycles("h200_sxm", 1) == pytest.approx(107, rel=0.15)  # FlashGPU: 43 + N/2; commit and issue included


def interval(**options: object) -> float:
    """Cycles an instruction adds to a group."""
    return (wgmma_cycles("h200_sxm", 64, **options) - wgmma_cycles("h200_sxm", 32, **options)) / 32  # type: ignore[arg-type]


@pytest.mark.parametrize(("dtype", "k"), [("float16", 16), ("float8_e4m3fn", 32), ("int8", 32), ("tfloat32", 8)])
@pytest.mark.parametrize("a_register", [False, True])
@pytest.mark.parametrize(("n", "measured"), [(64, 32), (128, 64), (192, 96), (256, 128)])
def test_the_interval_of_wgmma_is_half_of_n_for_every_type(dtype: str, k: int, a_register: bool, n: int, measured: int) -> None:
    """Luo24 measures 16-bit types; the others take the same 256 bits of depth in the same time (NV-Hopper: their peaks)."""
    assert interval(n=n, k=k, dtype=dtype, a_register=a_register) == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize(("a_register", "measured"), [(False, 144), (True, 128)])
def test_the_interval_of_sparse_wgmma(a_register: bool, measured: int) -> None:
    assert interval(n=256, k=32, a_register=a_register, sparse=True) == pytest.approx(measured, rel=0.02)


def test_narrow_wgmma_is_bound_by_the_fetch_of_its_operands() -> None:
    """A takes 2048 bytes, B 32 a column, at 128 bytes a cycle: 16 + N/4."""
    for n in (8, 16, 32):
        assert interval(n=n) == pytest.approx(16 + n / 4, rel=0.01)
        assert interval(n=n, a_register=True) == pytest.approx(n / 2, rel=0.01)
