"""The documented schema is the one that is returned."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import gtsim

PAGE = Path(__file__).resolve().parents[2] / "docs" / "result.md"
#: Mappings whose keys depend on kernel and GPU, and how the page writes such a key.
OPEN = {"utilization": "<resource>", "queued_cycles": "<resource>", "roles[].waits": "<wait>", "parameters.overrides": "<path>"}


def fields(value: Any, path: str = "") -> Iterator[str]:
    if path in OPEN:
        yield f"{path}.{OPEN[path]}"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from fields(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple):
        yield from fields(value[0], f"{path}[]") if value else [f"{path}[]"]
    else:
        yield path


def documented(part: int) -> set[str]:
    """Fields that the page lists: part 0 for one kernel, part 1 for a program of several."""
    text = PAGE.read_text(encoding="utf-8").split("## Programs of several kernels")[part]
    cells = re.findall(r"^\| (`[^|]+`) \|", text, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def predicted(make_gemm) -> dict[str, Any]:
    from gtsim.predictor import Options, simulate_graph

    graph = make_gemm(4, 4)
    graph.meta.update({"seconds": {"capture": 0.5, "graph": 0.1}, "warnings": ["a warning"]})
    return simulate_graph(graph, Options(fidelity="fast", overrides={"l2.latency_near_cycles": 300})).to_dict()


def test_every_field_is_documented_and_every_documented_field_exists(make_gemm) -> None:
    assert set(fields(predicted(make_gemm))) == documented(0)


def test_a_program_adds_its_kernels_and_the_gaps_between_them(make_gemm) -> None:
    from gtsim.sequence import run_in_order

    changed = {"launch.gap_us": 0.5}
    program = run_in_order(
        "two", (make_gemm(4, 4), make_gemm(8, 4)),
        lambda g, _, memory: gtsim.simulate(g, clock_mhz=1000, overrides=changed, memory=memory),
    )
    kernels = program.kernels
    found = program.to_dict()
    assert set(fields({**found, "kernels": 0})) == documented(1)
    assert found["time_us"] == pytest.approx(kernels[0].time_us + 0.5 + kernels[1].time_us)
    assert found["cycles"] == kernels[0].cycles + 500 + kernels[1].cycles
    assert found["kernels"][1] == kernels[1].to_dict()
    assert "two: 2 kernels on" in repr(program)
    assert "between kernels" in program._repr_html_()


def test_the_result_is_plain_json_and_survives_a_round_trip(make_gemm) -> None:
    result = predicted(make_gemm)
    assert json.loads(json.dumps(result, allow_nan=False))["cycles"] == result["cycles"]


def test_figures_follow_from_each_other(make_gemm) -> None:
    r = gtsim.simulate(make_gemm(), clock_mhz=1500)
    assert r.time_us == pytest.approx(r.cycles / 1500)
    assert r.tflops == pytest.approx(r.flops / r.time_us / 1e6)
    assert r.full_waves == pytest.approx(r.ctas / (132 * r.ctas_per_sm))
    for role in r.roles:
        assert role.working + sum(role.waits.values()) == pytest.approx(1, abs=0.01)
