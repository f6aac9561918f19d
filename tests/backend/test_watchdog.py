"""A run that cannot go on ends with a report that names who waits for what."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gtsim.backend import SimulationError, simulate
from gtsim.graph import EdgeKind, KernelGraph, Reason, TileGraphBuilder

from .kernels import PLAIN, Kernel


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """`simulate` refuses these graphs before they run; here the engine gets them."""
    monkeypatch.setattr(sys.modules["gtsim.backend.simulate"], "check", lambda graph, **_: [])


def report(graph: KernelGraph, hw: str = "h100_sxm", **overrides: Any) -> str:
    with pytest.raises(SimulationError) as caught:
        simulate(graph, hw, overrides={**PLAIN, **overrides})
    return str(caught.value)


def with_edge(graph: KernelGraph, source: int, dst: int, reason: Reason = Reason.DATA) -> KernelGraph:
    """One edge more in the first template, released when `source` completes."""
    t = graph.templates[0]
    at, ptr = int(t.edge_ptr[source + 1]), t.edge_ptr.copy()
    ptr[source + 1 :] += 1
    new = {"edge_dst": dst, "edge_kind": EdgeKind.COMPLETE, "edge_reason": reason, "edge_label": -1, "edge_each": False}
    arrays = {name: np.insert(getattr(t, name), at, value) for name, value in new.items()}
    return replace(graph, templates=(replace(t, edge_ptr=ptr, **arrays), *graph.templates[1:]))


def operation(kernel: Kernel, source: str, warp: int = 0, **place: Any) -> None:
    kernel.t.node("test_work", [warp], attrs={"cycles": 1.0}, source=source, **place)


def test_a_circle_is_named_node_by_node() -> None:
    kernel = Kernel(ctas=3, threads=96)
    for warp, source in enumerate(("free", "first", "second", "third")):
        operation(kernel, source, warp % 3, loop="k=4" if source == "second" else "")
    graph = with_edge(with_edge(with_edge(kernel.graph(), 1, 2), 2, 3), 3, 2)
    assert report(graph).splitlines() == [
        "test: deadlock: 3 of 3 CTAs cannot finish",
        "block (0, 0, 0) (template 0), 2 operations blocked; these wait for each other in a circle:",
        "  #2 test_work second [k=4] waits for #3 test_work third (its data)",
        "  #3 test_work third waits for #2 test_work second [k=4] (its data)",
    ]


def test_it_starts_where_the_others_hang() -> None:
    """A long chain behind a circle: the circle is told, not the chain; a circle too long to tell is cut short."""
    kernel = Kernel()
    for i in range(40):
        operation(kernel, f"op {i}")
    text = report(with_edge(kernel.graph(), 39, 20))
    assert "20 operations blocked; these wait for each other in a circle:" in text
    assert text.count(" waits for ") == 8 and text.endswith("... and 12 more") and "op 25" not in text


def test_each_kind_of_cta_is_told_once() -> None:
    kernel = Kernel(ctas=8)
    kernel.work(1)
    kernel.work(1)
    assert report(with_edge(kernel.graph(), 1, 0)).count("operations blocked") == 1


def test_runs_of_a_loop_are_told_apart() -> None:
    """In the repeated body B waits for A, and A of the next run for B; an edge from B to A of the same run closes the circle."""
    b = TileGraphBuilder("loop", grid=(1, 1, 1), threads=64)
    t = b.template()
    segment = t.repeat(5)
    for part in range(2):
        t.segment = segment + part
        for source in "AB":
            t.node("test_work", [0], attrs={"cycles": 1.0}, source=source, loop=f"k={part}")
    b.add_instances(t, [(0, 0, 0)])
    lines = report(with_edge(b.build(), 3, 2, Reason.BUFFER)).splitlines()
    assert "10 operations blocked; these wait for each other in a circle:" in lines[1]
    assert lines[2] == "  #2 test_work A [k=1] waits for #3 test_work B [k=1] (reuse of a buffer)"
    assert lines[3] == "  #3 test_work B [k=1] waits for #2 test_work A [k=1] (program order)"


def test_a_barrier_is_named() -> None:
    kernel = Kernel(threads=64)
    full = kernel.b.barrier("full", [1, 1])
    kernel.t.node("barrier_arrive", [0], arrive=[(full[1], 1)], source="signal")
    kernel.t.node("barrier_wait", [1], wait=(full[1], 0), source="wait")
    circle = with_edge(kernel.graph(), 1, 0)
    assert "#1 barrier_wait wait waits for #0 barrier_arrive signal (barrier full[1])" in report(circle)


def test_a_cluster_is_one_program() -> None:
    kernel = Kernel(ctas=4, cluster=(2, 1, 1), arch="sm_90a")
    for cta in range(2):
        operation(kernel, f"rank {cta}", cta=cta)
    kernel.b.add_instances(kernel.t, [(0, 0, 0), (2, 0, 0)])
    text = report(with_edge(with_edge(kernel.b.build(), 0, 1), 1, 0), "h200_sxm")
    assert "2 of 2 CTAs cannot finish" in text and "rank 0 waits for #1 test_work rank 1" in text


def test_a_grid_barrier_without_the_others() -> None:
    kernel = Kernel(ctas=2)
    other = kernel.b.template("other")
    kernel.t.node("grid_sync", [0])
    for t in (kernel.t, other):
        t.node("grid_sync", [0])
    kernel.b.add_instances(kernel.t, [(0, 0, 0)])
    kernel.b.add_instances(other, [(1, 0, 0)])
    text = report(kernel.b.build(check=False))
    assert "1 of 2 CTAs cannot finish" in text and "#1 grid_sync waits for the other CTAs of the grid" in text
    assert "1 operations blocked; the others wait for this one:" in text


def test_a_run_without_end_is_refused() -> None:
    """A CTA of 2^60 cycles: time would not fit the engine's integers."""
    kernel = Kernel(ctas=3)
    kernel.work(2.0**60)
    assert "would take longer than 2^46 cycles" in report(kernel.graph())
