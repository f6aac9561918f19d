"""Demands of the built-in node types, and errors for what a GPU cannot do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from gtsim.backend import SimulationError, occupancy, simulate
from gtsim.backend.demand import demand_of
from gtsim.graph import Buffer, KernelGraph, Node, Tile, node_types, nodes
from gtsim.hwconfigs import load_hardware

from .kernels import Kernel, gemm

HW = load_hardware("h100_sxm")
BUILT_IN = sorted(
    name for file in Path(nodes.__path__[0]).glob("*.py") for name in re.findall(r'NodeType\(\s*"(\w+)"', file.read_text())
)


def wgmma(n: int, *, register_a: bool = False, dtype: str = "float16", k: int = 16, count: int = 64, **more: object) -> int:
    """Cycles of `count` back-to-back instructions m64nNk16, without set-up and tail."""
    kernel = Kernel()
    kernel.t.node(
        "wgmma",
        range(4),
        attrs={
            "m": 64,
            "n": n,
            "k": k * count,
            "dtype": dtype,
            "instruction": f"m64n{n}k{k}",
            "instructions": count,
            "a_register": register_a,
            "setup": False,
            **more,
        },
    )
    none = {
        "wgmma.issue_cycles": 0,
        "wgmma.issue_rs_cycles": 0,
        "wgmma.tail_cycles": 0,
        "wgmma.tail_rs_cycles": 0,
        "resources.issue.rate_per_cycle": 1000000,
    }
    return kernel.run(overrides=none).cycles


@pytest.mark.parametrize("n", [64, 128, 192, 256])
def test_wgmma_interval_is_half_of_n(n: int) -> None:
    assert wgmma(n) == pytest.approx(64 * n / 2, rel=0.03)


@pytest.mark.parametrize("n", [8, 16, 32])
def test_wgmma_from_shared_memory_is_bound_by_operand_fetch_at_small_n(n: int) -> None:
    assert wgmma(n) == pytest.approx(64 * (16 + n / 4), rel=0.03)
    assert wgmma(n, register_a=True) == pytest.approx(64 * n / 2, rel=0.03)


@pytest.mark.parametrize("behind", [0, 1, 3])
def test_a_product_does_not_wait_for_those_issued_behind_it(behind: int) -> None:
    """wgmma of one warpgroup are executed in order: what comes later takes none of the pieces of 256 cycles in between."""
    kernel = Kernel(threads=256)
    tiles = [kernel.b.buffer(f"o{i}", (64, 128), "float32", scope="fragment").tile() for i in range(2 + behind)]
    attrs = {"m": 64, "n": 128, "k": 128, "dtype": "float16", "instruction": "m64n128k16", "instructions": 8, "a_register": True}
    for i, tile in enumerate(tiles):
        kernel.t.node("wgmma", range(4) if i == 0 else range(4, 8), writes=[tile], attrs=attrs)
    kernel.t.node("test_work", range(4, 8), reads=[tiles[1]], attrs={"cycles": 4000.0})
    overrides = {"wgmma.setup_cycles": 0, "wgmma.issue_rs_cycles": 0, "wgmma.tail_rs_cycles": 0, "chip.sm_count": 1,
                 "chip.gpc_sms": [1]}
    assert kernel.run(overrides=overrides).cycles == pytest.approx(2 * 512 + 4000, abs=30)


def test_tensor_cores_start_with_the_first_wgmma_of_a_group() -> None:
    kernel = Kernel()
    attrs = {"m": 64, "n": 256, "k": 16 * 64, "dtype": "float16", "instruction": "m64n256k16", "instructions": 64, "setup": False}
    kernel.t.node("wgmma", range(4), attrs=attrs)
    run = kernel.run(overrides={"wgmma.issue_cycles": 0, "wgmma.tail_cycles": 0, "chip.sm_count": 1, "chip.gpc_sms": [1]})
    assert run.cycles == pytest.approx(64 * 128 + 5, abs=1)  # 4 instructions around the group, and the first one of it
    assert run.utilization["issue"] * run.cycles == pytest.approx(64 + 4, abs=0.1)  # the others take their slots meanwhile


def test_fp8_takes_twice_the_depth_in_the_same_time() -> None:
    assert wgmma(128, dtype="float8_e4m3fn", k=32) == wgmma(128)


def test_a_sparse_wgmma_takes_the_time_of_half_its_depth_or_of_all_of_b() -> None:
    assert wgmma(128, register_a=True, k=32, sparse=True) == pytest.approx(64 * 128 * 64 / 128, rel=0.03)  # B: 64 bytes a column
    assert wgmma(128, k=32, sparse=True) == pytest.approx(64 * (64 * 32 + 128 * 64) / 128, rel=0.03)


def mma(dtype: str, k: int, hw: str, **more: object) -> int:
    """Cycles of 256 instructions m16n8kK a warp."""
    kernel = Kernel()
    shape = {"m": 64, "n": 128, "k": 16 * k, "dtype": dtype, "instruction": f"m16n8k{k}", "instructions": 256}
    kernel.t.node("mma", range(4), attrs={**shape, **more})
    return kernel.run(overrides={"mma.latency_cycles": 0}, hw=hw).cycles


def test_four_bits_go_four_times_as_deep_as_sixteen_on_a100() -> None:
    assert mma("int4", 64, "a100_sxm") == mma("float16", 16, "a100_sxm")


def test_a_sparse_mma_goes_twice_as_deep_as_a_dense_one() -> None:
    assert mma("float16", 32, "a100_sxm", sparse=True) == mma("float16", 16, "a100_sxm")


def test_mma_sync_runs_at_its_measured_interval() -> None:
    kernel = Kernel()
    kernel.t.node(
        "mma", range(4), attrs={"m": 64, "n": 128, "k": 256, "dtype": "float16", "instruction": "m16n8k16", "instructions": 256}
    )
    assert kernel.run(overrides={"mma.latency_cycles": 0}).cycles == pytest.approx(
        256 * HW.mma.interval_m16n8k16_cycles, rel=0.01
    )


def test_elementwise_work_is_bound_by_its_slowest_pipe() -> None:
    def cycles(**ops: float) -> int:
        kernel = Kernel()
        kernel.t.node("elementwise", range(4), attrs={"elements": 16384, "depth": 0, **ops})
        return kernel.run().cycles

    assert cycles(fma=1.0) == pytest.approx(16384 / 128, rel=0.02)
    assert cycles(sfu=1.0) == pytest.approx(16384 / 16 + HW.control.sfu_latency_cycles, rel=0.02)
    assert cycles(fma=2.0, sfu=1.0) == pytest.approx(16384 / 16 + HW.control.sfu_latency_cycles, rel=0.02)
    assert cycles(fma=3.0, alu=1.0) == pytest.approx(4 * 16384 / 128, rel=0.02)  # bound by issue


@pytest.mark.parametrize(
    ("hw", "fma", "fp64", "alu", "sfu", "cvt"), [("a100_sxm", 64, 32, 64, 16, 64), ("h100_sxm", 128, 64, 64, 16, 64)]
)
def test_pipes_are_as_wide_as_published(hw: str, fma: int, fp64: int, alu: int, sfu: int, cvt: int) -> None:
    """Lanes an SM and cycle: NVIDIA's whitepapers and the throughput table of the CUDA guides (docs/hardware.md)."""
    for pipe, lanes in {"fma": fma, "fp64": fp64, "alu": alu, "int": alu, "sfu": sfu, "cvt": cvt}.items():
        kernel = Kernel()
        kernel.t.node("elementwise", range(4), attrs={"elements": 1 << 20, "depth": 0, pipe: 1.0})
        assert kernel.run(hw=hw).cycles == pytest.approx((1 << 20) / lanes, rel=0.01), pipe


