"""The kit for an H200, as far as it runs without one: claims, columns, scripts, and what take_in.py makes of a CSV."""

from __future__ import annotations

import csv
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gtsim.hwconfigs import load_hardware

from gtsim.errors import UsageError
from gtsim.measure.kit_cases import load_cases
from gtsim.measure.rows import COLUMNS

KIT = Path(__file__).resolve().parents[2] / "validation" / "h200_kit"
MICRO = sorted((KIT / "micro").glob("*.cu"))
BENCHMARKS = [path for path in MICRO if path.stem != "main"]
COLUMNS_OF_KIT = re.findall(r'"(\w+)"', (KIT / "host" / "kit.cu").read_text().split("kColumns[] = {")[1].split("};")[0])


def module(name: str):
    """A script of the kit, imported as if it were run from its folder."""
    sys.path.insert(0, str(KIT))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(KIT))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda p: p.stem)
def test_a_benchmark_registers_under_its_file_and_claims_what_each_kernel_holds(path: Path) -> None:
    text, check = path.read_text(encoding="utf-8"), module("check_sass")
    assert re.findall(r"^MICRO\((\w+)\)", text, re.MULTILINE) == [path.stem]
    assert check.kernels_of(text) and check.kernels_of(text) == {c.kernel for c in check.claims(text)}


def test_keys_that_benchmarks_name_exist_and_each_is_measured_once() -> None:
    known = load_hardware("h200_sxm").flat()
    quoted = re.compile(r'"((?!\w+\.cuh")[a-z_0-9]+(?:\.[a-z_0-9]+)+)"')
    named = [key for path in BENCHMARKS for key in quoted.findall(path.read_text(encoding="utf-8"))]
    assert len(named) > 20 and not [key for key in named if key not in known]
    assert len(named) == len(set(named))


def test_one_header_holds_kernels_in_the_validation_format_and_constants() -> None:
    assert set(COLUMNS) <= set(COLUMNS_OF_KIT) and {"kind", "constant", "key", "value", "unit", "spread"} <= set(COLUMNS_OF_KIT)
    assert len(COLUMNS_OF_KIT) == len(set(COLUMNS_OF_KIT))


def test_rows_name_no_other_column() -> None:
    for source in (KIT / "host" / "kernel.cu", KIT / "micro" / "main.cu"):
        named = re.findall(r'\{"(\w+)", ', source.read_text(encoding="utf-8"))
        assert len(named) > 10 and set(named) <= set(COLUMNS_OF_KIT)


def test_cases_load_and_a_program_is_made_of_one() -> None:
    cases = load_cases(KIT / "cases.toml")
    assert len(cases) >= 10
    for case in cases.values():
        case.load()
    source = module("generate").source_of(cases["moe_up_1024_tokens"])
    assert "cuTensorMapEncodeTiled" in source and "int main()" in source
    named = re.findall(r'^    \{"(\w+)", "', source.split("kernel.columns = {")[1].split("kernel.arguments")[0], re.MULTILINE)
    assert {"op", "case", "tile_n", "shape"} <= set(named) <= set(COLUMNS_OF_KIT)
    assert len(re.findall(r"static_cast<", source.split("static int call_all")[1].split("\n")[0])) == 6


@pytest.mark.parametrize(("text", "said"), [
    ('[[kernel]]\ncase = "a b"\nfile = "x.py:f"\n', "kernel.0.case"), ("[[kernel\n", "cases.toml"),
    ('[[kernel]]\ncase = "a"\nfile = "x.py:f"\n[[kernel]]\ncase = "a"\nfile = "y.py:f"\n', "twice"),
    ('[[kernel]]\ncase = "a"\nfile = "x.py"\n', "kernel.0.file"),
])  # fmt: skip
def test_a_wrong_list_of_cases_is_one_clear_error(tmp_path, text, said) -> None:
    (tmp_path / "cases.toml").write_text(text)
    with pytest.raises(UsageError, match=re.escape(said)):
        load_cases(tmp_path / "cases.toml")


# ---- scripts ---------------------------------------------------------------------------------------------------------

