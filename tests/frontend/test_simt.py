"""CUDA-core kernels: operation counts, access widths, reductions, classes of blocks."""

import pytest


def test_multiply_add_is_one_fused_operation(graph, view):
    node = view(graph("pointwise.scale_add", "sm_90a")).of("elementwise")[0]
    assert (node.attrs["fma"], node.attrs["alu"], node.attrs["elements"], node.attrs["depth"]) == (1.0, 1.0, 16 * 256, 2)


def test_coalesced_accesses_are_sixteen_bytes_a_thread(graph, view):
    v = view(graph("pointwise.scale_add", "sm_90a"))
    assert [n.type for n in v.nodes] == ["global_load", "global_load", "elementwise", "global_store"]
    for n in v.of("global_load", "global_store"):
        assert (n.attrs["access_bytes"], n.attrs["row_bytes"]) == (16, 512)


def test_two_warpgroups_split_the_rows(graph, view):
    loads = view(graph("pointwise.scale_add", "sm_90a", threads=256)).of("global_load")
    assert {(n.warps[0], n.reads[0].offset[0], n.reads[0].extent[0]) for n in loads} == {(0, 0, 8), (4, 8, 8)}


def test_a_thread_that_reads_back_what_it_wrote_needs_no_barrier(graph, view):
    assert view(graph("pointwise.scale_add", "sm_80", via_shared=True)).of("cta_sync") == []


def test_a_row_over_four_warps_is_combined_through_shared_memory_twice(graph, view):
    v = view(graph("pointwise.row_norm", "sm_90a"))
    reduce = v.of("reduce")[0]
    assert reduce.attrs["shuffle_steps"] == 5
    tail = [n.type for n in v.nodes[reduce.index + 1:]][:8]
    assert tail == ["cta_sync", "shared_store", "cta_sync", "shared_load"] * 2
    assert graph("pointwise.row_norm", "sm_90a").launch.smem_bytes == 128 * 4


@pytest.mark.parametrize("threads,rounds", [(32, 0), (64, 1), (128, 2), (256, 3)])
def test_exchange_rounds_follow_the_warps_of_a_row(graph, view, threads, rounds):
    assert len(view(graph("pointwise.row_norm", "sm_90a", threads=threads)).of("cta_sync")) == 2 * rounds


def test_a_trip_count_that_depends_on_the_block_splits_the_blocks(graph):
    g = graph("pointwise.tail_guard", "sm_90a").unrolled()
    assert len(g.templates) == 4
    assert [t.nodes for t in g.templates] == [3 * n for n in (5, 6, 7, 8)]  # control, load, store
