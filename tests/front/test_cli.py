"""The command: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

import gtsim


def one_line_error(outcome, status: int, *words: str) -> None:
    """One message on standard error, no traceback, nothing on standard output."""
    assert outcome.status == status, outcome.err
    assert outcome.out == ""
    assert outcome.err.startswith("error: ") and outcome.err.count("\n") == 1, outcome.err
    for word in words:
        assert word in outcome.err


def write(path, text: str):
    path.write_text(text, encoding="utf-8")
    return path


def test_simulate_prints_the_report(gtsim_command, gemm_file) -> None:
    done = gtsim_command("simulate", gemm_file, "--hw", "h200_sxm", "--clock-mhz", 1500)
    assert done.status == 0
    assert "gemm on h200_sxm (sm_90a) at 1500 MHz" in done.out


def test_json_on_standard_output_is_json_only(gtsim_command, gemm_file) -> None:
    done = gtsim_command("simulate", gemm_file, "--json", "-")
    assert json.loads(done.out)["kernel"] == "gemm"


def test_json_to_a_file_comes_with_the_report(gtsim_command, gemm_file, tmp_path) -> None:
    done = gtsim_command("simulate", gemm_file, "--json", tmp_path / "r.json")
    assert "Bound by" in done.out
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == 1
    assert gtsim_command("simulate", gemm_file, "--json", tmp_path / "r.json", "--no-report").out == ""


def test_set_and_hw_file_change_the_gpu(gtsim_command, gemm_file, tmp_path) -> None:
    def cycles(*options) -> int:
        return json.loads(gtsim_command("simulate", gemm_file, "--json", "-", *options).out)["cycles"]

    file = write(tmp_path / "slow.toml", "[resources.tensor]\nrate_per_cycle = 64\n")
    slow = cycles("--set", "resources.tensor.rate_per_cycle=64")
    assert slow > 2 * cycles()
    assert cycles("--hw-file", file) == slow


def test_hw_lists_shows_and_compares(gtsim_command) -> None:
    assert "h200_sxm" in gtsim_command("hw", "list").out
    shown = gtsim_command("hw", "show", "h100_sxm", "--set", "l2.latency_near_cycles=333").out
    assert "l2.latency_near_cycles" in shown and "333" in shown and "CUDA-guide" in shown
    assert "dram.peak_gbs" in gtsim_command("hw", "diff", "h100_sxm", "h200_sxm").out
    rows = [line.split() for line in gtsim_command("hw", "clusters", "h100_sxm").out.splitlines()]
    assert ["8", "15", "120", "120", "91%"] in rows


def test_version_and_help(gtsim_command) -> None:
    assert gtsim_command("--version").out == f"gtsim {gtsim.__version__}\n"
    assert "--clock-mhz" in gtsim_command("predict", "--help").out
    assert "predict" in (gtsim_command().out + gtsim_command().err)


@pytest.mark.parametrize(("arguments", "words"), [
    (["simulate", "GRAPH", "--hw", "h20_sxm"], ["h20_sxm", "h200_sxm"]),
    (["simulate", "GRAPH", "--set", "l2.latency_nea_cycles=3"], ["override", "l2.latency_near_cycles"]),
    (["simulate", "GRAPH", "--set", "nonsense"], ["path=value"]),
    (["simulate", "GRAPH", "--hw-file", "missing.toml"], ["missing.toml"]),
    (["simulate", "GRAPH", "--fidelity", "fine"], ["bulk, line"]),
    (["simulate", "GRAPH", "--clock-mhz", "3"], ["100"]),
    (["simulate", "GRAPH", "--clock-mhz", "fast"], ["--clock-mhz"]),
    (["simulate", "GRAPH", "--json", "no/such/folder/r.json"], ["no/such/folder"]),
    (["simulate", "missing.npz"], ["missing.npz", "no such file"]),
    (["simulate"], ["GRAPH.npz"]),
    (["predict", "missing.py"], ["missing.py", "no such file"]),
    (["predict", "GRAPH"], [".py"]),
    (["predict", "missing.py", "--arg", "M"], ["NAME=VALUE"]),
    (["predict", "missing.py", "--arg", "M=1", "--arg", "M=2"], ["twice"]),
    (["graph", "missing.py"], ["--output"]),
    (["hw", "show", "h300"], ["h300"]),
    (["nonsense"], ["nonsense"]),
    (["simulate", "GRAPH", "--nonsense"], ["--nonsense"]),
])  # fmt: skip
def test_wrong_usage_exits_2_with_one_line(gtsim_command, gemm_file, arguments, words) -> None:
    one_line_error(gtsim_command(*[gemm_file if a == "GRAPH" else a for a in arguments]), 2, *words)


def test_output_follows_links_and_never_replaces_what_is_no_file(gtsim_command, gemm_file, tmp_path) -> None:
    link, target = tmp_path / "link.json", tmp_path / "target.json"
    link.symlink_to(target)
    assert gtsim_command("simulate", gemm_file, "--json", link).status == 0
    assert link.is_symlink() and json.loads(target.read_text())["cycles"] > 0
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert gtsim_command("simulate", gemm_file, "--json", pipe).status == 0
    assert stat.S_ISFIFO(pipe.stat().st_mode) and b"cycles" in os.read(reader, 1 << 20)
    os.close(reader)


def test_a_corrupt_truncated_or_foreign_graph_exits_1(gtsim_command, gemm_file, tmp_path) -> None:
    data = gemm_file.read_bytes()
    cut, flipped, text = tmp_path / "cut.npz", tmp_path / "flipped.npz", tmp_path / "text.npz"
    cut.write_bytes(data[: len(data) // 2])
    flipped.write_bytes(data[:400] + bytes(b ^ 0xFF for b in data[400:600]) + data[600:])
    text.write_text("not a graph")
    for path in (cut, flipped, text):
        one_line_error(gtsim_command("simulate", path), 1, path.name)


def test_a_graph_with_a_cycle_exits_1(gtsim_command, make_gemm, tmp_path) -> None:
    graph = make_gemm(2, 2)
    template = graph.templates[0]
    # Let the first edge point back at its own source's predecessor: a node that waits for itself.
    template.edge_dst[0] = int(template.edge_src()[0])
    gtsim.save_graph(graph, tmp_path / "cycle.npz")
    one_line_error(gtsim_command("simulate", tmp_path / "cycle.npz"), 1, "circle")


def test_a_cta_that_does_not_fit_exits_1_and_says_by_how_much(gtsim_command, make_gemm, tmp_path) -> None:
    gtsim.save_graph(make_gemm(2, 2, smem_bytes=300_000), tmp_path / "big.npz")
    done = gtsim_command("simulate", tmp_path / "big.npz", "--json", tmp_path / "r.json")
    one_line_error(done, 1, "300000", "shared memory", "stages")
    assert not (tmp_path / "r.json").exists()


def test_a_graph_for_another_architecture_exits_1(gtsim_command, gemm_file) -> None:
    one_line_error(gtsim_command("simulate", gemm_file, "--hw", "a100_sxm"), 1, "sm_90a", "sm_80")


def test_debug_shows_the_traceback(gtsim_command, python) -> None:
    done = python("from gtsim.cli import main; main(['hw', 'show', 'h300', '--debug'])")
    assert done.status != 0 and "Traceback" in done.err


def test_ctrl_c_stops_the_engine_with_130(make_gemm, tmp_path) -> None:
    path = tmp_path / "long.npz"
    gtsim.save_graph(make_gemm(128, 128, 128), path)
    code = "import sys; from gtsim.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "simulate", str(path), "--fidelity", "line", "--json", str(tmp_path / "r")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    time.sleep(2.5)
    assert process.poll() is None, "the simulation was too short to be interrupted"
    os.kill(process.pid, signal.SIGINT)
    started = time.perf_counter()
    out, err = process.communicate(timeout=30)
    assert time.perf_counter() - started < 5
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert os.listdir(tmp_path) == ["long.npz"]
