"""Kernels in clusters become templates of all their CTAs."""

import pytest
from gtsim.backend import simulate
from gtsim.frontend import FrontendError, lower

SM90 = "sm_90a"


def types(graph, cta):
    t = graph.templates[0]
    return [n.type for n in graph.nodes_of(t) if n.cta == cta]


def test_a_barrier_of_the_cluster_is_met_by_every_rank(graph, view):
    g = graph("clusters.barrier_only", SM90, size=4)
    assert (g.launch.cluster, g.launch.grid, len(g.instances)) == ((4, 1, 1), (4, 1, 1), 1)
    v = view(g)
    for wait in v.of("cluster_wait"):
        assert {n.cta for n in v.sources(wait) if n.type == "cluster_arrive"} == {0, 1, 2, 3}
    assert simulate(g, "h200_sxm").ctas == 4


def test_a_launch_with_clusters_needs_nothing_across_them(graph, view):
    g = graph("clusters.apart", SM90, blocks=8)
    assert len(g.instances) == 4 and g.instances.block.tolist() == [[0, 0, 0], [2, 0, 0], [4, 0, 0], [6, 0, 0]]
    v = view(g)
    assert all(n.cta == s.cta for n in v.nodes for s in v.sources(n))
    loads = v.of("global_load")
    assert [(n.cta, n.reads[0].offset[0]) for n in loads] == [(0, 0), (1, 1)]  # rank 1 is the next block
    assert len({n.reads[0].column[0] for n in loads}) == 1  # and moves with the cluster as rank 0 does
    assert simulate(g, "h200_sxm").ctas == 8


@pytest.mark.parametrize(
    ("kwargs", "expected", "copies"),
    [
        ({}, "dsmem_copy", 1),
        ({"part": 64}, "dsmem_copy", 8),  # one a row of 64 of 128 elements
        ({"part": 63}, "dsmem_store", None),  # rows of 252 bytes are no bulk copy
        ({"barrier": False}, "dsmem_store", None),
    ],
)
def test_a_push_is_a_bulk_copy_or_stores_of_all_threads(graph, view, kwargs, expected, copies):
    v = view(graph("clusters.push", SM90, **kwargs))
    (push,) = v.of("dsmem_copy", "dsmem_store")
    assert (push.type, push.cta, push.attrs.get("copies")) == (expected, 0, copies)
    (target,) = push.writes
    assert target.cta == 1 and push.scope_of(target) == "remote_shared"
    reader = next(n for n in v.nodes if n.cta == 1 and any(t.buffer.name == "d" for t in n.reads))
    assert push in v.sources(reader)
    assert not v.graph.warnings
    if kwargs.get("barrier", True):
        (wait,) = v.of("barrier_wait")
        arrivals = v.sources(wait)
        assert wait.cta == 1 and any(n.type in ("dsmem_copy", "barrier_arrive") and n.cta == 0 for n in arrivals)
    assert simulate(v.graph, "h200_sxm").utilization["sm_to_sm_out"] > 0


@pytest.mark.parametrize("barrier", [True, False])
def test_a_push_that_nobody_waits_for_is_a_race(graph, barrier):
    (text,) = graph("clusters.push", SM90, barrier=barrier, wait=False).warnings
    assert "race" in text and "of CTA 1" in text and "CTA 0's" in text


def test_every_rank_gives_its_part_to_rank_0(graph, view):
    v = view(graph("clusters.reduction", SM90))
    stores = v.of("dsmem_store")
    assert [(n.cta, n.writes[0].cta, n.writes[0].offset[0]) for n in stores] == [(r, 0, r) for r in range(4)]
    (total,) = [n for n in v.of("shared_load") if any(t.buffer.name == "parts" for t in n.reads)]
    assert total.cta == 0 and {n.cta for n in v.sources(total) if n.type == "dsmem_store"} == {0, 1, 2, 3}
    assert not v.graph.warnings


def test_a_relaxed_arrival_behind_stores_is_a_race(graph):
    (text,) = graph("clusters.reduction", SM90, relaxed=True).warnings
    assert "dsmem_store" in text and "race" in text


def test_the_lowest_rank_of_a_mask_loads_for_the_others(graph, view):
    v = view(graph("clusters.multicast", SM90, mask=0b0110))
    loads = {n.cta: n for n in v.of("tma_load")}
    assert sorted(loads) == [0, 1, 3]  # 0 and 3 are not in the mask
    assert (loads[1].attrs["multicast"], {t.cta for t in loads[1].writes}) == (0b0110, {1, 2})
    assert "multicast" not in loads[0].attrs
    (expects,) = v.of("barrier_arrive")
    assert (expects.cta, expects.attrs["expect_bytes"]) == (2, 128 * 64 * 2)
    for wait in v.of("barrier_wait"):
        assert {n.cta for n in v.sources(wait) if n.type == "tma_load"} == {1 if wait.cta == 2 else wait.cta}


