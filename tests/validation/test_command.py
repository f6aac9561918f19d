"""`gtsim validate` as a user runs it."""

import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from gtsim.validation.inputs import MEASURED

from .conftest import ENTRY

pytest.importorskip("tilelang")
FEW = ("--suite", "own-h200", "--case", "gemm--mid-m16*")


@pytest.fixture(scope="module")
def whole(validate):
    """The suite that needs no checkout, all of it."""
    done = validate("--suite", "own-h200", "--json", "-")
    assert done.status == 0, done.err
    return done.record


def test_own_kernels_are_near_the_truth(whole):
    """Loose: a mistake shows, and progress does not fail. docs/accuracy.md has the numbers."""
    gemm = whole["suites"]["own-h200"]["families"]["gemm"]
    assert gemm["n"] == 9 and gemm["not_predicted"] == 0
    assert gemm["mape"] < 0.08 and gemm["worst"] < 0.2 and abs(gemm["bias"]) < 0.08 and gemm["tau"] > 0.9
    for family in whole["suites"]["own-h200"]["families"].values():
        assert family["not_predicted"] == 0 and family["mape"] < 0.15
        assert family["mape"] < family["floor"]["mape"]


def test_the_json_holds_what_the_numbers_are_made_of(whole):
    assert whole["schema"] == 1 and set(whole["versions"]) == {"gtsim", "tilelang", "python"}
    assert set(whole["hashes"]["hardware"]) == {"h200_sxm"} and whole["date"].count("-") == 2
    assert set(whole["suites"]["own-h200"]["families"]) == {"gemm", "elementwise", "norm"}
    gemm = whole["suites"]["own-h200"]["families"]["gemm"]
    assert {"n", "mape", "median", "p90", "worst", "bias", "tau"} <= set(gemm)
    assert gemm["clock"] == "1500 MHz" and gemm["cache"].startswith("cold") and 0 < gemm["spread"] < 0.1
    ratios = [c["predicted_cycles"] / c["measured_cycles"] for c in whole["cases"]]
    assert [c["ratio"] for c in whole["cases"]] == pytest.approx(ratios, rel=1e-3)
    errors = [abs(r - 1) for r, c in zip(ratios, whole["cases"], strict=True) if c["family"] == "gemm"]
    assert gemm["mape"] == pytest.approx(sum(errors) / len(errors), rel=1e-3)
    for case in whole["cases"]:
        shares = [e["share"] for e in case["critical_path"]]
        assert shares == sorted(shares, reverse=True) and 0 < sum(shares) <= 1.001
        assert case["critical_path"][0]["what"] and case["hashes"]["hardware"]


def test_other_measurements_change_the_truth_and_not_the_prediction(validate, whole, tmp_path):
    for name in ("gemm_h200_tileops_1500mhz.csv", "elementwise_norm_reduce_softmax_h200_tileops_1500mhz.csv"):
        with (MEASURED / name).open(newline="") as f:
            reader = csv.DictReader(f)
            rows = [{**row, "cycles": str(2 * int(row["cycles"]))} for row in reader]
        with (tmp_path / name).open("w", newline="") as f:
            writer = csv.DictWriter(f, reader.fieldnames)
            writer.writeheader()
            writer.writerows(rows)
    other = validate("--suite", "own-h200", "--measured", tmp_path, "--json", "-").record
    assert list(other["suites"]["own-h200"]["families"]) == list(whole["suites"]["own-h200"]["families"])
    for a, b in zip(whole["cases"], other["cases"], strict=True):
        assert (b["id"], b["predicted_cycles"]) == (a["id"], a["predicted_cycles"])
        assert b["ratio"] == pytest.approx(a["ratio"] / 2, rel=1e-3)


def test_tables_and_page(validate, whole, tmp_path):
    done = validate(*FEW, "--write-docs", tmp_path / "accuracy.md", "--json", tmp_path / "run.json")
    assert done.status == 0, done.err
    (case,) = json.loads((tmp_path / "run.json").read_text())["cases"]
    page = (tmp_path / "accuracy.md").read_text()
    for text in (done.out, page):
        assert case["id"] in text and f"{case['predicted_cycles']:,}" in text and f"{case['ratio']:.3f}" in text
        assert "MAPE" in text and "1500 MHz" in text and "at most 4 %" in text
    for stated in (whole["date"][:4], whole["hashes"]["gtsim"], whole["hashes"]["hardware"]["h200_sxm"]):
        assert stated in page


def test_overrides_reach_the_prediction(validate, whole):
    slow = validate(*FEW, "--set", "l2.latency_near_cycles=2000", "--json", "-").record
    (mine,) = [c for c in whole["cases"] if c["id"] == slow["cases"][0]["id"]]
    assert slow["cases"][0]["predicted_cycles"] > mine["predicted_cycles"]
    assert slow["cases"][0]["hashes"] != mine["hashes"]


