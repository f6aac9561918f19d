"""The L2 beyond one server: slices, partitions, copies, misses outstanding, the coalescer, and rows of the DRAM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from gtsim.backend import Result, simulate
from gtsim.graph import TileGraphBuilder
from gtsim.hwconfigs import load_hardware

from .kernels import PLAIN

HW = load_hardware("h100_sxm")
LINE = 128
NEAR, FAR, DRAM = HW.l2.latency_near_cycles, HW.l2.latency_far_cycles, HW.dram.latency_cycles
LAST = HW.chip.sm_count - 1
#: DRAM whose rows and bandwidth take no time, and no coalescer: what is left is the rule under test.
BARE: Mapping[str, Any] = {
    **PLAIN,
    "l2.coalescer": False,
    "dram.peak_gbs": 1e6,
    "dram.activate_ns": 0.0,
    "dram.precharge_ns": 0.0,
    "dram.row_cycle_ns": 0.0,
}
FIDELITIES = pytest.mark.parametrize("fidelity", ["bulk", "line"])


def reads(
    lines: Mapping[int, Sequence[int]],
    overrides: Mapping[str, Any] | None = None,
    *,
    fidelity: str = "line",
    delay: Mapping[int, float] | None = None,
    stored: int | None = None,
    rows: int = 1,
) -> Result:
    """SM `s` reads lines `lines[s]` one after the other, `delay[s]` cycles after the start; in front of its last read it writes
    line `stored`. A read is a tile of `rows` lines."""
    b = TileGraphBuilder("reads", grid=(HW.chip.sm_count, 1, 1), threads=128, smem_bytes=200000, arch="sm_90a")
    x = b.tensor("x", (1 << 16, 64), "float16")
    s, f = b.buffer("s", (rows, 64), "float16", scope="shared"), b.buffer("f", (1, 64), "float16", scope="fragment")
    idle = b.template()
    idle.node("test_work", [0], attrs={"cycles": 0.0})
    longest = max(map(len, lines.values()))
    done = b.barrier("done", [1] * longest)
    for sm in range(HW.chip.sm_count):
        if sm not in lines:
            b.add_instances(idle, [(sm, 0, 0)])
            continue
        t = b.template()
        t.node("test_sync_work", [0], attrs={"cycles": float((delay or {}).get(sm, 0.0))})
        for i, line in enumerate(lines[sm]):
            if stored is not None and i == len(lines[sm]) - 1:
                t.node("global_store", range(4), reads=[f.tile()], writes=[x.tile((stored, 0), (1, 64))], blocking=True)
            t.node("tma_load", [0], reads=[x.tile((line, 0), (rows, 64))], writes=[s.tile()], tx=done[i], arrive=[(done[i], 1)])
            t.node("barrier_wait", [0], wait=(done[i], 0))
        b.add_instances(t, [(sm, 0, 0)])
    return simulate(b.build(check=False), "h100_sxm", overrides={**BARE, **(overrides or {})}, fidelity=fidelity)


@FIDELITIES
def test_strides_of_all_slices_camp_on_one_with_a_plain_hash(fidelity: str) -> None:
    """Rows 80 lines apart: 64 reads queue at one of 80 slices, which serves a line in 128 cycles; folded bits spread them."""
    rate = {"resources.l2.rate_per_cycle": HW.l2.slices, "dram.latency_cycles": 0}
    apart = {sm: [HW.l2.slices * sm] for sm in range(64)}
    plain, folded = (reads(apart, {**rate, "l2.hash": h}, fidelity=fidelity).cycles for h in ("plain", "xor"))
    alone = reads({0: [0]}, rate, fidelity=fidelity).cycles
    assert plain - alone == pytest.approx(63 * LINE, abs=FAR - NEAR + 2)
    assert folded - alone <= 12 * LINE


@FIDELITIES
def test_the_other_partition_is_far(fidelity: str) -> None:
    """Line 0 lives in slice 0: near the SMs of the first half of the GPCs."""
    near, far = (reads({sm: [0]}, fidelity=fidelity).cycles for sm in (0, LAST))
    assert far - near == pytest.approx(FAR - NEAR, abs=1)


@FIDELITIES
def test_a_far_line_is_near_once_copied(fidelity: str) -> None:
    copied, not_copied = (
        reads({LAST: [0, 0, 0]}, {"l2.remote_copy": c}, fidelity=fidelity).cycles for c in (True, False)
    )
    assert not_copied - copied == pytest.approx(2 * (FAR - NEAR), abs=1)


@FIDELITIES
def test_a_write_drops_the_copies(fidelity: str) -> None:
    """Read, write, read: the second read is far again."""
    again, never = (
        reads({LAST: [0, 0]}, {"l2.remote_copy": c}, fidelity=fidelity, stored=0).cycles for c in (True, False)
    )
    assert again == pytest.approx(never, abs=1)


@FIDELITIES
def test_copies_take_places(fidelity: str) -> None:
    """160 KB that both sides read twice, in an L2 of 256 KB: without copies it fits."""
    tiles = [128 * i for i in range(10)]
    both = {0: tiles * 2, LAST: tiles * 2}
    fits, spills = (
        reads(both, {"l2.capacity_bytes": 256 << 10, "l2.remote_copy": c}, fidelity=fidelity, rows=128).traffic.dram_read_bytes
        for c in (False, True)
    )
    assert fits == 10 * 128 * LINE
    assert spills >= 1.5 * fits


@FIDELITIES
def test_misses_wait_for_an_mshr(fidelity: str) -> None:
    """Eight SMs miss at once in two slices of one entry each: four rounds of the DRAM latency."""
    two = {"l2.slices": 2, "l2.latency_far_cycles": NEAR}
    some, plenty = (
        reads({2 * i: [i] for i in range(8)}, {**two, "l2.mshr_per_slice": n}, fidelity=fidelity).cycles for n in (1, 8)
    )
    assert some - plenty == pytest.approx(3 * DRAM, rel=0.02)


@FIDELITIES
def test_a_line_under_way_takes_one_mshr(fidelity: str) -> None:
    """Four SMs miss the same line at once: one fetch, and nobody waits for another entry."""
    two = {"l2.slices": 2, "l2.latency_far_cycles": NEAR, "l2.mshr_per_slice": 1}
    alone, four = (reads({2 * i: [0] for i in range(n)}, two, fidelity=fidelity) for n in (1, 4))
    assert four.traffic.dram_read_bytes == LINE
    assert four.cycles - alone.cycles < 20


@FIDELITIES
@pytest.mark.parametrize(
    ("sms", "overrides", "later", "merged"),
    [
        ((0, 1), {"l2.coalescer": True}, 0, 1),
        ((0, 1), {"l2.coalescer": True}, 300, 1),  # still under way: a miss takes over 600 cycles
        ((0, 1), {"l2.coalescer": True}, 5000, 0),
        ((0, 1), {"l2.coalescer": False}, 0, 0),
        ((0, 2), {"l2.coalescer": True}, 0, 0),  # another pair
        ((0, 2), {"l2.coalescer": True, "l2.coalescer_sms": 4}, 0, 1),
        ((0, 1, 2, 3), {"l2.coalescer": True, "l2.coalescer_sms": 4}, 0, 3),
    ],
)
def test_a_pair_of_sms_asks_once_for_a_line_under_way(
    sms: tuple[int, ...], overrides: Mapping[str, Any], later: float, merged: int, fidelity: str
) -> None:
    result = reads({sm: [0] for sm in sms}, overrides, fidelity=fidelity, delay={sms[-1]: later})
    assert result.traffic.l2_coalesced_bytes == merged * LINE
    assert result.traffic.l2_read_bytes == (len(sms) - merged) * LINE
    port = result.utilization["l2_to_sm"] * result.cycles * HW.chip.sm_count * HW.resources["l2_to_sm"].rate_per_cycle
    assert port == pytest.approx(len(sms) * LINE, rel=0.01)  # it is delivered to each


def test_a_merged_read_is_back_with_the_first() -> None:
    alone = reads({0: [0]}, {"l2.coalescer": True}).cycles
    assert reads({0: [0], 1: [0]}, {"l2.coalescer": True}, delay={1: 300}).cycles == pytest.approx(alone, abs=4)


def test_rows_of_a_bank_hit_and_conflict() -> None:
    """One bank, rows of 8 lines. Lines 0, 1 and 8, one after the other: a row is opened; it is open; it must be closed first."""
    one = {"l2.slices": 2, "dram.channels": 1, "dram.banks": 1, "dram.row_bytes": 8 * LINE}
    timing = {"dram.activate_ns": 20.0, "dram.precharge_ns": 50.0, "dram.row_cycle_ns": 70.0}

    def more(lines: Sequence[int]) -> float:
        with_rows, without = (reads({0: lines}, {**one, **t}).cycles for t in (timing, {}))
        return (with_rows - without) / HW.chip.clock_mhz * 1e3

    assert more([0]) == pytest.approx(0, abs=1)
    assert more([0, 1]) == pytest.approx(-20, abs=1)
    assert more([0, 8]) == pytest.approx(50, abs=1)
    assert more([0, 8, 9]) == pytest.approx(30, abs=1)


def test_rows_of_one_bank_take_turns() -> None:
    """Two SMs ask at once for two rows of one bank: the second waits for a row cycle. Two banks: it does not."""
    timing = {"dram.activate_ns": 20.0, "dram.precharge_ns": 20.0, "dram.row_cycle_ns": 500.0, "l2.latency_far_cycles": NEAR}

    def cycles(banks: int) -> int:
        one = {"l2.slices": 2, "dram.channels": 1, "dram.banks": banks, "dram.row_bytes": 8 * LINE}
        return reads({0: [0], 2: [8]}, {**one, **timing}).cycles

    assert (cycles(1) - cycles(2)) / HW.chip.clock_mhz * 1e3 == pytest.approx(500, abs=4)


@FIDELITIES
def test_without_deduplication_every_element_is_a_request(fidelity: str) -> None:
    """64 elements of 2 bytes a line: 64 requests, one a cycle, that each fetch a sector of 32 bytes."""
    once, each = (
        reads({0: [0]}, {"tma.deduplicate": d}, rows=128, fidelity=fidelity) for d in (True, False)
    )
    assert each.traffic.l2_read_bytes == 64 * 32 * 128 == 16 * once.traffic.l2_read_bytes
    assert each.traffic.dram_read_bytes == once.traffic.dram_read_bytes
    busy = [r.utilization["tma"] * r.cycles * HW.chip.sm_count for r in (once, each)]
    assert busy == pytest.approx([128, 64 * 128], rel=0.01)


@FIDELITIES
def test_a_warm_l2_holds_what_is_read_as_far_as_it_fits(fidelity: str) -> None:
    """Tensor x takes 8 MB: all of it, or the first half, is there."""
    lines = {0: [0, 60000]}
    cold, warm, half = (
        reads(lines, {"l2.warm_at_start": w, "l2.capacity_bytes": c << 20, "l2.remote_copy": False}, fidelity=fidelity)
        for w, c in ((False, 16), (True, 16), (True, 4))
    )
    assert [r.traffic.dram_read_bytes for r in (cold, warm, half)] == [2 * LINE, 0, LINE]
    assert cold.cycles - warm.cycles == pytest.approx(2 * DRAM, abs=2)
