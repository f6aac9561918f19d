"""The code of docs/extend.md runs, in the order of the page."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gtsim

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extend.md"
BLOCK = re.compile(r"^```(python|toml|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# (\S+\.\w+)\n")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that the page's Python defines; `folder` is where its files lie."""
    names: dict[str, Any] = {"__name__": "extend", "folder": tmp_path_factory.mktemp("extend")}
    before = Path.cwd()
    os.chdir(names["folder"])
    try:
        for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            if found := FILE_NAME.match(text):
                Path(found.group(1)).write_text(text, encoding="utf-8")
            if kind == "python":
                exec(compile(text, f"{PAGE.name}: {text.splitlines()[0]}", "exec"), names)
            elif kind == "sh":
                program, *arguments = shlex.split(text)
                assert program == "python"
                subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=60)
    finally:
        os.chdir(before)
    return names


def test_the_new_unit_is_used(page: dict[str, Any]) -> None:
    p = page["p"]
    work = page["CTAS"] * page["TILES"] * page["M"] * page["N"] / 8 / (132 * 4)
    assert p.utilization["activation"] == pytest.approx(work / p.cycles, rel=1e-3)
    assert p.utilization["activation"] > 0.01


def test_half_the_rate_costs_the_time_that_the_unit_takes_longer(page: dict[str, Any]) -> None:
    longer = page["TILES"] * page["M"] * page["N"] / 4 * (1 / 4 - 1 / 8)
    assert page["slow"].cycles - page["p"].cycles == pytest.approx(longer, rel=0.05)


def test_without_the_override_the_missing_resource_is_named(page: dict[str, Any]) -> None:
    with pytest.raises(gtsim.SimulationError, match=r"h100_sxm has no resource 'activation'.*\[resources\.activation\]"):
        gtsim.simulate(page["graph"], "h100_sxm")


def test_the_command_line_agrees(page: dict[str, Any]) -> None:
    result = json.loads((page["folder"] / "fused.json").read_text())
    assert result["cycles"] == page["p"].cycles
    assert result["utilization"]["activation"] == pytest.approx(page["p"].utilization["activation"])


def test_recipes_take_effect(page: dict[str, Any]) -> None:
    from gtsim.frontend.tilelang.ops import handler

    from gtsim.report.facts import Facts
    from gtsim.report.hints import advice

    assert page["bigger"].l2.capacity_bytes == 2 * gtsim.load_hardware("h100_sxm").l2.capacity_bytes
    assert page["with_dma"].resources["dma"].unit == "byte"
    assert handler("tl.tileop.silu_unit") is page["silu_unit"]
    assert page["turns"](Facts(page["p"])) in advice(Facts(page["p"]))


def test_the_report_shows_the_unit(page: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    page["p"].report()
    assert "activation" in capsys.readouterr().out


def test_the_suite_is_scored(page: dict[str, Any]) -> None:
    record = json.loads((page["folder"] / "copies.json").read_text())
    (case,) = record["cases"]
    assert case["predicted_cycles"] == gtsim.simulate(page["loop"], "h100_sxm", clock_mhz=1500).cycles
    assert record["suites"]["copies"]["families"]["copy"]["mape"] == pytest.approx(abs(case["ratio"] - 1))
