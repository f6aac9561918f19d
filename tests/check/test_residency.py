"""Register pools and occupancy hints that cannot be met."""

from __future__ import annotations

import dataclasses

import pytest
from gtsim.backend import limits
from gtsim.graph import Finding, TileGraphBuilder, check
from gtsim.hwconfigs import load_hardware

import gtsim


def roles(
    counts: list[int], launch: int, *, hint: int = 0, late: bool = False, smem: int = 0, warps: int = 4
) -> TileGraphBuilder:
    """Warpgroup i asks for counts[i] registers a thread. `late`: the first one gives its registers up only when the others have
    signalled it. `warps`: warps of the first warpgroup that execute its decrease."""
    b = TileGraphBuilder(
        "roles", grid=(264, 1, 1), threads=128 * len(counts), registers_per_thread=launch, arch="sm_90a", smem_bytes=smem
    )
    go = b.barrier("go", [128 * (len(counts) - 1)])
    t = b.template("class 0")
    if late:
        t.node("barrier_wait", range(4), wait=(go[0], 0), source="wait(go)", role="producer")
    for i, n in enumerate(counts):
        role = f"consumer {i - 1}" if i else "producer"
        t.node(
            "setmaxnreg",
            range(4 * i, 4 * i + (4 if i else warps)),
            attrs={"registers": n, "increase": n > launch},
            source=f"set_max_nreg({n})",
            role=role,
        )
        if i:
            t.node("barrier_arrive", range(4 * i, 4 * i + 4), arrive=[(go[0], 128)], source="arrive(go)", role=role)
    if hint:
        b.meta["min_blocks_per_sm"] = hint
    b.add_instances(t, [(i, 0, 0) for i in range(264)])
    return b


def errors(builder: TileGraphBuilder) -> tuple[Finding, ...]:
    return gtsim.check(builder).errors


@pytest.mark.parametrize(
    ("counts", "launch"),
    [
        ([24, 240, 240], 168),
        ([24, 232, 232], 168),
        ([40, 232, 232], 168),
        ([24, 240], 168),
        ([24, 160, 160, 160], 128),
        ([24, 24, 224, 224], 128),
    ],
)
def test_pools_that_add_up_pass(counts: list[int], launch: int) -> None:
    assert errors(roles(counts, launch)) == ()


@pytest.mark.parametrize(
    ("counts", "launch", "short"),
    [
        ([24, 232, 232], 160, 8),  # 488 of 480: one consumer gets its 72, the other finds 64
        ([24, 232, 232], 122, 12),  # what ptxas chose without launch bounds: 98 are freed, 110 are needed
        ([24, 240, 240, 240], 128, 8),  # a third consumer: 104 are freed, 112 are needed
        ([168, 232, 232], 168, 64),  # nobody gives any up
    ],
)
def test_pools_that_do_not_are_short_by_so_much(counts: list[int], launch: int, short: int) -> None:
    """NVIDIA/cutlass#2007: the increase never returns."""
    found = [f for f in errors(roles(counts, launch)) if f.kind == "residency"]
    assert len(found) == 1 and "waits for ever at set_max_nreg(2" in found[0].text
    assert found[0].details["pool"] == 128 * launch * len(counts) and found[0].details["wanted"] == 128 * sum(counts)
    assert found[0].details["over"] == 128 * short


def test_registers_given_up_too_late_do_not_help() -> None:
    """24 + 232 + 232 fits 3 x 168, but the producer waits for the consumers first."""
    (finding,) = errors(roles([24, 232, 232], 168, late=True))
    assert finding.kind == "residency"
    assert finding.text.startswith(
        "consumer 0 waits for ever at set_max_nreg(232): it needs 8192 more registers, the other "
        "warpgroups have freed 0; the pool is 3 x 168 = 504"
    )


def test_a_decrease_by_one_warp_is_illegal() -> None:
    found = errors(roles([24, 232, 232], 168, warps=1))
    assert found[0].kind == "illegal" and "producer is only 1 of 4" in found[0].text


def test_an_occupancy_hint_shrinks_the_pool() -> None:
    """tile-ai/tilelang#2559: two CTAs an SM leave 80 registers a thread at launch, and 24/240/240 never start."""
    assert errors(roles([24, 240, 240], 168, hint=1)) == ()
    (finding,) = errors(roles([24, 240, 240], 168, hint=2))
    assert finding.kind == "residency"
    assert "the pool is 3 x 80 = 240 a thread of each warpgroup (2 CTAs an SM, as the kernel asks, leave no more)" in finding.text
    assert "24 + 240 + 240 = 504" in finding.text


def test_an_occupancy_hint_that_shared_memory_denies() -> None:
    (finding,) = errors(_plain(2, 120_000))
    assert finding.kind == "residency" and finding.details["over"] == 2 * (120_000 + 1024) - 233472
    assert errors(_plain(2, 100_000)) == ()


