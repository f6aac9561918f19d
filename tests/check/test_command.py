"""`gtsim check` and its JSON: exit status, table, schema."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from gtsim.graph import save_graph
from rich.console import Console

import gtsim
from gtsim.cli import run

from .rings import persistent, plain
from .test_deadlock import arrives_behind

FINDING_KEYS = {"kind", "severity", "kernel", "where", "text", "fix", "details"}
KERNEL = """
import tilelang.language as T

def scale(N=4096, hint=0):
    @T.prim_func
    def scale_kernel(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(N // 1024, threads=256) as bx:
            if hint:
                T.annotate_min_blocks_per_sm(hint)
            for i in T.Parallel(1024):
                Y[bx * 1024 + i] = X[bx * 1024 + i] * 2.0
    return scale_kernel
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    save_graph(plain(6, 3).build(), tmp_path / "good.npz")
    return tmp_path / "good.npz"


@pytest.fixture
def racing(tmp_path: Path) -> Path:
    save_graph(persistent(3, 2, 2, carry=False).build(check=False), tmp_path / "racing.npz")
    return tmp_path / "racing.npz"


def test_exit_status(good: Path, racing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(good)]) == 0
    assert capsys.readouterr().out == "ring on h100_sxm: nothing found\n"
    assert run(["check", str(racing)]) == 3
    out = capsys.readouterr().out
    assert out.startswith("error race: class 0: ") and "    fix: " in out and "ring on h100_sxm: " in out
    assert run(["check", str(tmp_path / "none.npz")]) == 2
    assert run(["check", str(tmp_path / "none.py")]) == 2
    assert run(["check", str(good), "--arg", "M=1"]) == 2
    assert run(["check", str(good), "--hw", "h1000"]) == 2
    (tmp_path / "bad.py").write_text("def f(:\n")
    assert run(["check", str(tmp_path / "bad.py")]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_warnings_alone_are_printed_and_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_graph(plain(6, 1).build(), tmp_path / "slow.npz")
    assert run(["check", str(tmp_path / "slow.npz")]) == 0
    out = capsys.readouterr().out
    assert "warning pipelining: copy(A -> a_s): " in out and out.endswith("ring on h100_sxm: 1 warning\n")


def test_json(good: Path, racing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(racing), "--json", "-"]) == 3
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"schema", "kernel", "hw", "arch", "ok", "errors", "warnings", "kernels", "findings"}
    assert (data["schema"], data["ok"], data["hw"], data["arch"]) == (1, False, "h100_sxm", "sm_90a")
    assert data["errors"] == sum(f["severity"] == "error" for f in data["findings"]) > 0
    assert all(set(f) == FINDING_KEYS for f in data["findings"])
    assert data["findings"][0]["details"]["second"]["loop"].startswith("tile=1")
    assert data["kernels"] == [{"name": "ring", "built": True, "templates": 1, "nodes": 30, "instances": 4}]
    target = tmp_path / "found.json"
    assert run(["check", str(good), "--json", str(target), "--no-report"]) == 0
    assert json.loads(target.read_text())["findings"] == [] and capsys.readouterr().out == ""
    assert run(["check", str(good), "--json", str(tmp_path / "no" / "where.json")]) == 2


def test_a_deadlock_in_json_is_data() -> None:
    data = gtsim.check(arrives_behind(1, epilogue=False)).to_dict()
    assert data["kernels"][0]["built"] is False
    (finding,) = json.loads(json.dumps(data))["findings"]
    assert finding["details"]["chain"][0]["wait"]["loop"] == "ko=0" and finding["details"]["chain"][0]["arrival"] is None


def test_the_page_lists_every_kind_and_key() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "check.md").read_text()
    from gtsim.graph.check import ERROR_KINDS, WARNING_KINDS

    for word in (*ERROR_KINDS, *WARNING_KINDS, *FINDING_KEYS, "schema", "arch", "ok", "kernels", "instances"):
        assert f"`{word}`" in page, word


def test_the_table_fits_a_terminal() -> None:
    out = io.StringIO()
    from gtsim.check_table import _table

    report = gtsim.check(arrives_behind(1, epilogue=False))
    Console(file=out, width=80, force_terminal=True, color_system=None).print(_table(report))
    assert max(map(len, out.getvalue().splitlines())) <= 80 and "deadlock" in out.getvalue()


def test_a_report_is_its_text() -> None:
    report = gtsim.check(plain(6, 3))
    assert repr(report) == "ring on h100_sxm: nothing found" and report.ok


def test_what_is_no_kernel() -> None:
    with pytest.raises(gtsim.UsageError, match="gtsim.check was given int 3"):
        gtsim.check(3)


def test_a_kernel_file_and_its_occupancy_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tilelang")
    file = tmp_path / "scaling.py"
    file.write_text(KERNEL)
    assert run(["check", f"{file}:scale"]) == 0
    assert capsys.readouterr().out == "scale_kernel on h100_sxm: nothing found\n"
    assert run(["check", f"{file}:scale", "--arg", "hint=8"]) == 0
    capsys.readouterr()
    assert run(["check", f"{file}:scale", "--arg", "hint=9", "--json", "-"]) == 3
    finding, *_ = json.loads(capsys.readouterr().out)["findings"]
    assert finding["kind"] == "residency" and "9 CTAs an SM" in finding["text"] and finding["details"]["over"] == 256


def test_a_check_of_ones_own() -> None:
    from gtsim.graph import Finding
    from gtsim.graph.check import rule, subject

    @rule("cost")
    def house_rule(s: subject.Subject) -> list[Finding]:
        return [Finding("house-rule", "warning", s.graph.name, f"{s.warps} warps")]

    try:
        assert [f.text for f in gtsim.check(plain(6, 3)).warnings] == ["8 warps"]
    finally:
        subject._RULES["cost"] = {k: v for k, v in subject._RULES["cost"].items() if v is not house_rule}
