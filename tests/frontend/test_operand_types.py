"""Products of sparse and of 4-bit operands."""

import pytest
from gtsim.graph import check


def test_a_sparse_wgmma_takes_twice_the_depth_of_a_dense_one(graph, view):
    node = view(graph("rare.sparse", "sm_90a")).of("wgmma")[0]
    attrs = {k: node.attrs[k] for k in ("m", "n", "k", "instruction", "instructions", "sparse")}
    assert attrs == {"m": 64, "n": 128, "k": 64, "instruction": "m64n128k32", "instructions": 2, "sparse": True}


def test_a_sparse_mma_loads_half_of_a_and_all_of_b(graph, view):
    node = view(graph("rare.sparse", "sm_80")).of("mma")[0]
    rows, cols = 64 // 2, 128 // 2  # four warps in a 2 x 2 grid
    assert node.attrs["instruction"] == "m16n8k32"
    assert node.attrs["instructions"] == (rows // 16) * (cols // 8) * (64 // 32)
    assert node.attrs["smem_bytes"] == 4 * (rows * 32 + cols * 64) * 2


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_a_sparse_product_reads_what_says_which_elements_are_there(graph, view, arch):
    g = graph("rare.sparse", arch)
    node = view(g).of("wgmma", "mma")[0]
    assert {x.buffer.name: x.extent for x in node.reads} == {"a": (64, 32), "e": (64, 4), "b": (64, 128), "total": (64, 128)}
    assert check(g) == []
    assert g.launch.smem_bytes == 64 * 32 * 2 + 64 * 4 * 2 + 64 * 128 * 2


def test_flops_of_a_sparse_product_count_the_zeros(graph):
    assert graph("rare.sparse", "sm_90a").meta["flops"] == 2 * 128 * 128 * 128


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_four_bit_products_go_64_deep_and_load_half_a_byte_an_element(graph, view, arch):
    node = view(graph("rare.four_bits", arch)).of("mma")[0]
    assert (node.attrs["dtype"], node.attrs["instruction"], node.attrs["k"]) == ("int4", "m16n8k64", 128)
    assert node.attrs["instructions"] == (32 // 16) * (32 // 8) * (128 // 64)  # a warp has 32 rows and columns
    assert node.attrs["smem_bytes"] == 4 * (32 + 32) * 128 // 2


def test_four_bit_copies_move_sixteen_bytes_a_thread(graph, view):
    v = view(graph("rare.four_bits", "sm_80"))
    loads = v.of("global_load")
    assert {(n.attrs["access_bytes"], n.attrs["row_bytes"]) for n in loads} == {(16, 64)}
    assert v.graph.launch.smem_bytes == 2 * 64 * 128 // 2
