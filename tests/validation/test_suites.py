"""Suites register themselves, name their cases the same whatever was measured, and come with their data."""

import csv
import dataclasses
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from gtsim.validation import Inputs, all_suites
from gtsim.validation.evaluate import Settings
from gtsim.validation.inputs import MEASURED
from gtsim.validation.run import listed
from gtsim.validation.store import Store

from gtsim.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
SUITES = all_suites()


def test_every_file_of_the_folder_is_a_suite():
    files = {p.stem for p in (ROOT / "validation" / "suites").glob("*.py") if not p.stem.startswith("_")}
    modules = {s.cases.__module__ for s in SUITES.values()}
    assert {name.rpartition(".")[2] for name in modules if name.startswith("gtsim.validation.suites.")} == files
    assert {"tileops-h200", "own-h200", "known-tiles", "h800-tilelang", "library"} <= set(SUITES)


OWN = [name for name, s in SUITES.items() if s.cases.__module__.startswith("gtsim.")]


@pytest.mark.parametrize("name", OWN)
def test_cases_have_unique_ids_a_truth_and_one_gpu_a_family(name):
    cases = listed(SUITES[name], Inputs())
    assert cases
    gpus: dict[str, set[str]] = {}
    for case in cases:
        assert case.measured.time_us > 0 and case.measured.cache != "unknown"
        assert case.table or case.measured.clock_mhz is not None
        gpus.setdefault(case.family, set()).add(case.hw)
    assert all(len(found) == 1 for found in gpus.values())


@pytest.mark.parametrize("name", OWN)
def test_ids_and_families_do_not_depend_on_what_was_measured(name, tmp_path):
    """Other numbers in the same files: same cases, other truth."""
    for path in MEASURED.glob("*.csv"):
        with path.open(newline="") as f:
            reader = csv.DictReader(f)
            rows = list(reader)
        with (tmp_path / path.name).open("w", newline="") as f:
            writer = csv.DictWriter(f, reader.fieldnames)
            writer.writeheader()
            for row in rows:
                writer.writerow({k: str(float(v) * 0.9) if k == "latency_us" and v else str(round(int(v) * 0.9))
                                 if k == "cycles" and v else v for k, v in row.items()})
    own, other = listed(SUITES[name], Inputs()), listed(SUITES[name], Inputs(measured=tmp_path))
    assert [(c.id, c.family) for c in own] == [(c.id, c.family) for c in other]
    assert all(b.measured.time_us == pytest.approx(0.9 * a.measured.time_us, rel=0.01) for a, b in zip(own, other, strict=True))


def test_rows_of_other_libraries_are_no_cases():
    with (MEASURED / "gemm_h200_tileops_1500mhz.csv").open(newline="") as f:
        kernels = [row["kernel"] for row in csv.DictReader(f)]
    cases = [c for c in listed(SUITES["tileops-h200"], Inputs()) if c.id.startswith(("GemmFwdOp--", "GemmFp8FwdOp--"))]
    assert {c.family for c in cases} == {"gemm", "gemm-fp8", "calibration"}  # rows that a constant saw stand apart
    assert any(not k.startswith("tilelang") for k in kernels)
    assert len(cases) == sum(k.startswith("tilelang") for k in kernels)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"gemm_h200_tileops_1500mhz\.csv: no such file.*--measured"):
        listed(SUITES["own-h200"], Inputs(measured=tmp_path))


@pytest.mark.parametrize(("old", "new", "message"), [
    ("trans_b", "transposed", "no column 'trans_b'"),
    (",1500,", ",fast,", "line 2: column clock_mhz holds 'fast', which is not a number"),
    (",1500,", ",,", "line 2: column clock_mhz is empty"),
    (",1500,", ",-3,", "line 2: column clock_mhz holds -3, which cannot be"),
    (",1500,", ",0,", "line 2: column clock_mhz holds 0, which cannot be"),
    (",1024,1024,1024,", ",1024.5,1024,1024,", "line 2: column m holds 1024.5, which is no whole number"),
    ("0,0,,128,128,64,3,1500,", "\n", "line 2: the row ends before column clock_mhz"),
    ("\nH200,tilelang", '\nH200,"tilelang', "no CSV from here on, a quote may be left open"),
])
def test_a_damaged_file_is_refused_with_its_place(tmp_path, old, new, message):
    text = (MEASURED / "gemm_h200_tileops_1500mhz.csv").read_text()
    (tmp_path / "gemm_h200_tileops_1500mhz.csv").write_text(text.replace(old, new))
    with pytest.raises(UsageError) as error:
        listed(SUITES["own-h200"], Inputs(measured=tmp_path))
    assert message in str(error.value) and "gemm_h200_tileops_1500mhz.csv" in str(error.value)


