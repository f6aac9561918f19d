"""The parts of measuring that need no GPU: clocks, names of GPUs, rows, inputs."""

from __future__ import annotations

import csv
import multiprocessing
import os

import numpy as np
import pytest

from gtsim.errors import DeviceError, UsageError
from gtsim.measure import Gpu
from gtsim.measure.clocks import Reading, limits_of, parse_smi
from gtsim.measure.cuda_device import _GLOBAL, _filled, per_run, torch_dtype
from gtsim.measure.hardware_of import hardware_of
from gtsim.measure.inputs import Argument, fill_of
from gtsim.measure.rows import COLUMNS, FORMAT, append_row

ROW = {"gpu": "NVIDIA H200", "op": "gemm", "case": "a,b", "latency_us": "1.5", "source": "test"}


@pytest.mark.parametrize(("name", "arch", "sms", "file"), [
    ("NVIDIA H200", "sm_90a", 132, "h200_sxm"),
    ("NVIDIA H100 80GB HBM3", "sm_90a", 132, "h100_sxm"),
    ("NVIDIA A100-SXM4-80GB", "sm_80", 108, "a100_sxm"),
    ("NVIDIA H800", "sm_90a", 132, "h800_sxm"),
])  # fmt: skip
def test_a_gpu_finds_its_file(name, arch, sms, file) -> None:
    assert hardware_of(Gpu(name, arch, sms, 0)) == (file, "")


@pytest.mark.parametrize(("name", "arch", "sms", "why"), [
    ("NVIDIA H100 PCIe", "sm_90a", 114, "PCIE"), ("NVIDIA H200 NVL", "sm_90a", 132, "NVL"), ("NVIDIA H200", "sm_90a", 60, "60"),
    ("NVIDIA H2000", "sm_90a", 132, "no hardware file"), ("NVIDIA H200", "sm_80", 132, "sm_80"),
])  # fmt: skip
def test_a_gpu_of_another_kind_finds_none(name, arch, sms, why) -> None:
    found, reason = hardware_of(Gpu(name, arch, sms, 0))
    assert found is None and why in reason


def test_a_line_of_nvidia_smi_is_read() -> None:
    assert parse_smi("1500, 0x0000000000000000\n") == Reading(1500.0)
    assert parse_smi("1275, 0x0000000000000024\n") == Reading(1275.0, ("power cap", "temperature"))
    assert parse_smi("1275, [N/A]\n") == Reading(1275.0)
    assert parse_smi("[N/A], [N/A]\n") == Reading(None)
    assert limits_of(0x60) == ("temperature",)


def test_kernels_share_out_over_the_runs() -> None:
    assert per_run([1000, 2000, 3000, 4000], 2) == ([3.0, 7.0], 2)
    assert per_run([1000, 2000, 3000], 2) == ([], 0)
    assert per_run([], 2) == ([], 0)


def test_kernel_names_are_found_in_generated_source() -> None:
    source = '__global__ void a_kernel(float* x);\nextern "C" __global__ void __launch_bounds__(256, 1) b_kernel(int n) {'
    assert _GLOBAL.findall(source) == ["a_kernel", "b_kernel"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e4m3", "float8_e5m2", "tfloat32"])
def test_floats_are_random_in_their_own_type(dtype) -> None:
    torch = pytest.importorskip("torch")
    argument = Argument("A", dtype, (64, 64), fill_of(dtype))
    made = _filled(torch, argument, torch.Generator().manual_seed(1), "cpu")
    assert made.dtype == torch_dtype(torch, argument) and made.shape == (64, 64)
    assert 0.8 < float(made.float().std()) < 1.2


def test_integers_are_small_random_or_zero_or_given() -> None:
    torch = pytest.importorskip("torch")

    def made(dtype: str, **more):
        return _filled(torch, Argument("x", dtype, (1000,), **({"fill": fill_of(dtype)} | more)), torch.Generator(), "cpu")

    assert (int(made("int8").min()), int(made("int8").max())) == (-8, 7)
    assert (int(made("uint8").min()), int(made("uint8").max())) == (0, 15)
    assert not made("int32").any()
    given = np.arange(1000)
    assert (made("int32", fill="given", value=given).numpy() == given).all()


def test_a_type_that_pytorch_lacks_is_a_clear_error() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(DeviceError, match="no element type int99"):
        torch_dtype(torch, Argument("A", "int99", (1,), "zeros"))


def rows(path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_new_file_has_all_columns(tmp_path) -> None:
    file = tmp_path / "new.csv"
    assert append_row(file, ROW) == []
    assert list(rows(file)[0]) == list(COLUMNS) and rows(file)[0]["case"] == "a,b"


def test_a_file_keeps_its_own_columns_and_bytes(tmp_path) -> None:
    file = tmp_path / "old.csv"
    before = ",".join(FORMAT) + "\r\n" + "x," * (len(FORMAT) - 1) + "s"  # no end of line: the last row must not be joined
    file.write_bytes(before.encode())
    assert append_row(file, {**ROW, "timer": "kernel", "flush_bytes": ""}) == ["timer"]
    data = file.read_bytes()
    assert data.startswith(before.encode() + b"\r\nNVIDIA H200,") and data.endswith(b"test\r\n")


def test_a_row_is_appended_behind_a_byte_order_mark(tmp_path) -> None:
    file = tmp_path / "saved.csv"
    file.write_bytes(b"\xef\xbb\xbf" + ",".join(FORMAT).encode() + b"\n")
    append_row(file, ROW)
    assert file.read_bytes().splitlines()[1].startswith(b"NVIDIA H200,")


def test_a_file_with_an_open_quote_would_swallow_the_row_and_is_refused(tmp_path) -> None:
    file = tmp_path / "damaged.csv"
    before = ",".join(FORMAT) + '\nNVIDIA H200,"tilelang,'
    file.write_text(before)
    with pytest.raises(UsageError, match=r"damaged\.csv, line 2: no CSV from here on, a quote may be left open"):
        append_row(file, ROW)
    assert file.read_text() == before


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe\x00binary", b"just text\n"])
def test_another_file_is_refused_and_not_touched(tmp_path, content) -> None:
    file = tmp_path / "notes.csv"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="no CSV of measured rows|no text file"):
        append_row(file, ROW)
    assert file.read_bytes() == content


def test_a_write_that_fails_leaves_the_file(tmp_path, monkeypatch) -> None:
    file = tmp_path / "rows.csv"
    append_row(file, ROW)
    before = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageError, match="No space left"):
        append_row(file, ROW)
    assert file.read_bytes() == before and os.listdir(tmp_path) == ["rows.csv"]


def _append_many(path, who: int) -> None:
    for i in range(25):
        append_row(path, {**ROW, "case": f"{who}-{i}"})


def test_processes_that_append_at_once_lose_nothing(tmp_path) -> None:
    file = tmp_path / "rows.csv"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_append_many, args=(file, who)) for who in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(r["case"] for r in rows(file)) == sorted(f"{who}-{i}" for who in range(4) for i in range(25))
