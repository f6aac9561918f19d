"""Reducers, and reductions whose rows are spread over warps."""

import pytest


def test_each_iteration_of_the_loop_combines_once(graph, view):
    v = view(graph("rare.tallied", "sm_90a", rows=4, cols=512))
    update = next(n for n in v.of("elementwise"))
    assert (update.attrs["elements"], update.attrs["fma"]) == (4 * 512, 1.0)
    assert update.writes[0].buffer.name == "acc"


def test_a_maximum_is_no_addition(graph, view):
    v = view(graph("rare.tallied", "sm_90a", op="max"))
    update = v.of("elementwise")[0]
    assert update.attrs["alu"] == 1.0 and "fma" not in update.attrs
    assert v.of("reduce")[0].attrs["op"] == "max"


def test_all_threads_combine_each_output_by_shuffles(graph, view):
    node = view(graph("rare.tallied", "sm_90a", rows=4)).of("reduce")[0]
    assert (node.attrs["shuffle_steps"], node.attrs["elements"], node.attrs["results"]) == (5, 4 * 128, 4 * 4)
    assert (node.reads[0].buffer.name, node.writes[0].buffer.name) == ("acc", "total")


@pytest.mark.parametrize(("threads", "rounds"), [(32, 0), (64, 1), (128, 2), (256, 3)])
def test_outputs_cross_the_warps_one_after_the_other(graph, view, threads, rounds):
    g = graph("rare.tallied", "sm_90a", rows=4, threads=threads)
    parts = max(threads // 128, 1)
    kinds = [n.type for n in view(g).nodes]
    assert kinds.count("shared_store") == kinds.count("shared_load") == 4 * rounds * parts
    assert kinds.count("cta_sync") == (4 * (2 * rounds + 1) if rounds else 0)
    assert g.launch.smem_bytes == (4 * threads if rounds else 0)


def test_the_result_reaches_the_store(graph, view):
    v = view(graph("rare.tallied", "sm_90a"))
    store = v.of("global_store")[0]
    assert {n.source for n in v.sources(store)} == {"finalize_sum(acc -> total)"}


@pytest.mark.parametrize(("rows", "cols", "threads", "steps", "rounds"), [
    (128, 64, 128, 1, 2),  # 16 threads a row of 64: a warp holds two rows, four warps eight
    (128, 8, 128, 4, 2),  # two threads a row: 16 rows a warp
    (128, 128, 256, 0, 3)])  # a warp is one row
def test_a_column_is_combined_over_the_rows_of_a_warp_and_then_over_the_warps(graph, view, rows, cols, threads, steps, rounds):
    v = view(graph("rare.column_sums", "sm_90a", rows=rows, cols=cols, threads=threads))
    node = v.of("reduce")[0]
    assert node.attrs["shuffle_steps"] == steps
    stores = [n for n in v.of("shared_store") if n.source == node.source]
    assert len(stores) == 4 * rounds * max(threads // 128, 1)  # four columns a thread


def test_a_role_of_one_warp_needs_no_shared_memory_to_reduce(graph, view):
    g = graph("rare.one_warp_sums", "sm_90a")
    assert view(g).of("reduce")[0].attrs["shuffle_steps"] == 5
    assert g.launch.smem_bytes == 512 * 4  # the tile alone
