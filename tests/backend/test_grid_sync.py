"""A barrier over all CTAs of a grid, computed by hand."""

from __future__ import annotations

from typing import Any

import pytest
from gtsim.backend import SimulationError

import gtsim

from .kernels import PLAIN, Kernel

FREE = {**PLAIN, "launch.grid_sync_us": 0.0}


def kernel(ctas: int, **launch: Any) -> Kernel:
    return Kernel(ctas, **launch)


def test_all_wait_for_the_last() -> None:
    """CTAs work 100 or 700 cycles, meet (one cycle of issue), and go on for 50: the last is there at 700."""
    k = kernel(2)
    slow = k.b.template("slow")
    for t, cycles in ((k.t, 100.0), (slow, 700.0)):
        t.node("test_work", [0], attrs={"cycles": cycles})
        t.node("grid_sync", [0])
        t.node("test_work", [0], attrs={"cycles": 50.0})
    k.b.add_instances(k.t, [(0, 0, 0)])
    k.b.add_instances(slow, [(1, 0, 0)])
    p = gtsim.simulate(k.b.build(), overrides=FREE)
    assert p.result.cycles == 751
    assert p.result.schedule.end.tolist() == [751, 751]
    assert p.result.roles[0].waits["sync"] == pytest.approx(600 / (2 * 751), abs=1e-3)


def test_each_meeting_is_its_own() -> None:
    """Three meetings; the CTA that is last changes. Each takes a cycle of issue, and 200 behind the last."""
    k = kernel(2)
    other = k.b.template("other")
    for t, works in ((k.t, (300.0, 10.0, 500.0)), (other, (20.0, 400.0, 30.0))):
        for cycles in works:
            t.node("test_work", [0], attrs={"cycles": cycles})
            t.node("grid_sync", [0])
    k.b.add_instances(k.t, [(0, 0, 0)])
    k.b.add_instances(other, [(1, 0, 0)])
    p = gtsim.simulate(k.b.build(), overrides={**PLAIN, "launch.grid_sync_us": 0.2}, clock_mhz=1000)
    assert p.result.cycles == (300 + 200 + 1) + (400 + 200 + 1) + (500 + 200 + 1)


def test_a_full_chip_meets() -> None:
    k = kernel(132 * 16)
    k.work(100)
    k.t.node("grid_sync", [0])
    k.work(100)
    p = gtsim.simulate(k.graph(), overrides=FREE)
    assert p.result.cycles == 16 * 100 + 1 + 16 * 100  # the probe is shared by the CTAs of an SM


def test_a_grid_that_is_not_resident_at_once_is_refused() -> None:
    k = kernel(132 * 16 + 1)
    k.t.node("grid_sync", [0])
    graph = k.graph()
    with pytest.raises(SimulationError, match="needs all its 2113 CTAs resident at once; h100_sxm holds 2112"):
        gtsim.simulate(graph)
    (finding,) = gtsim.check(graph).errors
    assert finding.kind == "residency" and "2112 (16 an SM, limited by threads): 1 too many" in finding.text


def test_a_block_that_does_not_come_is_a_deadlock() -> None:
    k = kernel(2)
    other = k.b.template("other")
    k.t.node("grid_sync", [0])
    for t in (k.t, other):
        t.node("grid_sync", [0])
    k.b.add_instances(k.t, [(0, 0, 0)])
    k.b.add_instances(other, [(1, 0, 0)])
    graph = k.b.build(check=False)
    (finding,) = gtsim.check(graph).errors
    text = "block (0, 0, 0) comes to 2 grid barriers and block (1, 0, 0) only to 1: the first waits for ever"
    assert finding.kind == "deadlock" and text in finding.text
    with pytest.raises(SimulationError, match="comes to 2 grid barriers"):
        gtsim.simulate(graph)
