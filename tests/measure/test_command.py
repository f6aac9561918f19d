"""gtsim measure on a fake GPU: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gtsim.errors import DeviceError
from gtsim.measure import Clocks, Gpu, cuda_device

from .conftest import EXAMPLES, MIB, FakeDevice

LOCKED = Clocks(1500.0, 1500.0)


def figures(out: str, line: str) -> list[float]:
    """The numbers behind the word that begins a line of the report."""
    found = re.search(rf"^{line} +(.*)$", out, re.MULTILINE)
    assert found, out
    return [float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\.?\d*", found[1])]


def test_measured_stands_beside_predicted_at_the_measured_clock(measure_on) -> None:
    done = measure_on(FakeDevice(clocks=Clocks(1500.0, 1500.0)))
    assert done.status == 0, done.err
    assert figures(done.out, "measured")[:2] == [102.0, 153_000.0]
    time_us, cycles = figures(done.out, "predicted")[:2]
    assert cycles == pytest.approx(1500 * time_us, rel=1e-3)
    assert "h200_sxm at 1500 MHz" in done.out
    assert figures(done.out, "ratio")[0] == pytest.approx(time_us / 102.0, abs=6e-4)
    assert "cold L2 (100 MiB written before each run)" in done.out


def test_the_prediction_starts_from_the_l2_that_the_flush_leaves(measure_on) -> None:
    cold = measure_on(FakeDevice()).out
    told = measure_on(FakeDevice(), "--set", "l2.dirty_at_start=0.5").out
    clean = measure_on(FakeDevice(), "--set", "l2.dirty_at_start=0").out
    assert figures(cold, "predicted") == figures(told, "predicted")
    assert "warm L2" in measure_on(FakeDevice(), "--warm-l2").out
    assert clean  # the user's own setting is not overruled, and need not differ for so small a kernel


def test_the_device_gets_what_the_options_say(measure_on) -> None:
    device = FakeDevice()
    measure_on(device, "--repeats", 7, "--warmup", 2, "--timer", "events", "--warm-l2", "--seed", 3, "--pass-config",
               "tl.disable_tma_lower=true")
    assert device.asked == {"seed": 3, "pass_configs": {"tl.disable_tma_lower": True}, "warmup": 2, "repeats": 7, "cold": False,
                            "timer": "events"}
    assert [(a.name, a.dtype, a.shape, a.fill) for a in device.arguments] == [
        ("A", "float16", (256, 192), "normal"), ("B", "float16", (192, 128), "normal"), ("C", "float16", (256, 128), "normal")]


def test_a_row_is_appended_in_the_validation_format(measure_on, tmp_path) -> None:
    file = tmp_path / "rows.csv"
    for case in ("first", "second"):
        assert measure_on(FakeDevice(), "--out", file, "--case", case).status == 0
    rows = list(csv.DictReader(file.open(newline="")))
    assert [r["case"] for r in rows] == ["first", "second"]
    row = rows[0]
    want = {"gpu": "NVIDIA H200", "op": "gemm", "dtype": "float16", "m": "256", "n": "128", "k": "192", "tile_m": "128",
            "tile_k": "64", "stages": "3", "clock_mhz": "1500", "latency_us": "102", "cycles": "153000", "p10_us": "100",
            "p90_us": "104", "n_kernels": "1", "n_samples": "5", "timer": "kernel", "flops": ""}
    assert {k: row[k] for k in want} == want
    assert int(row["bytes"]) == 2 * (256 * 192 + 192 * 128 + 256 * 128)
    assert "tilelang 0.1.15" in row["source"] and "driver 570.86" in row["source"]


def test_the_row_is_kept_if_the_prediction_fails(measure_on, tmp_path) -> None:
    done = measure_on(FakeDevice(), "--out", tmp_path / "rows.csv", "--set", "sm.smem_bytes=2048", "--set",
                      "sm.smem_per_cta_max_bytes=1024")
    assert "not predicted: " in done.out and "measured" in done.out
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 2


def test_a_clock_that_moved_is_reported(measure_on) -> None:
    moved = measure_on(FakeDevice(clocks=Clocks(1980.0, 1500.0, ("power cap",))))
    assert "went from 1980 to 1500 MHz (24.2%)" in moved.err and "nvidia-smi -lgc" in moved.err and "power cap" in moved.err
    steady = measure_on(FakeDevice(clocks=Clocks(1500.0, 1515.0)))
    assert "went from" not in steady.err and "nvidia-smi -lgc" in steady.err


def test_an_unreadable_clock_gives_no_cycles(measure_on, tmp_path) -> None:
    done = measure_on(FakeDevice(clocks=Clocks(None, None)), "--out", tmp_path / "rows.csv")
    assert "cannot be read" in done.err and "there are no cycles" in done.err
    row = next(csv.DictReader((tmp_path / "rows.csv").open(newline="")))
    assert (row["cycles"], row["clock_mhz"], row["latency_us"]) == ("", "", "102")
    given = measure_on(FakeDevice(clocks=Clocks(None, None)), "--clock-mhz", 1500)
    assert figures(given.out, "measured")[1] == 153_000


def test_an_unknown_gpu_is_measured_and_not_predicted(measure_on) -> None:
    device = FakeDevice(gpu=Gpu("NVIDIA L40S", "sm_90a", 142, 96 * MIB))
    done = measure_on(device)
    assert done.status == 0 and "not predicted: no hardware file bears its name" in done.out and "--hw" in done.out
    assert "h200_sxm at 1500 MHz" in measure_on(device, "--hw", "h200_sxm").out


def test_a_kernel_that_does_not_compile_is_one_line(measure_on, tmp_path) -> None:
    done = measure_on(FakeDevice(fails="TileLang cannot compile it for this GPU: error: too much shared memory"), "--out",
                      tmp_path / "rows.csv")
    assert done.status == 1 and done.out == "" and "error: TileLang cannot compile it" in done.err
    assert not (tmp_path / "rows.csv").exists()


def test_metadata_goes_to_the_kernel_as_given(measure_on, tmp_path) -> None:
    sys.path.insert(0, str(EXAMPLES))
    try:
        from moe_grouped_gemm import routing, tiles_of
    finally:
        sys.path.remove(str(EXAMPLES))
    tiles = tiles_of(routing(tokens=64))
    np.savez(tmp_path / "routing.npz", **tiles)
    device = FakeDevice()
    done = measure_on(device, "--arg", "tokens=64", "--metadata", tmp_path / "routing.npz", kernel="moe_grouped_gemm.py:moe_gemm")
    assert done.status == 0, done.err
    given = {a.name: a.value for a in device.arguments if a.fill == "given"}
    assert given.keys() == tiles.keys() and all((given[k] == tiles[k]).all() for k in tiles)


@pytest.mark.parametrize(("options", "word"), [
    (("--timer", "watch"), "timer"), (("--out", "/no/such/folder/rows.csv"), "does not exist"), (("--hw", "h300"), "h300"),
    (("--repeats", 0), "--repeats"), (("--arg", "Q=1"), "no argument"),
])  # fmt: skip
def test_wrong_use_is_one_line(measure_on, options, word) -> None:
    done = measure_on(FakeDevice(), *options)
    assert done.status == 2 and done.out == "" and word in done.err and done.err.startswith("error: ")


def test_without_a_gpu_one_line_at_once(tmp_path) -> None:
    code = "import sys; from gtsim.cli import run; s = run(sys.argv[1:]); print('torch' in sys.modules); sys.exit(s)"
    blind = {"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code, "measure", str(EXAMPLES / "gemm.py")], env=blind, capture_output=True,
                          text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == "False\n"
    assert done.stderr.startswith("error: no GPU here: ") and done.stderr.count("\n") == 1


def test_a_driver_without_a_gpu_is_no_gpu(monkeypatch) -> None:
    class Driver:
        def cuInit(self, flags):
            return 0

        def cuDeviceGetCount(self, count):
            return 0

    monkeypatch.setattr(cuda_device.ctypes, "CDLL", lambda name: Driver())
    with pytest.raises(DeviceError, match="finds none"):
        cuda_device.require_gpu()


def test_the_page_names_every_option(command) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "measure.md").read_text(encoding="utf-8")
    for option in ("--repeats", "--warmup", "--timer", "--warm-l2", "--out", "--seed", "--metadata"):
        assert option in page
