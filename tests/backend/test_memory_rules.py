"""Rules of the memory system: latencies, rates, caching, conservation of bytes, and agreement of the two fidelities."""

from __future__ import annotations

import pytest
from gtsim.backend import Result, simulate
from gtsim.hwconfigs import load_hardware

from .kernels import PLAIN, Kernel, gemm

HW = load_hardware("h100_sxm")
LINE = 128


def loads(count: int, rows: int = 8, *, same: bool = False, ctas: int = 1, **options: object) -> Result:
    """One warp of each CTA loads `count` tiles of `rows` lines by TMA and waits for all."""
    kernel = Kernel(ctas=ctas, smem_bytes=200000)
    x = kernel.b.tensor("x", (rows * count * ctas, 64), "float16")
    s = kernel.b.buffer("s", (count, rows, 64), "float16", scope="shared")
    done = kernel.b.barrier("done", [count])
    m0 = kernel.t.column("m0")
    for i in range(count):
        kernel.t.node(
            "tma_load",
            [0],
            reads=[x.tile((m0 + (0 if same else i * rows), 0), (rows, 64))],
            writes=[s.tile((i, 0, 0), (1, rows, 64))],
            tx=done[0],
            arrive=[(done[0], 1)],
        )
    kernel.t.node("barrier_wait", [0], wait=(done[0], 0))
    return kernel.run({"m0": [0 if same else i * rows * count for i in range(ctas)]}, **options)  # type: ignore[arg-type]


def test_a_miss_takes_launch_l2_and_dram_latency() -> None:
    result = loads(1, rows=1)
    least = HW.tma.launch_cycles + HW.l2.latency_near_cycles + HW.dram.latency_cycles + HW.mbarrier.wait_cycles
    slack = HW.l2.latency_far_cycles - HW.l2.latency_near_cycles + 12
    assert least <= result.cycles <= least + slack
    assert result.traffic.dram_read_bytes == LINE


def test_a_hit_saves_the_dram_latency() -> None:
    flat = {"l2.latency_far_cycles": HW.l2.latency_near_cycles, "dram.activate_ns": 0.0}
    overrides = {**flat, "tma.inflight_lines": 8}
    miss_hit = loads(2, same=True, overrides=overrides)
    miss_miss = loads(2, overrides=overrides)
    assert miss_hit.traffic.dram_read_bytes == 8 * LINE
    assert miss_hit.traffic.l2_hit_rate == 0.5
    assert miss_miss.cycles - miss_hit.cycles == pytest.approx(HW.dram.latency_cycles, abs=2)


def test_lines_in_flight_bound_the_rate() -> None:
    """Little's law: with C lines in flight and a round trip of L cycles a line costs L / C."""
    flat = {"l2.latency_far_cycles": 400, "l2.latency_near_cycles": 400, "dram.latency_cycles": 0}
    slow = loads(64, overrides={**flat, "tma.inflight_lines": 8})
    fast = loads(64, overrides={**flat, "tma.inflight_lines": 64})
    assert slow.cycles == pytest.approx(64 * 400, rel=0.1)
    assert fast.cycles == pytest.approx(64 * 400 / 8, rel=0.3)


@pytest.mark.parametrize(("lines", "latency"), [(1, 50), (4, 400), (16, 1000), (96, 800)])
@pytest.mark.parametrize("pool", ["tma", "lsu"])
def test_credits_bound_the_bandwidth_to_lines_over_latency(pool: str, lines: int, latency: int) -> None:
    """C lines in flight, each L cycles on its way: C x 128 / L bytes a cycle, as long as the port is faster."""
    count = 40 * lines
    kernel = Kernel(smem_bytes=200000)
    x, f = kernel.b.tensor("x", (count, 64), "float16"), kernel.b.buffer("f", (count, 64), "float16", scope="fragment")
    if pool == "tma":
        kernel.t.node("tma_load", [0], reads=[x.tile()], writes=[kernel.b.buffer("s", (4, 64), "float16", scope="shared").tile()])
    else:
        kernel.t.node("global_load", [0], reads=[x.tile()], writes=[f.tile()])
    free = {"resources.issue.rate_per_cycle": 1000000, "tma.launch_cycles": 0, "tma.descriptor_setup_cycles": 0,
            "tma.descriptor_miss_cycles": 0, "tma.issue_cycles": 0, "dram.latency_cycles": 0,
            "dram.peak_gbs": 100000.0, "l2.latency_near_cycles": latency, "l2.latency_far_cycles": latency,
            "resources.l2_to_sm.rate_per_cycle": 100000, "resources.smem.rate_per_cycle": 100000,
            "resources.l2.rate_per_cycle": 1000000, "dram.activate_ns": 0, "dram.precharge_ns": 0, "dram.row_cycle_ns": 0,
            "tma.inflight_lines": lines, "lsu.inflight_sectors": 4 * lines}  # fmt: skip
    kernel.b.add_instances(kernel.t, [(0, 0, 0)])
    result = simulate(kernel.b.build(check=False), "h100_sxm", overrides={**PLAIN, **free}, fidelity="line")
    assert count * LINE / result.cycles == pytest.approx(lines * LINE / latency, rel=0.04)