def test_loads_of_the_same_elements_are_issued_for_every_lane() -> None:
    """32 words for 64 lanes each, 4 bytes a lane: 64 instructions instead of one, of which 63 find them in the L1."""
    tile = Tile(Buffer("w", "global", "float32", (32,)), "read", (0,), (32,), (-1,), 0)

    def uses(**attrs: object) -> dict[str, float]:
        node = Node(0, "global_load", (0,), 0, True, {"access_bytes": 4, **attrs}, "", "", "", (tile,))
        return dict(demand_of(node, HW).stages[0].uses)

    assert uses() == {"issue": 1.0}
    assert uses(copies=64.0) == {"issue": 64.0, "lsu": 63.0, "smem": 63.0 * 128}
    assert uses(copies=64.0, lines=4) == uses(copies=64.0)  # four sectors a wavefront
    assert uses(copies=64.0, lines=8) == {"issue": 64.0, "lsu": 126.0, "smem": 126.0 * 128}


def test_loads_that_wait_for_each_other_take_a_hit_in_l1_each() -> None:
    """A load a branch: what hits in L1, or misses for the first word of each sector, one after the other."""
    tile = Tile(Buffer("w", "global", "float32", (32,)), "read", (0,), (32,), (-1,), 0)

    def later(**attrs: object) -> float:
        node = Node(0, "global_load", (0,), 0, True, {"access_bytes": 4, **attrs}, "", "", "", (tile,))
        return demand_of(node, HW).stages[1].latency_cycles

    near, hit = HW.l2.latency_near_cycles, HW.l1.latency_cycles
    step = HW.control.int_op_cycles + 2 * HW.control.alu_latency_cycles
    assert later() == 0 == later(rounds=1)
    assert later(rounds=11) == pytest.approx(10 * (near + step))  # whole sectors: each is new
    assert later(rounds=11, row_bytes=4) == pytest.approx(10 * (hit + (near - hit) / 8 + step))


