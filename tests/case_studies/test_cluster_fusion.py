"""The attention block of a decoded token: what its exchanges move, and how the ways compare."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from gtsim.backend import Result, simulate

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "case_studies"))

from cluster_fusion import CHIPS, cycles, network  # noqa: E402
from fused_decode import EXCHANGES, Shape, graphs  # noqa: E402

ONE = CHIPS["one GPC of 16 SMs"]
#: Floats that a CTA has after each stage, with 4 CTAs a head: a sum, its part of q, k and v, a maximum, a sum, an output.
LENGTHS = (1, 3 * 128 // 4, 1, 1, 128)


def block(exchange: str, size: int = 4, ahead: bool = False) -> list[Result]:
    return [simulate(g, "h100_sxm", overrides=ONE) for g in graphs(Shape(size, 1024, heads=16 // size), exchange, ahead=ahead)]


@pytest.mark.parametrize("exchange", ["mbarrier", "dsmem"])
def test_every_result_goes_to_all_others(exchange: str) -> None:
    (result,) = block(exchange)
    assert result.network.bytes == 4 * 4 * 3 * sum(LENGTHS) * 4  # heads, senders, receivers, floats


def test_a_tree_sends_a_sum_once_a_round_and_gathers_twice_as_much_each_time() -> None:
    (result,) = block("tree")
    sums = 2 * (sum(LENGTHS) - LENGTHS[1])
    assert result.network.bytes == 4 * 4 * (sums + 3 * LENGTHS[1]) * 4


def test_through_memory_only_barriers_cross_the_network() -> None:
    (result,) = block("memory")
    assert result.network.bytes == 0
    assert result.network.requests == 4 * 5 * 4 * 3  # five barriers of four clusters: each CTA signals three others


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_every_way_reads_the_weights_and_the_cache_once(exchange: str) -> None:
    weights = 4 * 128 * (4 * 4096 + 2 * 1024) * 2  # heads; rows of 128 of q, k, v, o and of both caches; bytes
    read = sum(r.traffic.dram_read_bytes for r in block(exchange))
    assert weights <= read < 1.01 * weights


def test_loading_ahead_is_no_slower() -> None:
    for exchange in ("mbarrier", "memory"):
        assert block(exchange, ahead=True)[0].cycles < block(exchange)[0].cycles


def test_kernels_lose_most_with_large_clusters() -> None:
    def loss(size: int) -> float:
        shape = Shape(size, 1024, heads=16 // size)
        five, one = cycles(shape, ("kernels", True), ONE), cycles(shape, ("mbarrier", True), ONE)
        assert five is not None and one is not None
        return five / one

    found = [loss(size) for size in (2, 8, 16)]
    assert 1 < found[0] < found[1] < found[2]


def test_a_grid_barrier_needs_all_ctas_at_once() -> None:
    assert cycles(Shape(16, 1024, heads=2), ("grid", True), ONE) is None


def test_topology_helps_small_clusters_most() -> None:
    gains = []
    for size in (2, 4, 8):
        found = {name: r.network.residence_cycles for name, r in network(size, "mbarrier", 1024).items()}
        gains.append(found["naive"] / found["topology"])
        assert found["crossbar"] == pytest.approx(80.5)
    assert gains[0] > gains[1] > gains[2] > 1
