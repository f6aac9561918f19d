"""`gtsim model` as a user meets it."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from gtsim.models import Predictor

from gtsim.cli import run
from gtsim.commands.model import values
from gtsim.errors import UsageError

CONFIG = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024, "vocab_size": 2048}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


@pytest.mark.parametrize(("text", "meant"), [("512", [512]), ("1,3,3,2", [1, 3, 2]), ("512..2048", [512, 1024, 2048]),
                                             ("1..6", [1, 2, 4, 6]), ("5..5", [5])])  # fmt: skip
def test_ranges(text: str, meant: list[int]) -> None:
    assert values("--kv", text) == meant


@pytest.mark.parametrize("text", ["0", "8..4", "1,x", "", "..", "-1", "1..", "1e3", "9999999999"])
def test_bad_ranges(text: str) -> None:
    with pytest.raises(UsageError, match="--kv"):
        values("--kv", text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lama3-8b"], "Did you mean llama3-8b?"),
        (["llama3-8b", "--kv", "0"], "--kv 0"),
        (["llama3-8b", "--phase", "train"], "Use prefill or decode"),
        (["llama3-8b", "--hw", "h1000"], "did you mean 'h100_sxm'"),
        (["llama3-8b", "--routing", "1,2"], "this model has no experts"),
        (["mixtral-8x7b", "--routing", "2,0"], "2 counts, and the model 8 experts"),
        (["mixtral-8x7b", "--routing", "a,b"], "must be balanced"),
        (["llama3-8b", "--dtype", "fp8"], "Use bfloat16 or float16"),
        (["llama3-8b", "--svg", "/no/such/folder/a.svg"], "does not exist"),
    ],
)
def test_bad_requests_are_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_a_sweep_writes_all_it_shows(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "svg")}
    written = [text for kind, path in files.items() for text in (f"--{kind}", str(path))]
    assert run(["model", config, "--batch", "1,2", "--kv", "128", *written]) == 0
    shown = capsys.readouterr().out
    assert "QKV projection" in shown and "one layer of 4" in shown and "1 x 128" in shown and "2 x 128" in shown
    points = json.loads(files["json"].read_text())["points"]
    assert [p["batch"] for p in points] == [1, 2] and points[0]["model"] == "tiny"
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert len(rows) == sum(len(p["layer"]) + len(p["head"]) for p in points)
    launches = sum(int(r["launches"]) * float(r["time_us"]) for r in rows if r["batch"] == "1")
    gaps = (4 * len(points[0]["layer"]) + len(points[0]["head"]) - 1) * points[0]["gap_us"]
    assert launches + gaps == pytest.approx(points[0]["time_us"])
    bars = [e for e in ElementTree.fromstring(files["svg"].read_text()).iter() if e.tag.endswith("rect") and len(e)]
    widths = {y: sum(float(b.get("width", 0)) for b in bars if b.get("y") == y) for y in {b.get("y") for b in bars}}
    longer, shorter = sorted(widths.values(), reverse=True)
    times = sorted((p["time_us"] for p in points), reverse=True)
    assert shorter / longer == pytest.approx(times[1] / times[0], rel=1e-3)


def test_an_interruption_keeps_what_has_finished(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Predictor.predict

    def interrupted(self, model, work, progress=None):  # type: ignore[no-untyped-def]
        if work.batch == 2:
            raise KeyboardInterrupt
        return whole(self, model, work, progress)

    monkeypatch.setattr(Predictor, "predict", interrupted)
    out = tmp_path / "out.json"
    assert run(["model", config, "--batch", "1..4", "--kv", "128", "--json", str(out)]) == 130
    captured = capsys.readouterr()
    assert "1 x 128" in captured.out and captured.err == "interrupted\n"
    assert [p["batch"] for p in json.loads(out.read_text())["points"]] == [1]