def test_a_prediction_is_kept_for_its_own_configuration_only(tmp_path):
    """The same name and work with another tile is another kernel, and the measured time is none of its matter."""
    name, other = "gemm_h200_tileops_1500mhz.csv", "elementwise_norm_reduce_softmax_h200_tileops_1500mhz.csv"
    (tmp_path / other).write_bytes((MEASURED / other).read_bytes())
    suite = SUITES["own-h200"]
    store = Store(suite.name, suite.name, Inputs(), Settings(), tmp_path)

    def first(old: str, new: str):
        text = (MEASURED / name).read_text()
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new))
        return store.path(listed(suite, Inputs(measured=tmp_path))[0])

    before = store.path(listed(suite, Inputs())[0])
    assert first(",21696,", ",30000,") == before
    assert first(",128,128,64,3,", ",128,128,64,2,") != before


@pytest.mark.parametrize("suite", ["own-h200", "tileops-h200"])
def test_what_was_measured_twice_counts_twice(tmp_path, suite):
    for path in MEASURED.glob("*_h200_tileops_1500mhz.csv"):
        head, *rows = path.read_text().splitlines()
        (tmp_path / path.name).write_text("\n".join([head, *rows, *rows[:1]]) + "\n")
    once, twice = ([c.id for c in listed(SUITES[suite], Inputs(measured=folder))] for folder in (MEASURED, tmp_path))
    assert set(once) < set(twice) and all(name.removesuffix("-again1") in once for name in twice)


def test_a_gpu_of_no_table_is_refused_with_its_place(tmp_path):
    for path in MEASURED.glob("*.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "gemm_bf16_h100_fastcu.csv"
    path.write_text("\n".join(f"Z9{line}" if line.startswith("H100") else line for line in path.read_text().splitlines()))
    with pytest.raises(UsageError, match=r"gemm_bf16_h100_fastcu\.csv, line \d+: column gpu holds 'Z9"):
        listed(SUITES["known-tiles"], Inputs(measured=tmp_path))


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    name = "gemm_h200_tileops_1500mhz.csv"
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + (MEASURED / name).read_bytes())
    assert Inputs(measured=tmp_path).rows(name, ("gpu",))[0]["gpu"] == "H200"


def test_every_measured_file_states_where_it_is_from():
    text = (MEASURED / "README.md").read_text(encoding="utf-8")
    assert not [p.name for p in MEASURED.glob("*.csv") if f"`{p.name}`" not in text]


def test_a_cell_is_text_or_a_number_above_zero():
    (row, *_) = Inputs().rows("gemm_h200_tileops_1500mhz.csv", ("m",))
    assert row.integer("m") == 1024 and row.maybe("scale_mode") is None
    with pytest.raises(UsageError, match="line 2: column scale_mode is empty"):
        row.number("scale_mode")


def test_case_data_is_frozen():
    case = listed(SUITES["own-h200"], Inputs())[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        case.id = "other"


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads Linux' /proc")
def test_the_first_worker_does_not_hear_ctrl_c(tmp_path):
    # In a process of its own: only the first worker of a process starts with the tracker of multiprocessing.
    (tmp_path / "first.py").write_text(textwrap.dedent("""
        import signal
        from gtsim.validation.evaluate import Settings
        from gtsim.validation.inputs import Inputs
        from gtsim.validation.pool import Pool
        if __name__ == "__main__":
            pool = Pool("own-h200", "own-h200", Inputs(), Settings(), jobs=1, log="log.txt")
            worker = pool._start()
            status = open(f"/proc/{worker.process.pid}/status").read()
            blocked = int(status.split("SigBlk:")[1].split()[0], 16)
            pool._end(worker)
            print(bool(blocked >> (signal.SIGINT - 1) & 1))
    """))
    made = subprocess.run([sys.executable, "first.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert made.stdout == "True\n", made.stderr
