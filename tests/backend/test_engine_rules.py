"""Rules of the event engine, each with a truth that can be computed by hand."""

from __future__ import annotations

import pytest
from gtsim.backend import SimulationError, simulate
from gtsim.graph import from_networkx, to_networkx

from .kernels import PLAIN, Kernel


def test_operations_of_one_warp_follow_each_other() -> None:
    kernel = Kernel()
    for _ in range(5):
        kernel.work(100)
    assert kernel.run().cycles == 500


def test_latency_delays_only_what_needs_the_result() -> None:
    kernel = Kernel()
    kernel.work(100, latency=40.0)
    kernel.work(100)
    assert kernel.run().cycles == 200


def test_a_blocking_operation_delays_its_warp_by_its_latency() -> None:
    kernel = Kernel()
    kernel.work(100, type="test_sync_work", latency=40.0)
    kernel.work(100)
    assert kernel.run().cycles == 240


def test_holding_a_warp_delays_it_but_not_the_resource() -> None:
    kernel = Kernel()
    kernel.work(10, hold=90.0)
    kernel.work(10, warps=(1,))
    kernel.work(10, warps=(0,))
    result = kernel.run()
    assert result.cycles == 110
    assert result.utilization["probe"] == pytest.approx(30 / 110 / 132, rel=1e-3)


def test_warps_share_a_resource_of_the_sm() -> None:
    kernel = Kernel()
    for w in range(4):
        kernel.work(256, warps=(w,))
    assert kernel.run().cycles == 1024


def test_warps_of_different_subpartitions_do_not_share_their_pipes() -> None:
    kernel = Kernel(threads=256)
    for w in (0, 1, 2, 3, 4):
        kernel.work(256, warps=(w,), resource="lane")
    assert kernel.run().cycles == 512  # warps 0 and 4 share sub-partition 0


def test_a_collective_needs_all_its_subpartitions() -> None:
    kernel = Kernel(threads=256)
    kernel.work(64, warps=(4,), resource="lane")
    kernel.work(4 * 64, warps=range(4), resource="lane")  # 64 cycles on each of four
    assert kernel.run().cycles == 128


@pytest.mark.parametrize(("policy", "first_done"), [("gto", 256), ("oldest", 256), ("lrr", 448)])
def test_policies_order_the_pieces_of_two_warps(policy: str, first_done: int) -> None:
    kernel = Kernel(threads=256)
    kernel.work(256, warps=(0,), resource="lane")
    kernel.work(256, warps=(4,), resource="lane")
    result = kernel.run(policy=policy, timeline_sm=0)
    assert result.cycles == 512
    assert min(span["done"] for span in result.timeline) >> 16 == first_done


@pytest.mark.parametrize(("policy", "first", "second"), [("gto", 320, 256), ("oldest", 128, 320), ("lrr", 128, 320)])
def test_only_greedy_stays_with_the_warp_it_served_last(policy: str, first: int, second: int) -> None:
    """The older warp finds a pipe taken for 64 cycles, and the younger one begins with its 256. At 64 both could go on."""
    kernel = Kernel(threads=512)
    kernel.work(64, warps=(0,), resource="other")
    kernel.t.node("test_two_pipes", (4,), attrs={"cycles": 64.0})
    kernel.work(256, warps=(8,), resource="lane")
    other = {"resources.other": {"scope": "subpartition", "rate_per_cycle": 1, "unit": "cycle"}}
    result = kernel.run(overrides=other, policy=policy, timeline_sm=0)
    done = [span["done"] >> 16 for span in sorted(result.timeline, key=lambda span: span["node"])]
    assert done == [64, first, second]


def test_an_asynchronous_unit_works_behind_the_warps_back() -> None:
    kernel = Kernel()
    kernel.work(300, type="test_unit")
    kernel.work(100, resource="lane")
    assert kernel.run().cycles == 300


def test_two_users_of_a_unit_interleave() -> None:
    kernel = Kernel()
    kernel.work(1024, warps=(0,), type="test_unit")
    kernel.work(128, warps=(1,), type="test_unit")
    result = kernel.run(timeline_sm=0)
    assert result.cycles == 1152
    assert min(span["done"] for span in result.timeline) >> 16 < 1024