def test_half_the_reads_of_a_shared_operand_disappear(graph):
    """Tiles of 16 KiB each: 128 of X alone, 96 where two of four CTAs share theirs."""
    traffic = [simulate(graph("clusters.multicast", SM90, mask=m), "h200_sxm").traffic for m in (0b0001, 0b0011)]
    tile = 128 * 64 * 2
    assert [t.l2_read_bytes for t in traffic] == [64 * tile, 48 * tile]


@pytest.mark.parametrize("size", [2, 4])
def test_loops_of_a_cluster_repeat_as_those_of_a_cta_do(graph, size):
    """One period of all ranks is stored; written out, the kernel takes the same time."""
    g = graph("clusters.ring", SM90, size=size)
    (t,) = g.templates
    assert len(t.repeat_first) == 1 and t.nodes < 50 * size
    folded, flat = (simulate(x, "h200_sxm") for x in (g, g.unrolled()))
    assert (folded.cycles, folded.events, folded.traffic) == (flat.cycles, flat.events, flat.traffic)
    assert folded.graph["executed_nodes"] == flat.graph["executed_nodes"] > 24 * 8 * 4
    assert not g.warnings


def test_ranks_count_x_first_and_a_cluster_is_a_box_of_blocks(graph, view):
    g = graph("clusters.plane", SM90)
    assert g.instances.block[:5].tolist() == [[0, 0, 0], [2, 0, 0], [4, 0, 0], [6, 0, 0], [0, 2, 0]]
    v = view(g)
    assert [(n.cta, n.reads[0].offset[:2]) for n in v.of("global_load")] == [(0, (0, 0)), (1, (0, 1)), (2, (1, 0)), (3, (1, 1))]
    assert [n.cta for n in v.of("global_store")] == [3]


def test_a_block_swizzle_moves_whole_clusters(graph):
    """A panel of 4 blocks is one of 2 clusters: down two rows, then to the right."""
    blocks = graph("clusters.plane", SM90, swizzle=4).instances.block[:6, :2].tolist()
    assert blocks == [[0, 0], [0, 1], [2, 0], [2, 1], [4, 0], [4, 1]]


def test_a_pipeline_that_gives_slots_back_to_its_own_producer_only_is_a_race(graph):
    """TileLang's automatic roles: CTA 0's producer fills slots of CTA 1 without asking the consumer there."""
    (text,) = graph("clusters.pipelined", SM90).warnings
    assert "CTA 0's producer" in text and "overwrites 'a' of CTA 1 while CTA 1's consumer" in text


def test_the_example_orders_its_ring_across_the_ctas(kernels):
    from pathlib import Path

    from gtsim.kernel_file import load_kernel

    _, gemm = load_kernel(str(Path(__file__).resolve().parents[2] / "examples" / "gemm_cluster.py"))
    g = lower(gemm(M=512, N=1024, K=512), arch=SM90)
    assert not g.warnings and len(g.instances) == 16
    result = simulate(g, "h200_sxm")
    loads = {o.source: o.executions for o in result.operations if o.type == "tma_load"}
    assert loads == {"copy(A -> a_s)": 16 * 8, "copy(B -> b_s)": 32 * 8}
    assert result.traffic.l2_read_bytes == (16 + 32) * 8 * 128 * 64 * 2
    assert result.flops == 2 * 512 * 1024 * 512
    by_line = simulate(g, "h200_sxm", fidelity="line")
    # queues at single slices and banks exist in `line` only
    assert by_line.cycles == pytest.approx(result.cycles, rel=0.05) and by_line.traffic == result.traffic


def test_whole_periods_of_clusters_are_left_out(kernels):
    from pathlib import Path

    from gtsim.kernel_file import load_kernel

    _, gemm = load_kernel(str(Path(__file__).resolve().parents[2] / "examples" / "gemm_cluster.py"))
    g = lower(gemm(M=8192, N=8192, K=512), arch=SM90)
    fast, bulk = (simulate(g, "h200_sxm", fidelity=f) for f in ("fast", "bulk"))
    assert fast.cycles == pytest.approx(bulk.cycles, rel=0.005) and fast.skipped["ctas"] > 0


@pytest.mark.parametrize(
    ("kernel", "kwargs", "text"),
    [
        ("clusters.barrier_only", {"blocks": 5}, r"5 blocks in x are not a whole number of clusters of 2.*multiple of 2"),
        ("clusters.multicast", {"mask": 0b111, "size": 2}, r"0b111 names CTAs beyond the 2 of the cluster"),
        ("clusters.signals_cluster_barrier", {}, r"'bar', a cluster barrier.*T.alloc_barrier"),
    ],
)
def test_what_cannot_work_is_named(kernels, kernel, kwargs, text):
    with pytest.raises(FrontendError, match=text):
        lower(kernels(kernel)(**kwargs), arch=SM90)


def test_clusters_need_hopper(kernels):
    with pytest.raises(FrontendError, match="clusters do not exist on sm_80"):
        lower(kernels("clusters.apart")(), arch="sm_80")
