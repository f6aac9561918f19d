"""Fidelity "fast": what repeats is left out and accounted for."""

from __future__ import annotations

import numpy as np
import pytest
from gtsim.backend import simulate
from gtsim.backend.runs import sequence_period
from gtsim.graph import KernelGraph, TileGraphBuilder

from .kernels import PLAIN, Kernel, gemm


def waves(count: int, ctas: int = 132) -> Kernel:
    """CTAs that fill an SM each and work for 500 cycles."""
    kernel = Kernel(ctas=count * ctas, registers_per_thread=255, smem_bytes=200000)
    kernel.work(500, type="test_sync_work")
    return kernel


@pytest.mark.parametrize(("count", "left_out"), [(7, 0), (8, 0), (9, 1), (40, 32), (1000, 992)])
def test_equal_waves_are_left_out_and_the_time_is_exact(count: int, left_out: int) -> None:
    # Five waves are watched and a sixth is under way, two run behind those left out.
    result = waves(count).run(fidelity="fast")
    assert result.cycles == 500 * count
    assert result.skipped["ctas"] == 132 * left_out
    assert result.skipped["bound"] == 0
    assert result.skipped["share"] == pytest.approx(left_out / count)
    assert [o.executions for o in result.operations] == [132 * count]
    assert result.utilization["probe"] == pytest.approx(1.0)
    assert result.cta_cycles == 500


def test_a_partial_last_wave_stays() -> None:
    kernel = Kernel(ctas=50 * 132 + 7, registers_per_thread=255, smem_bytes=200000)
    kernel.work(500, type="test_sync_work")
    assert kernel.run(fidelity="fast").cycles == 500 * 51


def test_events_do_not_grow_with_what_is_left_out() -> None:
    events = [waves(n).run(fidelity="fast").events for n in (50, 500)]
    assert events[0] == events[1]
    assert waves(500).run(fidelity="bulk").events > 10 * events[1]


def alternating(lengths: list[int], count: int) -> KernelGraph:
    """CTAs with loop bodies of 100 cycles that run as often as `lengths` says, over and over."""
    b = TileGraphBuilder("test", grid=(count, 1, 1), threads=128, registers_per_thread=255, smem_bytes=200000)
    t = b.template()
    segment = t.repeat(t.column("times"))
    for part in range(2):
        t.segment = segment + part
        t.node("test_sync_work", [0], attrs={"cycles": 100.0})
    times = [lengths[i % len(lengths)] for i in range(count)]
    b.add_instances(t, [(i, 0, 0) for i in range(count)], {"times": times})
    return b.build()


def test_the_launch_order_has_a_period() -> None:
    assert sequence_period(waves(4).graph()) == 1
    assert sequence_period(alternating([1, 2, 3], 300)) == 3
    assert sequence_period(alternating(list(range(1, 101)), 300)) == 0  # only three times
    assert sequence_period(alternating([1] * 200 + [2], 700)) == 0


def test_a_pattern_is_left_out_as_a_whole() -> None:
    b = TileGraphBuilder("test", grid=(132 * 40, 1, 1), threads=128, registers_per_thread=255, smem_bytes=200000)
    for parity, parts in enumerate((1, 5)):  # 500 cycles in one piece, or in five
        t = b.template()
        for _ in range(parts):
            t.node("test_sync_work", [0], attrs={"cycles": 500.0 / parts})
        b.add_instances(t, [(i, 0, 0) for i in range(parity, 132 * 40, 2)])
    graph = b.build()
    assert sequence_period(graph) == 2
    result = simulate(graph, "h100_sxm", fidelity="fast", overrides=PLAIN)
    assert result.cycles == 500 * 40 and result.skipped["ctas"] == 132 * 32
    assert sorted(o.executions for o in result.operations) == [132 * 20 * 6]


def test_without_a_pattern_nothing_is_left_out() -> None:
    lengths = np.random.default_rng(3).integers(1, 9, 132 * 40).tolist()
    graph = alternating(lengths, len(lengths))
    fast, bulk = (simulate(graph, "h100_sxm", fidelity=f, overrides=PLAIN) for f in ("fast", "bulk"))
    assert fast.skipped == {"ctas": 0, "share": 0.0, "bound": 0.0}
    assert fast.cycles == bulk.cycles and fast.events == bulk.events


def test_memory_traffic_of_what_is_left_out_counts() -> None:
    graph = gemm(128 * 66, 128 * 64, 2048, consumers=2)
    # Whether two SMs ask within the time that a line is under way makes the periods of this kernel differ: no coalescer.
    fast, bulk = (simulate(graph, "h100_sxm", overrides={"l2.coalescer": False}, fidelity=f) for f in ("fast", "bulk"))
    assert fast.skipped["ctas"] > 1000
    assert fast.cycles == pytest.approx(bulk.cycles, rel=0.005)
    assert fast.traffic.l2_read_bytes == pytest.approx(bulk.traffic.l2_read_bytes, rel=0.005)
    assert fast.traffic.l2_written_bytes == pytest.approx(bulk.traffic.l2_written_bytes, rel=0.005)
    assert fast.utilization["tensor"] == pytest.approx(bulk.utilization["tensor"], rel=0.005)
    assert {r.role: round(r.working, 2) for r in fast.roles} == {r.role: round(r.working, 2) for r in bulk.roles}


def test_dram_is_as_busy_as_when_nothing_is_left_out() -> None:
    """Busy longer than what is simulated takes: the share is of the whole run."""
    graph = gemm(1024, 128 * 132 * 8, 128, consumers=2)
    quick = {"l2.write_header_bytes": 0}  # stores leave fast enough for DRAM to be what is busy
    fast, bulk = (simulate(graph, "h100_sxm", fidelity=f, overrides=quick) for f in ("fast", "bulk"))
    assert fast.skipped["share"] > 0.3 and bulk.utilization["dram"] > 0.75
    assert fast.utilization["dram"] == pytest.approx(bulk.utilization["dram"], rel=0.06)
    assert fast.bound_by.split()[0] == bulk.bound_by.split()[0]


def test_other_fidelities_leave_nothing_out() -> None:
    assert waves(40).run(fidelity="bulk").skipped == {} == waves(3).run(fidelity="line").skipped


def test_a_timeline_shows_the_whole_run() -> None:
    result = waves(40).run(fidelity="fast", timeline_sm=0)
    assert result.skipped["ctas"] == 0 and len(result.timeline) == 40


def test_reuse_along_the_rows_of_the_grid_is_seen_before_anything_is_left_out() -> None:
    """One SM: the CTAs of the first row of the grid miss B, those of later rows hit it. The first row alone would look steady."""
    graph, one = gemm(2048, 1024, 256), {"chip.sm_count": 1, "chip.gpc_sms": [1]}
    fast, bulk = (simulate(graph, "h100_sxm", overrides=one, fidelity=f) for f in ("fast", "bulk"))
    assert fast.skipped["ctas"] > 0
    assert fast.cycles == pytest.approx(bulk.cycles, rel=0.005)
