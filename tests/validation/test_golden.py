"""Predictions stay where they are until someone says why they moved."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("tilelang")


def script():
    path = Path(__file__).resolve().parents[2] / "validation" / "golden.py"
    spec = importlib.util.spec_from_file_location("golden", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden"] = module
    spec.loader.exec_module(module)
    return module


golden = script()
POINTS = golden.read()


@pytest.fixture(scope="module")
def predict():
    return golden.Predictions()


@pytest.mark.parametrize("point", POINTS, ids=lambda p: p.name)
def test_prediction_is_the_golden_one(point, predict):
    cycles = predict(point)
    assert abs(point.change(cycles)) <= golden.TOLERANCE, (
        f"{cycles:,} cycles, golden {point.cycles:,}. If that is right: python validation/golden.py --update 'why'"
    )


def test_points_cover_gpus_fidelities_and_say_why():
    assert len({p.name for p in POINTS}) == len(POINTS) >= 60
    assert {p.hw for p in POINTS} >= {"a100_sxm", "h100_sxm", "h200_sxm", "h800_sxm"}
    assert {p.fidelity for p in POINTS} == {"bulk", "line"}
    assert all(p.reason.strip() for p in POINTS)


def moved(monkeypatch, tmp_path, by, *arguments):
    """Exit status and file of a run in which every prediction is `by` times the golden one."""
    file = tmp_path / "golden.csv"
    original(POINTS[:3], file)
    monkeypatch.setattr(golden, "read", lambda: POINTS[:3])
    monkeypatch.setattr(golden, "write", lambda points: original(points, file))
    monkeypatch.setattr(golden, "Predictions", lambda: lambda point: round(point.cycles * by))
    monkeypatch.setattr(sys, "argv", ["golden.py", *arguments])
    with pytest.raises(SystemExit) as end:
        golden.main()
    return end.value.code, file


original, read_file = golden.write, golden.read


def test_a_moved_point_fails_until_its_reason_is_written(monkeypatch, tmp_path, capsys):
    assert moved(monkeypatch, tmp_path, 1.004)[0] == 0
    status, file = moved(monkeypatch, tmp_path, 1.006)
    assert status == 1 and "+0.60%" in capsys.readouterr().out
    assert read_file(file) == POINTS[:3], "a check must not write"
    status, file = moved(monkeypatch, tmp_path, 1.006, "--update", "a slower port")
    assert status == 0
    assert read_file(file) == [replace(p, cycles=round(p.cycles * 1.006), reason="a slower port") for p in POINTS[:3]]


def test_an_update_without_a_reason_is_refused(monkeypatch, tmp_path):
    assert moved(monkeypatch, tmp_path, 1.006, "--update", " ")[0] == 2


@pytest.mark.parametrize("text", ["kernel,cycles\n", "kernel,args,metadata,hw,fidelity,cycles,reason\na,b,c,d,e,many,why\n",
                                  "kernel,args,metadata,hw,fidelity,cycles,reason\na,b,c\n"])
def test_a_broken_golden_file_is_named(tmp_path, text):
    file = tmp_path / "golden.csv"
    file.write_text(text)
    with pytest.raises(SystemExit, match="golden.csv"):
        read_file(file)