def test_loads_into_registers_pass_the_memory_that_is_shared_memory_and_l1() -> None:
    """128 KB of a tensor in the L2: into the array and out of it again at 128 bytes a cycle, more than the port's 64."""
    kernel = Kernel()
    x = kernel.b.tensor("x", (256, 256), "float16")
    f = kernel.b.buffer("f", (256, 256), "float16", scope="fragment")
    kernel.t.node("global_load", range(4), reads=[x.tile()], writes=[f.tile()], attrs={"access_bytes": 16})
    used = kernel.run().utilization
    assert used["smem"] == pytest.approx(used["l2_to_sm"])  # twice the bytes at twice the rate


def test_stores_behind_two_conditions_take_their_branches() -> None:
    tile = Tile(Buffer("w", "global", "float16", (8, 8)), "write", (0, 0), (8, 8), (-1, -1), 0)

    def held(**attrs: object) -> float:
        node = Node(0, "global_store", (0,), 0, True, {"access_bytes": 4, "row_bytes": 16, **attrs}, "", "", "", (tile,))
        return demand_of(node, HW).stages[0].hold_cycles

    assert held() == 0
    assert held(rounds=64) == pytest.approx(64 * (2 * HW.control.branch_cycles + 8 * HW.control.int_op_cycles)
                                             - 8 * (32 + HW.l2.write_header_bytes) / 32)


@pytest.mark.parametrize(("kind", "cycles"), [("warp", 3), ("cta", 7.5), ("gpu", 278), ("proxy_async", 32)])
def test_a_fence_holds_its_warps_for_its_scope(kind: str, cycles: float) -> None:
    kernel = Kernel()
    kernel.t.node("fence", [0], attrs={"kind": kind})
    kernel.work(10)
    assert kernel.run().cycles == int(1 + cycles + 10 + 0.5)  # one cycle to issue it


