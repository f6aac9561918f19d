"""Properties over random kernels on random machines: no crash, no hang, work conserved, and no run faster than its bounds."""

from __future__ import annotations

import pytest
from gtsim.backend.compile import TICKS_PER_CYCLE
from hypothesis import given

from .random_kernels import Case, kernels
from .truth import counters, truth

#: Resources on which only stages that are no memory stages put work in random kernels.
PURE = ("probe", "lane", "pair", "group", "whole", "issue", "fma", "alu", "sfu", "cvt", "sm_to_sm_in", "sm_to_sm_out")


@given(case=kernels())
def test_no_run_is_faster_than_its_bounds(case: Case) -> None:
    expected = truth(case.graph, case.hw)
    result = case.run()
    assert all(0 <= share <= 1 for share in result.utilization.values())
    launch = case.hw.launch.kernel_us * case.hw.chip.clock_mhz
    assert result.cycles >= launch + max(expected.critical) - 1
    if case.graph.launch.cluster_ctas == 1:  # else a CTA may free its place before its cluster ends
        places = result.ctas_per_sm * case.hw.chip.sm_count
        assert result.cycles >= launch + sum(expected.critical) / places - 1
    executions = sum(o.executions for o in result.operations)
    assert executions == expected.executions == case.graph.total_nodes


@given(case=kernels())
def test_all_work_that_was_asked_for_is_in_the_busy_times(case: Case) -> None:
    expected, raw = truth(case.graph, case.hw), counters(case)
    for name in PURE:
        assert raw["busy"][name] == expected.ticks[name], name
    port = expected.port_bytes / case.hw.resources["l2_to_sm"].rate_per_cycle * TICKS_PER_CYCLE
    if case.options["fidelity"] == "line":
        assert raw["busy"]["l2_to_sm"] == pytest.approx(port, abs=5 * expected.lines + 1)


@given(case=kernels())
def test_bytes_are_conserved(case: Case) -> None:
    expected, result = truth(case.graph, case.hw), case.run(fidelity="line")
    traffic, sector = result.traffic, case.hw.l2.sector_bytes
    assert traffic.l2_read_bytes + traffic.l2_coalesced_bytes == expected.read_bytes
    assert traffic.l2_written_bytes == expected.written_bytes
    touched = expected.stored | expected.updated
    assert traffic.dram_read_bytes >= sector * len(expected.loaded - touched)
    capacity = case.hw.l2.capacity_bytes
    foreign = capacity * case.hw.l2.dirty_at_start
    assert traffic.dram_written_bytes <= expected.written_bytes + foreign
    assert traffic.dram_written_bytes >= sector * len(touched) - capacity - case.hw.l2.line_bytes
    if capacity >= 1 << 22 and not expected.updated:  # all of it fits, copies in other partitions included
        assert traffic.dram_read_bytes <= sector * len(expected.loaded)
        if not touched:
            assert traffic.dram_read_bytes == sector * len(expected.loaded)
    if not expected.lines:
        assert traffic.l2_read_bytes == traffic.l2_written_bytes == traffic.dram_read_bytes == 0
