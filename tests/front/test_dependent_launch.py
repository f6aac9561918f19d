"""`T.pdl_trigger` and `T.pdl_sync` from source to report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gtsim
from gtsim.cli import run

pytest.importorskip("tilelang")

KERNELS = """
import tilelang.language as T

def two(N=1 << 20, trigger=True, sync=True):
    @T.prim_func
    def add_then_double(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(N // 1024, threads=256) as bx:
            if trigger:
                T.pdl_trigger()
            for i in T.Parallel(1024):
                B[bx * 1024 + i] = A[bx * 1024 + i] + 1.0
        with T.Kernel(N // 1024, threads=256) as by:
            if sync:
                T.pdl_sync()
            for i in T.Parallel(1024):
                C[by * 1024 + i] = B[by * 1024 + i] * 2.0
    return add_then_double
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "pair.py").write_text(KERNELS)
    return f"{tmp_path / 'pair.py'}:two"


def predict(file: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run(["predict", file, *arguments, "--json", "-"]) == 0
    out: dict[str, object] = json.loads(capsys.readouterr().out)
    return out


def test_the_gap_and_the_launch_are_hidden(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    serial = predict(file, capsys, "--arg", "sync=False")
    late = predict(file, capsys, "--arg", "trigger=False")
    early = predict(file, capsys)
    hw = gtsim.load_hardware("h100_sxm").launch
    assert serial["program"] == "add_then_double" and serial["time_us"] == pytest.approx(serial["serial_us"])
    assert early["serial_us"] == pytest.approx(serial["time_us"], rel=1e-3)  # the two instructions cost next to nothing
    # No trigger: the second kernel is launched when the last CTA has ended. A trigger at the start: launched long before.
    placed = late["placements"][1]  # type: ignore[index]
    # It ends with its CTAs, the kernel a little later, when their stores are known to be in the L2.
    assert placed["overlaps"] and hw.gap_us <= placed["saved_us"] < hw.gap_us + 0.2
    assert serial["time_us"] - early["time_us"] == pytest.approx(hw.gap_us + hw.kernel_us, abs=0.02)  # type: ignore[operator]


def test_the_nodes_are_there_and_nothing_is_warned_of(file: str) -> None:
    from gtsim.frontend import lower_program

    from gtsim.kernel_file import load_kernel

    one, two = lower_program(load_kernel(file)[1], (), {}, arch="sm_90a")
    assert "pdl_trigger" in one.type_names and "pdl_wait" in two.type_names
    assert one.warnings == two.warnings == ()


def test_it_needs_hopper(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", file, "--hw", "a100_sxm"]) == 1
    assert capsys.readouterr().err == (
        "error: T.pdl_trigger(): programmatic dependent launch does not exist on sm_80. It needs sm_90 or later: choose another "
        "GPU, or drop the call.\n"
    )