def test_an_unknown_fence_is_refused() -> None:
    kernel = Kernel()
    kernel.t.node("fence", [0], attrs={"kind": "world"})
    assert "kind 'world' is none of proxy_async, warp, cta, gpu" in refused(kernel.graph(), "h100_sxm")


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_node_type_has_a_demand_or_an_error_that_names_the_node(name: str) -> None:
    attrs = {
        "elements": 1,
        "queue": "wgmma",
        "pending": 0,
        "kind": "x",
        "registers": 24,
        "m": 64,
        "n": 64,
        "k": 16,
        "dtype": "float16",
        "instruction": "m64n64k16",
    }
    assert name in node_types()
    node = Node(0, name, (0,), 0, False, attrs, "", "", "", ())
    try:
        stages = demand_of(node, HW).stages
    except SimulationError as error:
        assert node.label() in str(error)
    else:
        assert all(stage.kind in ("warp", "unit", "memory") for stage in stages)


def refused(graph: KernelGraph, hw: str, **options: object) -> str:
    with pytest.raises(SimulationError) as info:
        simulate(graph, hw, **options)  # type: ignore[arg-type]
    return str(info.value)


def test_what_the_gpu_lacks_is_named() -> None:
    graph = gemm(128, 128, 64)
    assert "lowered for sm_90a, and a100_sxm is sm_80. Lower it again" in refused(graph, "a100_sxm")
    anywhere = replace(graph, launch=replace(graph.launch, arch=""))
    assert "a100_sxm has no TMA" in refused(anywhere, "a100_sxm")
    assert "no tensor-core rate for float4_e2m1fn" in refused(gemm(128, 128, 64, dtype="float4_e2m1fn"), "h100_sxm")


def test_an_unknown_resource_is_named_with_the_nearest() -> None:
    kernel = Kernel()
    kernel.work(1, resource="tensr")
    assert "has no resource 'tensr'. Did you mean 'tensor'?" in refused(kernel.graph(), "h100_sxm")


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ({"smem_bytes": 240000}, "needs 240000 bytes of shared memory, h100_sxm allows 232448 (7552 too many)"),
        ({"threads": 2048}, "needs 2048 threads, h100_sxm allows 1024"),
        ({"threads": 1024, "registers_per_thread": 128}, "needs 131072 registers, h100_sxm allows 65536"),
        ({"registers_per_thread": 300}, "needs 300 registers a thread, h100_sxm allows 255"),
    ],
)
def test_a_cta_that_does_not_fit_is_refused_with_the_numbers(launch: dict[str, int], message: str) -> None:
    kernel = Kernel(**launch)  # type: ignore[arg-type]
    kernel.work(1)
    assert message in refused(kernel.graph(), "h100_sxm")


@pytest.mark.parametrize(
    ("launch", "ctas", "limiter"),
    [
        ({"threads": 128, "registers_per_thread": 32}, 16, "threads"),
        ({"threads": 128, "registers_per_thread": 255}, 2, "registers"),
        ({"threads": 32, "registers_per_thread": 32}, 32, "CTA slots"),
        ({"threads": 128, "smem_bytes": 75000}, 3, "shared memory"),
    ],
)
def test_residency_follows_the_allocation_rules(launch: dict[str, int], ctas: int, limiter: str) -> None:
    kernel = Kernel(ctas=10000, **launch)  # type: ignore[arg-type]
    kernel.work(1)
    found = occupancy(kernel.graph(), HW)
    assert (found.ctas_per_sm, found.limiter) == (ctas, limiter)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fidelity": "fine"}, "unknown fidelity 'fine'"),
        ({"policy": "fifo"}, "unknown policy 'fifo'"),
        ({"clock_mhz": 5}, "clock_mhz=5 is not between"),
        ({"threads": 65}, "threads=65"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    assert message in refused(gemm(128, 128, 64), "h100_sxm", **options)
