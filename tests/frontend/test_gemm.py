"""What the graph of a pipelined matrix product must look like, on both architectures."""

import numpy as np
import pytest
from gtsim.graph import Reason, check

ARCHES = ("sm_90a", "sm_80")


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("shape", [{}, {"M": 1000, "N": 520}, {"K": 64}, {"K": 128, "stages": 4}, {"threads": 128},
                                   {"stages": 0}])
def test_all_blocks_share_one_template_and_the_graph_is_sound(graph, arch, shape):
    g = graph("dense.product", arch, **shape)
    assert len(g.templates) == 1
    assert len(g.instances) == int(np.prod(g.launch.grid))
    assert check(g) == []


@pytest.mark.parametrize("arch", ARCHES)
def test_flops_count_whole_tiles_over_the_grid(graph, arch):
    assert graph("dense.product", arch, M=1000, N=520).meta["flops"] == 2 * 1024 * 640 * 512


def test_tile_origins_are_columns_that_follow_the_block(graph, view):
    g = graph("dense.product", "sm_90a", M=384, N=256)
    load = view(g).of("tma_load")[0]
    column = load.reads[0].column[0]
    assert load.reads[0].column[1] == -1
    assert (g.instances.columns[:, column] == 128 * g.instances.block[:, 1]).all()


def test_every_gemm_reads_the_version_the_matching_load_wrote(graph, view):
    v = view(graph("dense.product", "sm_90a"))
    written = {(n.loop, t.buffer.name): t.version for n in v.of("tma_load") for t in n.writes}
    gemms = v.of("wgmma")
    assert len(gemms) == 2 * 8  # two warpgroups, K / 64 steps
    for g in gemms:
        for tile in g.reads:
            if tile.buffer.scope == "shared":
                assert tile.version == written[g.loop, tile.buffer.name]


def test_loads_of_a_slot_wait_for_the_consumers_of_its_previous_use(graph, view):
    v = view(graph("dense.product", "sm_90a", stages=3))
    waits = v.of("barrier_wait", role="producer")
    for k, wait in enumerate(waits):
        arrivals = v.sources(wait, Reason.BARRIER)
        if k < 3:
            assert arrivals == []  # the first lap passes: the slots are free
        else:
            assert {a.loop for a in arrivals} == {f"k={k - 3}"}
            assert sum(a.attrs["count"] for a in arrivals) == 256


def test_a_square_partition_gives_each_warpgroup_all_rows_and_half_the_columns(graph, view):
    for node in view(graph("dense.product", "sm_90a")).of("wgmma"):
        shape = (node.attrs["m"], node.attrs["n"], node.attrs["instruction"], node.attrs["instructions"])
        assert shape == (128, 64, "m64n64k16", 8)
        assert node.blocking


def test_mma_counts_instructions_a_warp_and_the_bytes_that_ldmatrix_reads(graph, view):
    node = view(graph("dense.product", "sm_80", threads=128)).of("mma")[0]
    rows = cols = 64  # four warps in a 2 x 2 grid over 128 x 128
    assert node.attrs["instructions"] == (rows // 16) * (cols // 8) * (64 // 16)
    assert node.attrs["smem_bytes"] == 4 * (rows + cols) * 64 * 2


def test_roles_are_found_and_registers_reallocated(graph, view):
    g = graph("dense.product", "sm_90a")
    assert g.meta["roles"] == ["producer", "consumer 0", "consumer 1"]
    assert sorted(n.attrs["registers"] for n in view(g).of("setmaxnreg")) == [24, 240, 240]
    assert g.launch.registers_per_thread == 168
    assert g.launch.threads == 384


def test_without_roles_every_warpgroup_does_everything(graph):
    g = graph("dense.product", "sm_90a", {"tl.disable_warp_specialized": True})
    assert g.meta["roles"] == ["all"]


def test_cp_async_steps_have_a_barrier_behind_the_wait_and_one_before_the_slot_is_reused(graph, view):
    v = view(graph("dense.product", "sm_80", K=1024))
    steps = [n for n in v.of("cta_sync") if n.loop == "k=3"]
    assert len(steps) == 2
    kinds = [n.type for n in v.nodes if n.loop == "k=3" and n.warps[0] == 0]
    assert kinds == ["control", "cta_sync", "cp_async", "cp_async", "commit_group", "wait_group", "cta_sync", "mma"]


def test_a_wait_group_depends_on_the_copies_of_the_group_it_finishes(graph, view):
    v = view(graph("dense.product", "sm_80", K=1024, stages=3))
    wait = [n for n in v.of("wait_group") if n.loop == "k=0"][0]
    done = v.sources(wait, Reason.GROUP)
    assert {n.type for n in done} == {"cp_async"} and {n.reads[0].offset for n in done} <= {(0, 0)}


def test_the_epilogue_waits_for_the_warps_that_share_its_buffer(graph, view):
    v = view(graph("dense.product", "sm_90a"))
    tail = [n.type for n in v.nodes if n.role in ("consumer 0", "all") and not n.loop][-6:]
    assert tail == ["cta_sync", "elementwise", "shared_store", "cta_sync", "fence", "tma_store"]
    store = v.of("tma_store")[0]
    assert store.blocking and len(store.warps) == 1 and store.attrs["box"] == (128, 64)


def test_disabling_thread_sync_leaves_only_explicit_barriers(graph, view):
    g = graph("dense.product", "sm_80", {"tl.disable_thread_storage_sync": True}, threads=32, K=256, bm=64, bn=64)
    assert view(g).of("cta_sync") == []


def test_an_unpipelined_loop_is_synchronous_and_says_so(graph, view):
    g = graph("dense.product", "sm_90a", stages=0)
    v = view(g)
    assert v.of("tma_load") == [] and len(v.of("global_load")) == 2 * 2 * 8
    assert any("synchronous" in w for w in g.meta["warnings"])


def test_a_short_tile_falls_back_to_mma_sync_and_says_so(graph, view):
    g = graph("dense.product", "sm_90a", bm=32, threads=128)
    assert view(g).of("wgmma") == [] and view(g).of("mma")
    assert any("mma.sync" in w for w in g.meta["warnings"])


def test_block_swizzle_permutes_the_launch_order_in_panels(graph):
    g = graph("dense.product", "sm_90a", M=512, N=512, panel=2)
    blocks = g.instances.block.tolist()
    assert blocks[:5] == [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [2, 0, 0]]
    assert blocks[8:10] == [[3, 2, 0], [3, 3, 0]]  # the next panel runs backwards
    assert sorted(map(tuple, blocks)) == sorted((x, y, 0) for x in range(4) for y in range(4))


def test_one_control_node_a_step_counts_the_ring_arithmetic_once(graph, view):
    v = view(graph("dense.product", "sm_90a"))
    node = v.of("control", role="consumer 0", loop="k=4")
    # loop counter, k % 3 (4), k % 6 // 3 (8); one branch
    assert [(n.attrs["int_ops"], n.attrs["branches"]) for n in node] == [(13, 1)]