def test_dram_bandwidth_bounds_a_stream() -> None:
    result = loads(32, rows=64, ctas=132)
    nbytes = 32 * 64 * LINE * 132
    assert result.traffic.dram_read_bytes == nbytes
    limit = nbytes / (HW.dram.peak_gbs * HW.dram.efficiency * 1e9) * result.clock_mhz * 1e6
    assert limit <= result.cycles <= 1.15 * limit + 2000


def test_the_port_of_an_sm_bounds_what_one_sm_gets() -> None:
    result = loads(64, rows=64, same=True)
    port = 64 * 64 * LINE / HW.resources["l2_to_sm"].rate_per_cycle
    assert port <= result.cycles <= 1.1 * port + 2000


def test_a_working_set_over_capacity_is_read_again() -> None:
    small = loads(16, rows=64, same=True, overrides={"l2.capacity_bytes": 1 << 20, "l2.remote_copy": False})
    assert small.traffic.dram_read_bytes == 64 * LINE
    kernel = Kernel()
    x, s = kernel.b.tensor("x", (64 * 32, 64), "float16"), kernel.b.buffer("s", (64, 64), "float16", scope="shared")
    for lap in range(2):
        for i in range(32):
            kernel.t.node("tma_load", [0], reads=[x.tile((64 * i, 0), (64, 64))], writes=[s.tile()], loop=f"{lap}")
    kernel.b.add_instances(kernel.t, [(0, 0, 0)])
    graph = kernel.b.build(check=False)
    half = simulate(graph, "h100_sxm", overrides={"l2.capacity_bytes": 128 << 10, "l2.remote_copy": False})
    whole = simulate(graph, "h100_sxm", overrides={"l2.capacity_bytes": 512 << 10, "l2.remote_copy": False})
    assert half.traffic.dram_read_bytes == 2 * whole.traffic.dram_read_bytes == 2 * 32 * 64 * LINE


