"""Programmatic dependent launch: overlap of kernels, computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gtsim.backend import (
    DeviceMemory,
    Earlier,
    EarlyStart,
    SimulationError,
    early_start,
    occupancy,
    simulate,
    waits_for_earlier,
)
from gtsim.graph import KernelGraph
from gtsim.hwconfigs import load_hardware

import gtsim
from gtsim.prediction import Prediction
from gtsim.sequence import SequencePrediction, run_in_order

from .kernels import PLAIN, Kernel

CLOCK = 1000.0  # MHz: a cycle is a nanosecond
GAP = 700  # cycles between two kernels


def stream(*graphs: KernelGraph, **overrides: Any) -> SequencePrediction:
    hw = load_hardware("h100_sxm", {**PLAIN, "launch.gap_us": GAP / 1000, **overrides})

    def once(graph: KernelGraph, start: EarlyStart | None, memory: DeviceMemory) -> Prediction:
        return Prediction(simulate(graph, hw, clock_mhz=CLOCK, start=start, memory=memory), graph, hw)

    return run_in_order("program", graphs, once)


def first(before: float, after: float, *, ctas: int = 1, trigger: bool = True, **launch: Any) -> KernelGraph:
    """`before` cycles, a trigger (one cycle), `after` cycles."""
    k = Kernel(ctas, **launch)
    k.work(before)
    if trigger:
        k.t.node("pdl_trigger", [0])
    k.work(after)
    return k.graph()


def second(prologue: float, rest: float, *, ctas: int = 1, **launch: Any) -> KernelGraph:
    """`prologue` cycles, a wait for the kernel before (one cycle), `rest` cycles."""
    k = Kernel(ctas, **launch)
    if prologue:
        k.work(prologue)
    k.t.node("pdl_wait", [0])
    k.work(rest)
    return k.graph()


def test_a_prologue_runs_in_the_shadow_of_the_kernel_before() -> None:
    s = stream(first(100, 1000), second(300, 200))
    one, two = s.placements
    assert (one.end_us, one.trigger_us) == (1.101, 0.101)
    assert two.overlaps and two.start_us == 0.101 and two.prologue_us == pytest.approx(0.300)
    assert two.end_us == pytest.approx(1.101 + 0.001 + 0.200)
    assert s.time_us == two.end_us and s.cycles == 1302
    assert s.serial_us == pytest.approx(1.101 + 0.700 + 0.501)
    assert two.saved_us == pytest.approx(s.serial_us - s.time_us)
    assert s.kernels[1].result.cycles == 501  # by itself


def test_a_long_prologue_waits_for_nobody() -> None:
    """Trigger at 101, prologue of 3000: the wait at 3101 finds the first kernel gone since 1101."""
    assert stream(first(100, 1000), second(3000, 200)).cycles == 101 + 3000 + 1 + 200


def test_the_launch_takes_its_time_after_the_trigger() -> None:
    """Launch 500: the first kernel's trigger at 601, its end at 1601; the second's first CTA at 1101, its wait at 1401."""
    s = stream(first(100, 1000), second(300, 200), **{"launch.kernel_us": 0.5})
    assert s.placements[1].start_us == 0.601 and s.placements[0].end_us == 1.601
    assert s.cycles == 1601 + 1 + 200
    assert s.serial_us == pytest.approx(1.601 + 0.700 + 1.001)


def test_without_a_trigger_only_the_gap_is_hidden() -> None:
    s = stream(first(100, 1000, trigger=False), second(300, 200))
    assert s.placements[1].start_us == s.placements[0].end_us == 1.100
    assert s.cycles == 1100 + 300 + 1 + 200 and s.placements[1].saved_us == pytest.approx(0.700)


def test_the_last_cta_to_trigger_counts_and_only_its_first_trigger() -> None:
    k = Kernel()
    late = k.b.template("late")
    for t, cycles in ((k.t, 100.0), (late, 400.0)):
        t.node("test_work", [0], attrs={"cycles": cycles})
        t.node("pdl_trigger", [0])
        t.node("test_work", [0], attrs={"cycles": 500.0})
        t.node("pdl_trigger", [0])
    k.b.grid = (2, 1, 1)
    k.b.add_instances(k.t, [(0, 0, 0)])
    k.b.add_instances(late, [(1, 0, 0)])
    s = stream(k.b.build(), second(0, 10))
    assert s.placements[1].start_us == 0.401


def test_a_kernel_that_does_not_wait_is_launched_after_the_gap() -> None:
    s = stream(first(100, 1000), first(50, 50))
    assert not s.placements[1].overlaps and s.placements[1].start_us == pytest.approx(1.101 + 0.700)
    assert s.time_us == pytest.approx(s.serial_us)


def test_no_room_before_the_earlier_ctas_have_left() -> None:
    """1024 threads of 64 registers take all 65536 registers of an SM. Its CTA ends at 1101; a gap of 60 follows each."""
    full = dict(threads=1024, registers_per_thread=64, ctas=132)
    small = dict(threads=128, registers_per_thread=64, ctas=132)
    gap = {"launch.cta_gap_cycles": 60}
    assert stream(first(100, 1000, **full), second(300, 200, **small), **gap).cycles == 1101 + 60 + 300 + 1 + 200
    # With half the registers there is room at the trigger.
    half = dict(threads=512, registers_per_thread=64, ctas=132)
    assert stream(first(100, 1000, **half), second(300, 200, **small), **gap).cycles == 1101 + 1 + 200


def test_the_room_of_an_sm_is_taken_in_steps() -> None:
    """Two CTAs of half an SM end at 300 and 1000; a CTA of the dependent takes a quarter, of which an SM has room for two at 300
    and for four at 1000. Launched at 1, for its third CTA at 999 of its own clock."""
    k = Kernel(threads=512, registers_per_thread=64)
    longer = k.b.template("longer")
    for t, cycles, warp in ((k.t, 300.0, 0), (longer, 1000.0, 1)):
        t.node("pdl_trigger", [warp])
        t.node("test_work", [warp], attrs={"cycles": cycles - 1, "resource": "lane"})
    k.b.grid = (264, 1, 1)
    k.b.add_instances(k.t, [(i, 0, 0) for i in range(132)])
    k.b.add_instances(longer, [(i, 0, 0) for i in range(132, 264)])
    before, quarter = k.b.build(), dict(threads=256, registers_per_thread=64)
    hw = load_hardware("h100_sxm", PLAIN)
    schedule = simulate(before, hw, clock_mhz=CLOCK).schedule
    assert schedule is not None and schedule.trigger_cycles == 1
    after = second(400, 100, ctas=4 * 132, **quarter)
    found = early_start(after, hw, [Earlier(before.launch, schedule, 0.0, 1000.0)], 1.0)
    assert found.wait_cycles == 999
    assert (found.place_free_cycles == np.array([299, 299, 999, 999])[:, None]).all()
    # From 300 on there is always work for the probe that the CTAs of an SM share: four prologues of 400 and four rests of 100.
    assert stream(before, after).cycles == 300 + 4 * 400 + 4 * 100


def test_a_chain_of_three_may_have_all_in_flight() -> None:
    """The second triggers at 101 + 1, before its wait; the third starts then, and waits for the second's end at 1302."""
    k = Kernel()
    k.t.node("pdl_trigger", [0])
    k.t.node("pdl_wait", [0])
    k.work(200)
    s = stream(first(100, 1000), k.graph(), second(50, 70))
    assert [p.start_us for p in s.placements] == [0.0, 0.101, 0.102]
    assert s.placements[1].end_us == 1.302 and s.cycles == 1302 + 1 + 70