FAKE = """#!/bin/sh
case "$1" in
--gpu) [ -z "$NO_GPU" ] || { echo "error: no GPU here: none." >&2; exit 1; }; echo "fake" ;;
--header) echo "kind,constant" ;;
--list) printf 'first\\nbroken\\nhanging\\nlast\\n' ;;
broken) echo "constant,half"; exit 1 ;;
hanging) exec sleep 100 ;;
*) echo "constant,$1" ;;
esac
"""


def bash(*words: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", *map(str, words)], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **environment})


def run_kit(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    build = tmp_path / "build"
    (build / "kernels").mkdir(parents=True)
    (build / "micro").write_text(FAKE)
    (build / "micro").chmod(0o755)
    script = (KIT / "run.sh").read_text().replace("each=20 ", "each=1 ")
    (tmp_path / "run.sh").write_text(script)
    return bash(tmp_path / "run.sh", tmp_path / "kit.csv", build, **environment)


def test_a_run_keeps_what_works_and_names_what_does_not(tmp_path) -> None:
    done = run_kit(tmp_path)
    assert (tmp_path / "kit.csv").read_text() == "kind,constant\nconstant,first\nconstant,last\n"
    assert done.returncode == 1 and "failed: broken" in done.stderr and "failed: hanging" in done.stderr
    assert sorted(p.name for p in tmp_path.glob("kit.csv*")) == ["kit.csv"]


def test_a_run_out_of_time_says_what_it_left_out(tmp_path) -> None:
    done = run_kit(tmp_path, GTSIM_KIT_SECONDS="0")
    assert done.returncode == 1 and "first (no time left)" in done.stderr


def test_without_a_gpu_one_line_and_no_file(tmp_path) -> None:
    done = run_kit(tmp_path, NO_GPU="1")
    assert done.returncode == 1 and done.stderr == "error: no GPU here: none.\n" and not (tmp_path / "kit.csv").exists()


def test_scripts_say_what_is_missing(tmp_path) -> None:
    built = bash(KIT / "build.sh", tmp_path, NVCC="no-such-nvcc")
    assert built.returncode == 1 and built.stderr.startswith("error: nvcc is not on the PATH") and built.stderr.count("\n") == 1
    ran = bash(KIT / "run.sh", tmp_path / "k.csv", tmp_path)
    assert ran.returncode == 1 and "run build.sh first" in ran.stderr


# ---- take_in.py ------------------------------------------------------------------------------------------------------

CLOCK = {"gpu": "NVIDIA H200", "clock_mhz": "1500", "clock_before_mhz": "1500", "clock_after_mhz": "1500", "source": "test"}


def kit_csv(tmp_path: Path, *rows: dict[str, str]) -> Path:
    path = tmp_path / "kit.csv"
    lines = [",".join(COLUMNS_OF_KIT)] + [",".join({**CLOCK, **row}.get(c, "") for c in COLUMNS_OF_KIT) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def constant(value: str = "50", key: str = "control.setmaxnreg_cycles", **more: str) -> dict[str, str]:
    return {"kind": "constant", "case": "x", "constant": "c", "key": key, "value": value, "unit": "cycles", "p10": "49",
            "p90": "52", "n_samples": "9", **more}


def test_constants_become_settings_and_candidates(tmp_path, capsys) -> None:
    path = kit_csv(tmp_path, constant(), constant("3", key=""), constant("-4", key="wgmma.tail_cycles"))
    kept = tmp_path / "calibration.toml"
    shutil.copy(KIT.parent / "calibration.toml", kept)
    module("take_in").take_in(path, "h200_sxm", kept, False)
    out = capsys.readouterr().out
    assert "--set control.setmaxnreg_cycles=50\n" in out and "not usable: c is negative (-4)" in out
    assert 'key = "control.setmaxnreg_cycles"' in kept.read_text() and "value = 50.0" in kept.read_text()


def test_kernels_are_compared_without_the_floor_of_event_timing(tmp_path, capsys) -> None:
    kernel = {"kind": "kernel", "case": "gemm_1024", "latency_us": "20", "floor_us": "5"}
    path = kit_csv(tmp_path, kernel, constant("2000", key="launch.cta_gap_cycles"))
    module("take_in").take_in(path, "h200_sxm", None, True)
    out = capsys.readouterr().out
    found = re.search(r"^gemm_1024 +([\d.]+) +1500 +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", out, re.MULTILINE)
    assert found, out
    measured, predicted, ratio, _, _ = map(float, found.groups())
    assert measured == 15.54 and ratio == pytest.approx(predicted / measured, abs=2e-3)
    assert "predicted: 1 kernels, MAPE" in out and "adopted: 1 kernels" in out


def test_a_clock_that_moved_is_named(tmp_path, capsys) -> None:
    module("take_in").take_in(kit_csv(tmp_path, constant(clock_after_mhz="1300")), "h200_sxm", None, False)
    assert "c: 1500 to 1300 MHz" in capsys.readouterr().err


@pytest.mark.parametrize(("row", "said"), [
    (constant(key="control.no_such_key"), "no key control.no_such_key"), (constant("fast"), "value is 'fast', not a number"),
    ({"kind": "kernel", "case": "nothing", "latency_us": "1", "floor_us": "0"}, "no case nothing"),
])  # fmt: skip
def test_a_wrong_row_is_one_clear_error(tmp_path, row, said) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        module("take_in").take_in(kit_csv(tmp_path, row), "h200_sxm", None, False)


def test_another_file_is_refused(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match="no CSV of this kit"):
        module("take_in").read_rows(tmp_path / "a.csv")
    with pytest.raises(UsageError, match="no rows"):
        module("take_in").read_rows(kit_csv(tmp_path))


# ---- with a compiler -------------------------------------------------------------------------------------------------

needs_tools = pytest.mark.skipif(shutil.which("nvcc") is None or shutil.which("nvdisasm") is None,
                                 reason="nvcc and nvdisasm are not both on the PATH")


@needs_tools
@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda p: p.stem)
def test_the_compiled_code_holds_what_is_claimed(path: Path) -> None:
    assert module("check_sass").broken(path) == []


@needs_tools
def test_the_check_finds_code_that_the_compiler_removed(tmp_path) -> None:
    file = tmp_path / "gone.cu"
    file.write_text('// sass gone: FFMA >= 4\n'
                    'extern "C" __global__ void gone(float a) { for (int i = 0; i < 9; ++i) a = a * a + a; }\n'
                    '__global__ void unclaimed(int* p) { *p = 1; }\n')
    found = module("check_sass").broken(file)
    assert any("holds 0 of FFMA" in text for text in found)
    assert any("nothing is claimed about unclaimed" in text for text in found)

HOST = r"""
#include "kit.hpp"
#include <cstdio>
int main() {
  const kit::Summary s = kit::summary({5, 1, 4, 2, 3, 9, 8, 7, 6, 10});
  const kit::Line line = kit::fit({1, 2, 4, 8}, {49, 53, 61, 77});
  kit::print_header();
  kit::print_row({{"kind", "constant"}, {"note", "a \"b\", c"}, {"value", kit::number(s.median)}, {"p10", kit::number(s.p10)},
                  {"p90", kit::number(s.p90)}, {"spread", kit::number(s.spread())}, {"cycles", kit::number(line.intercept)},
                  {"k", kit::number(line.slope)}});
  std::fflush(stdout);
  kit::print_row({{"no_such_column", "1"}});
}
"""


@needs_tools
def test_statistics_and_rows_of_the_host_code(tmp_path) -> None:
    (tmp_path / "host.cu").write_text(HOST)
    program = tmp_path / "host"
    command = ["nvcc", "-std=c++17", "-gencode", "arch=compute_90a,code=sm_90a", f"-I{KIT / 'host'}", str(tmp_path / "host.cu")]
    subprocess.run([*command, str(KIT / "host" / "kit.cu"), "-o", str(program)], check=True, capture_output=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr == "error: a row names a column that does not exist, or one twice.\n"
    header, row = csv.reader(done.stdout.splitlines())
    assert header == COLUMNS_OF_KIT
    found = {name: value for name, value in zip(header, row, strict=True) if value}
    assert found == {"kind": "constant", "note": 'a "b", c', "value": "5.5", "p10": "1", "p90": "9", "spread": "1.45455",
                     "cycles": "45", "k": "4"}