def test_written_lines_reach_dram_only_when_evicted() -> None:
    def stores(capacity: int) -> Result:
        kernel = Kernel(ctas=64, smem_bytes=200000)
        y, f = kernel.b.tensor("y", (64 * 64, 64), "float16"), kernel.b.buffer("f", (64, 64), "float16", scope="fragment")
        kernel.t.node("global_store", range(4), reads=[f.tile()], writes=[y.tile((kernel.t.column("m0"), 0), (64, 64))])
        return kernel.run(
            {"m0": [64 * i for i in range(64)]}, {"l2.capacity_bytes": capacity, "l2.remote_copy": False, "chip.sm_count": 1}
        )

    nbytes = 64 * 64 * LINE
    kept, spilt = stores(2 * nbytes), stores(nbytes // 4)
    assert kept.traffic.l2_written_bytes == spilt.traffic.l2_written_bytes == nbytes
    assert kept.traffic.dram_written_bytes == 0
    assert spilt.traffic.dram_written_bytes == pytest.approx(nbytes * 3 / 4, rel=0.02)


def test_modified_lines_of_others_leave_as_room_is_needed() -> None:
    # 132 x 32 tiles of 64 lines are 34.6 MB; the L2 holds 8 MB of somebody else's lines.
    nbytes = 32 * 64 * LINE * 132
    whole = {"l2.capacity_bytes": 8 << 20, "l2.remote_copy": False}
    empty, dirty = (loads(32, rows=64, ctas=132, overrides={**whole, "l2.dirty_at_start": d}) for d in (0.0, 1.0))
    assert empty.traffic.dram_written_bytes == 0 and dirty.traffic.dram_written_bytes == 8 << 20
    assert dirty.traffic.dram_read_bytes == empty.traffic.dram_read_bytes == nbytes
    more = (8 << 20) / (HW.dram.peak_gbs * HW.dram.efficiency * 1e9) * dirty.clock_mhz * 1e6
    assert dirty.cycles - empty.cycles == pytest.approx(more, rel=0.15)
    # Lines of others are modified or not, evenly mixed: 34.6 MB of ours take the places of as many, a quarter of them modified.
    roomy = {"l2.capacity_bytes": 64 << 20, "l2.remote_copy": False, "l2.dirty_at_start": 0.25}
    assert loads(32, rows=64, ctas=132, overrides=roomy).traffic.dram_written_bytes == pytest.approx(nbytes / 4, rel=1e-3)


def test_narrow_writes_take_whole_sectors_on_the_way() -> None:
    def store(row_bytes: int) -> int:
        kernel = Kernel()
        y, f = kernel.b.tensor("y", (512, 64), "float16"), kernel.b.buffer("f", (512, 64), "float16", scope="fragment")
        kernel.t.node(
            "global_store", range(4), reads=[f.tile()], writes=[y.tile()], attrs={"access_bytes": 4, "row_bytes": row_bytes}
        )
        return kernel.run().cycles

    sectors = 512 * LINE / HW.resources["sm_to_l2"].rate_per_cycle
    headers = 1 + HW.l2.write_header_bytes / HW.l2.sector_bytes  # one a sector
    assert store(32) == pytest.approx(headers * sectors, rel=0.2)
    assert store(16) == pytest.approx(headers * 2 * sectors, rel=0.2)


@pytest.mark.parametrize(("row_bytes", "header"), [(128, 32), (64, 32), (32, 32), (32, 0), (16, 16)])
def test_each_write_request_is_led_by_a_header_on_the_port(row_bytes: int, header: int) -> None:
    """64 KB leave in requests of one row: its sectors and a header each, at the port's rate."""
    kernel = Kernel()
    y, f = kernel.b.tensor("y", (512, 64), "float16"), kernel.b.buffer("f", (512, 64), "float16", scope="fragment")
    attrs = {"access_bytes": 4, "row_bytes": row_bytes}
    kernel.t.node("global_store", range(4), reads=[f.tile()], writes=[y.tile()], attrs=attrs)
    result = kernel.run(overrides={"l2.write_header_bytes": header})
    requests = 512 * LINE // row_bytes
    wire = requests * (-(-row_bytes // 32) * 32 + header)
    busy = result.utilization["sm_to_l2"] * result.cycles * HW.chip.sm_count
    assert busy == pytest.approx(wire / HW.resources["sm_to_l2"].rate_per_cycle, rel=1e-3)


@pytest.mark.parametrize(("m", "n", "k"), [(1000, 512, 256), (256, 1000, 200), (128, 128, 64)])
def test_tiles_are_clipped_to_their_tensors(m: int, n: int, k: int) -> None:
    traffic = simulate(gemm(m, n, k), "h100_sxm", fidelity="line").traffic
    sector = HW.l2.sector_bytes
    assert 2 * (m * k + n * k) <= traffic.dram_read_bytes <= 2 * (m * k + n * k) + sector * (m + n)
    assert 2 * m * n <= traffic.l2_written_bytes <= 2 * m * n * (1 + 2 * sector / 256)
    columns, rows = -(-n // 128), -(-m // 128)
    assert traffic.l2_read_bytes + traffic.l2_coalesced_bytes >= 2 * (m * k * columns + n * k * rows)


@pytest.mark.parametrize("shape", [(512, 512, 512), (1000, 1024, 512), (2048, 2048, 512), (128, 4096, 1024), (4096, 384, 256)])
@pytest.mark.parametrize("consumers", [1, 2])
def test_bulk_agrees_with_line(shape: tuple[int, int, int], consumers: int) -> None:
    """On kernels of a few thousand cycles, most of it start and end; tests/front compares whole kernels. Queues at single slices
    and rows of DRAM banks exist in `line` only."""
    graph = gemm(*shape, consumers=consumers)
    line, bulk = (simulate(graph, "h100_sxm", fidelity=f) for f in ("line", "bulk"))
    assert bulk.cycles == pytest.approx(line.cycles, rel=0.05)
    for counter in ("l2_written_bytes", "dram_read_bytes"):
        assert getattr(bulk.traffic, counter) == pytest.approx(getattr(line.traffic, counter), rel=0.01), counter
    asked = [r.traffic.l2_read_bytes + r.traffic.l2_coalesced_bytes for r in (bulk, line)]
    assert asked[0] == pytest.approx(asked[1], rel=0.01)
    assert bulk.traffic.l2_read_bytes == pytest.approx(line.traffic.l2_read_bytes, rel=0.08)  # what is merged depends on time


def test_tiles_that_start_anywhere_cost_no_event_a_row() -> None:
    """Rows of an expert start where the one before ends: bulk fidelity cuts such a tensor like its tiles."""

    def rows(starts: list[int]) -> Result:
        kernel = Kernel(len(starts), 128)
        x = kernel.b.tensor("x", (4096, 256), "float16")
        s = kernel.b.buffer("s", (128, 64), "float16", scope="shared")
        low = kernel.t.column("low")
        kernel.t.node("tma_load", [0], reads=[x.tile((low, 0), (128, 64))], writes=[s.tile()])
        return kernel.run(columns={"low": starts})

    even, odd = rows([128 * i for i in range(31)]), rows([128 * i + 7 * i % 97 for i in range(31)])
    assert odd.events < 3 * even.events
    assert odd.traffic.l2_read_bytes == even.traffic.l2_read_bytes


def test_work_is_conserved_and_no_resource_is_busier_than_the_run() -> None:
    result = simulate(gemm(2048, 2048, 1024), "h100_sxm")
    assert all(0 <= share <= 1 for share in result.utilization.values())
    flop = result.utilization["tensor"] * result.cycles * HW.chip.sm_count * 4 * HW.resources["tensor"].rate_per_cycle
    assert flop == pytest.approx(2 * 2048 * 2048 * 1024, rel=1e-3)
    port = result.utilization["l2_to_sm"] * result.cycles * HW.chip.sm_count * HW.resources["l2_to_sm"].rate_per_cycle
    assert port == pytest.approx(result.traffic.l2_read_bytes + result.traffic.l2_coalesced_bytes, rel=1e-3)