@pytest.mark.parametrize(("slots", "latency", "service"), [(1, 100, 50), (2, 100, 50), (2, 20, 10), (3, 100, 50), (4, 400, 50)])
def test_a_ring_of_s_slots_repeats_every_max_of_service_and_round_trip_over_s(slots: int, latency: int, service: int) -> None:
    """Loads of latency L into a ring of S slots, read for `service` cycles each: interval max(service, (L + service) / S)."""
    trips = 60
    kernel = Kernel(threads=64)
    full, empty = kernel.b.barrier("full", [1] * slots), kernel.b.barrier("empty", [1] * slots)
    none = {
        "mbarrier.wait_cycles": 0,
        "mbarrier.arrive_cycles": 0,
        "mbarrier.arrive_visible_cycles": 0,
        "resources.issue.rate_per_cycle": 1000000,
    }
    for k in range(trips):
        slot, lap = k % slots, k // slots
        kernel.t.node("barrier_wait", [0], wait=(empty[slot], lap % 2 ^ 1))
        kernel.t.node(
            "test_unit",
            [0],
            attrs={"cycles": 0.0, "latency": float(latency), "resource": "lane"},
            tx=full[slot],
            arrive=[(full[slot], 1)],
        )
    for k in range(trips):
        slot, lap = k % slots, k // slots
        kernel.t.node("barrier_wait", [1], wait=(full[slot], lap % 2))
        kernel.t.node("test_sync_work", [1], attrs={"cycles": float(service)})
        kernel.t.node("barrier_arrive", [1], arrive=[(empty[slot], 1)])
    lap = max(slots * service, latency + service)
    assert kernel.run(overrides=none).cycles == pytest.approx((trips // slots - 1) * lap + latency + slots * service, rel=0.01)


@pytest.mark.parametrize("ctas", [1, 132, 133, 264, 265, 1000])
def test_waves_take_their_turn(ctas: int) -> None:
    kernel = Kernel(ctas=ctas, registers_per_thread=255, smem_bytes=200000)  # one CTA an SM
    kernel.work(500, type="test_sync_work")
    result = kernel.run(overrides={"launch.cta_gap_cycles": 30})
    waves = -(-ctas // 132)
    assert result.waves == waves
    assert result.cycles == 500 * waves + 30 * (waves - 1)


def test_launch_and_dispatch_come_before_the_first_cta() -> None:
    kernel = Kernel(ctas=132)
    kernel.work(100)
    result = kernel.run(overrides={"launch.kernel_us": 1.0, "launch.cta_dispatch_cycles": 2}, clock_mhz=1000)
    assert result.cycles == 1000 + 131 * 2 + 100


def test_a_barrier_waits_for_the_last_warp() -> None:
    kernel = Kernel(threads=64)
    kernel.work(100, warps=(0,), resource="lane")
    kernel.work(300, warps=(1,), resource="lane")
    kernel.t.node("cta_sync", [0, 1])
    kernel.work(50, warps=(0,), resource="lane")
    result = kernel.run(overrides={"sync.base_cycles": 20, "sync.per_warp_cycles": 2})
    assert result.cycles == 300 + 1 + 24 + 50  # each warp issues the barrier in one cycle


def test_the_same_input_gives_the_same_output() -> None:
    def once() -> dict[str, object]:
        kernel = Kernel(ctas=300, threads=256)
        for w in range(8):
            kernel.work(100 + 7 * w, warps=(w,), latency=11.0)
        out = kernel.run().to_dict()
        del out["seconds"]
        return out

    assert once() == once()


def test_a_circle_is_refused_before_it_runs() -> None:
    kernel = Kernel()
    kernel.work(1)
    kernel.work(1)
    nx_graph = to_networkx(kernel.graph())
    nx_graph.add_edge(1, 0, kind="COMPLETE")
    with pytest.raises(SimulationError, match="wait for each other in a circle"):
        simulate(from_networkx(nx_graph), "h100_sxm", overrides=PLAIN)


def test_time_waiting_is_told_apart() -> None:
    kernel = Kernel(threads=64)
    ready = kernel.b.barrier("ready", [32])
    kernel.work(400, warps=(0,), role="first")
    kernel.t.node("barrier_arrive", [0], arrive=[(ready[0], 32)], role="first")
    kernel.t.node("barrier_wait", [1], wait=(ready[0], 0), attrs={"barrier": "ready[0]"}, role="second")
    kernel.work(100, warps=(1,), role="second")
    roles = {r.role: r for r in kernel.run().roles}
    assert roles["second"].waits["barrier ready"] == pytest.approx(0.75, abs=0.05)
    assert sum(roles["second"].waits.values()) + roles["second"].working == pytest.approx(1.0, abs=0.01)