@pytest.mark.parametrize(("arguments", "message"), [
    (("--suite", "own-h20"), "no suite 'own-h20'. Did you mean own-h200?"),
    (("--suite", "tileops-h200"), "needs a checkout of tile-ai/TileOPs"),
    (("--tileops", "."), "no folder benchmarks/ops"),
    (("--measured", "nowhere"), "nowhere: no such folder"),
    (("--suite", "own-h200", "--case", "x*"), "no case fits"),
    (("--suite", "own-h200", "--set", "l2.latency=3"), "l2.latency"),
    (("--suite", "own-h200", "--hw", "h300"), "h300"),
    (("--suite", "own-h200", "--fidelity", "best"), "best"),
    (("--suite", "own-h200", "--json", "no/such/folder.json"), "does not exist"),
    (("--suite", "nowhere.py"), "nowhere.py: no such file"),
])
def test_bad_requests_are_one_line(validate, arguments, message):
    done = validate(*arguments)
    assert done.status == 2 and done.out == ""
    assert done.err.startswith("error: ") and done.err.count("\n") == 1 and message in done.err


def test_what_was_left_out_is_said(validate):
    done = validate("--list")
    assert "own-h200" in done.out and "tileops-h200" in done.out


SUITE = '''
    import tilelang.language as T
    from gtsim.validation import Case, Measured, Plan, Work, suite


    def copy(n, block=256):
        @T.prim_func
        def copy_kernel(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block), threads=128) as b:
                for i in T.Parallel(block):
                    Y[b * block + i] = X[b * block + i]
        return copy_kernel


    def crash():
        import os
        os._exit(7)


    def broken():
        raise KeyError("lost")


    @suite("mine", "kernels of mine", truth="Made up.")
    def cases(inputs):
        truth = Measured(5.0, 1000.0, cache="cold")
        for n in (1 << 12, 1 << 16):
            yield Case(f"copy--{n}", "copy", "h100_sxm", truth, Work(0, 8 * n), lambda n=n: Plan.fixed(copy, n=n))
        yield Case("copy--bad", "copy", "h100_sxm", truth, None, lambda: Plan.fixed(copy, n=1 << 12, block=-1))
        yield Case("crash--1", "copy", "h100_sxm", truth, None, crash)
        yield Case("broken--1", "copy", "h100_sxm", truth, None, broken)
        yield Case("copy--last", "copy", "h100_sxm", truth, None, lambda: Plan.fixed(copy, n=1 << 13))
'''


@pytest.fixture(scope="module")
def own_suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "mine.py"
    path.write_text(textwrap.dedent(SUITE))
    return path


def test_a_file_brings_a_suite_and_no_case_harms_another(validate, own_suite):
    done = validate("--suite", own_suite, "--json", own_suite.with_suffix(".json"))
    assert done.status == 0, done.err
    record = json.loads(own_suite.with_suffix(".json").read_text())
    cases = {c["id"]: c for c in record["cases"]}
    assert list(cases) == ["copy--4096", "copy--65536", "copy--bad", "crash--1", "broken--1", "copy--last"]
    family = record["suites"]["mine"]["families"]["copy"]
    assert (family["n"], family["not_predicted"]) == (3, 3)
    assert cases["crash--1"]["reason"] == "the process ended with status 7"
    assert "KeyError" in cases["broken--1"]["reason"] and cases["copy--bad"]["reason"]
    assert "not predicted: 3 of 6" in done.out and "the process ended with status 7" in done.out


def test_if_nothing_can_be_predicted_the_status_says_so(validate, own_suite):
    done = validate("--suite", own_suite, "--case", "broken*")
    assert done.status == 1 and "not predicted: 1 of 1" in done.out


def test_ctrl_c_prints_what_is_finished_and_the_next_run_goes_on(environment, tmp_path):
    text = SUITE.replace('"mine"', '"slow"').replace("def crash():\n", "def crash():\n        import time; time.sleep(600)\n")
    (tmp_path / "slow.py").write_text(textwrap.dedent(text))
    command = [sys.executable, "-c", ENTRY, "validate", "--suite", "slow.py", "--jobs", "1"]
    env = {**environment, "GTSIM_CACHE_DIR": str(tmp_path / "cache")}
    process = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    stop = time.monotonic() + 300
    while len(list((tmp_path / "cache").rglob("*.json"))) < 2 and time.monotonic() < stop:
        time.sleep(0.2)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert "interrupted: 3 of 6 cases are done" in out and "copy--65536" in out
    assert err.strip().splitlines()[-1] == "interrupted"
    again = subprocess.run([*command, "--case", "copy--[46]*"], env=env, cwd=tmp_path, capture_output=True, text=True,
                           timeout=300)
    assert again.returncode == 0 and "copy--65536" in again.stdout and "not predicted" not in again.stdout