def test_an_occupancy_hint_that_spills_is_a_warning() -> None:
    report = gtsim.check(_plain(4, 1024, registers=200))
    assert report.ok and [f.kind for f in report.warnings] == ["spill"]
    assert report.warnings[0].details["registers"] == 64


def _plain(hint: int, smem: int, registers: int = 64) -> TileGraphBuilder:
    b = TileGraphBuilder("plain", grid=(132, 1, 1), threads=256, registers_per_thread=registers, smem_bytes=smem, arch="sm_90a")
    f = b.buffer("f", (256,), "float32", scope="fragment")
    t = b.template()
    t.node("fill", range(8), writes=[f.tile()], attrs={"elements": 256})
    b.add_instances(t, [(i, 0, 0) for i in range(132)])
    b.meta["min_blocks_per_sm"] = hint
    return b


@pytest.mark.parametrize("n", [20, 36, 264])
def test_register_counts_that_do_not_exist(n: int) -> None:
    assert any(f.kind == "illegal" and f"setmaxnreg {n}" in f.text for f in errors(roles([n, 168], 168)))


def in_clusters(size: int, threads: int = 128, smem_bytes: int = 0) -> TileGraphBuilder:
    b = TileGraphBuilder("cluster", grid=(2 * size, 1, 1), cluster=(size, 1, 1), threads=threads, smem_bytes=smem_bytes,
                         arch="sm_90a")
    t = b.template()
    for cta in range(size):
        t.node("control", [0], cta=cta)
    b.add_instances(t, [(0, 0, 0), (size, 0, 0)])
    return b


def clusters_of(size: int, gpc_sms: tuple[int, ...]) -> list[str]:
    base = limits(load_hardware("h200_sxm"))
    target = dataclasses.replace(base, gpc_sms=gpc_sms, sms=sum(gpc_sms))
    graph = in_clusters(size, smem_bytes=150000).build(check=False)
    return [f.text for f in check(graph, target) if f.kind == "residency"]


def test_a_cluster_that_no_gpc_can_hold() -> None:
    assert clusters_of(8, (4, 8)) == []
    (text,) = clusters_of(8, (4, 7))
    assert "a cluster of 8 CTAs runs within one GPC, and the largest of h200_sxm holds 7 of them (7 SMs with 1 each" in text


def test_a_cluster_larger_than_the_target_allows() -> None:
    (text,) = clusters_of(32, (32, 32))
    assert text == "a cluster of 32 CTAs; h200_sxm allows 16"


def test_a_register_pool_is_that_of_one_cta() -> None:
    """What one CTA of a cluster frees does not help the other."""
    for helper, fine in ((0, True), (1, False)):
        b = TileGraphBuilder("pool", grid=(2, 1, 1), cluster=(2, 1, 1), threads=256, registers_per_thread=168, arch="sm_90a")
        t = b.template()
        t.node("setmaxnreg", range(4), attrs={"registers": 40}, cta=helper)
        t.node("setmaxnreg", range(4, 8), attrs={"registers": 240}, cta=0)
        b.add_instances(t, [(0, 0, 0)])
        found = [f for f in check(b.build(check=False), limits(load_hardware("h200_sxm"))) if f.kind == "residency"]
        assert (found == []) == fine


def test_the_frontend_applies_the_hint() -> None:
    """`T.annotate_min_blocks_per_sm(4)`: 65536 registers for 4 x 256 threads leave 64 a thread; the accumulator wants more."""
    pytest.importorskip("tilelang")
    import tilelang.language as T

    def hinted(hint: int) -> object:
        @T.prim_func
        def twice(X: T.Tensor((1024, 256), "float32"), Y: T.Tensor((1024, 256), "float32")):
            with T.Kernel(8, threads=256) as bx:
                if hint:
                    T.annotate_min_blocks_per_sm(hint)
                f = T.alloc_fragment((128, 256), "float32")
                T.copy(X[bx * 128, 0], f)
                for i, j in T.Parallel(128, 256):
                    f[i, j] = f[i, j] * 2.0
                T.copy(f, Y[bx * 128, 0])

        return twice

    plain, capped = gtsim.lower(hinted, (0,)), gtsim.lower(hinted, (4,))
    assert plain.launch.registers_per_thread > 128 and "min_blocks_per_sm" not in plain.meta
    assert (capped.launch.registers_per_thread, capped.meta["min_blocks_per_sm"]) == (64, 4)
    assert capped.meta["registers_wanted"] == plain.launch.registers_per_thread
    (spill,) = (f for f in gtsim.check(hinted, (4,)).warnings if f.kind == "spill")
    assert f"4 CTAs an SM leave 64 registers a thread, the kernel needs about {plain.launch.registers_per_thread}" in spill.text
    assert (gtsim.simulate(plain).result.ctas_per_sm, gtsim.simulate(capped).result.ctas_per_sm) == (1, 4)