def test_a_wait_without_a_kernel_before_it_passes_at_once() -> None:
    k = Kernel()
    k.work(300)
    k.t.node("pdl_wait", [0])
    k.work(200)
    graph = k.graph()
    assert waits_for_earlier(graph) and not waits_for_earlier(first(1, 1))
    p = gtsim.simulate(graph, overrides=PLAIN, clock_mhz=CLOCK)
    assert p.result.cycles == 501 and p.result.warnings == ()
    assert "pdl_sync has no kernel to wait for" in repr(p)


def test_waiting_for_the_kernel_before_is_synchronisation() -> None:
    hw = load_hardware("h100_sxm", PLAIN)
    graph = second(300, 200)
    start = EarlyStart(1000.0, np.zeros((occupancy(graph, hw).ctas_per_sm, 132)))
    roles = simulate(graph, hw, clock_mhz=CLOCK, start=start).roles
    assert roles[0].waits["sync"] == pytest.approx(700 / 1201, rel=1e-3)


def test_the_report_tells_what_overlap_saves() -> None:
    text = " ".join(repr(stream(first(100, 1000), second(300, 200))).split())
    assert "test is launched when test has triggered, 1.00 us before its end; its CTAs reach their wait after 0.30 us" in text
    assert "without overlap: 2.3 us" in text
    assert "without overlap" not in repr(stream(first(1, 1), first(1, 1)))


def test_it_does_not_exist_before_hopper() -> None:
    report = gtsim.check(second(1, 1), hw="a100_sxm")
    assert [f.text for f in report.errors] == ["pdl_wait does not exist on sm_80"]


def test_an_unknown_signal_is_refused() -> None:
    from gtsim.backend import Demand, demand
    from gtsim.graph import NodeType, register_node_type

    register_node_type(NodeType("test_signal", "test", "test"), replace=True)
    demand("test_signal", replace=True)(lambda node, hw: Demand([], signal="shout"))
    k = Kernel()
    k.t.node("test_signal", [0])
    with pytest.raises(SimulationError, match="signal 'shout' is none of"):
        k.run()


def test_a_start_that_does_not_fit_is_refused() -> None:
    graph = first(1, 1)
    for start in (3, EarlyStart(0.0, np.zeros((1, 132)))):
        with pytest.raises(SimulationError, match="must be an EarlyStart for 16 CTAs an SM and 132 SMs"):
            simulate(graph, start=start)  # type: ignore[arg-type]
