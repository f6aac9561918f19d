"""Attention: classes of blocks, register tiles, and the work of the softmax."""

import pytest
from gtsim.graph import check


@pytest.mark.parametrize("arch", ("sm_90a", "sm_80"))
def test_full_attention_is_one_template(graph, arch):
    g = graph("softmax.attention", arch)
    assert len(g.templates) == 1 and check(g) == []


@pytest.mark.parametrize("arch", ("sm_90a", "sm_80"))
def test_causal_attention_has_one_template_a_trip_count(graph, arch):
    g = graph("softmax.attention", arch, causal=True, heads=3)
    assert len(g.templates) == 4  # 512 / 128 query blocks; heads share
    assert list(g.instance_counts()) == [3, 3, 3, 3]
    assert check(g) == []


def test_causal_flops_grow_with_the_block(graph):
    per_tile = 2 * 2 * 128 * 128 * 64
    assert graph("softmax.attention", "sm_90a", causal=True, heads=3).meta["flops"] == 3 * per_tile * (1 + 2 + 3 + 4)


def test_both_warpgroups_hold_half_the_rows(graph, view):
    v = view(graph("softmax.attention", "sm_90a"))
    for node in v.of("wgmma"):
        assert node.attrs["m"] == 64
        tile = node.writes[0]
        assert tile.extent[0] == 64 and tile.offset[0] == (0 if node.role == "consumer 0" else 64)
    assert {n.attrs["a_register"] for n in v.of("wgmma")} == {True, False}


def test_an_exponential_scales_its_argument_unless_fast_math_is_asked_for(graph, view):
    def exponential(configs):
        nodes = view(graph("softmax.attention", "sm_90a", pass_configs=configs)).of("elementwise")
        return next(n for n in nodes if "score = T.exp2" in n.source).attrs

    precise, fast = exponential({}), exponential({"tl.enable_fast_math": True})
    assert precise["sfu"] == fast["sfu"] == 1 and precise["elements"] == 64 * 128
    assert 1 <= fast["fma"] < 1.1  # the product with the row maximum is shared along the row
    assert precise["fma"] - fast["fma"] == pytest.approx(2) and precise["alu"] == 1  # exp2f: test, scale, scale back


def test_rows_of_an_accumulator_are_combined_in_two_shuffles(graph, view):
    node = view(graph("softmax.attention", "sm_90a")).of("reduce")[0]
    assert (node.attrs["shuffle_steps"], node.attrs["results"]) == (2, 64)


def test_loads_before_the_roles_are_followed_by_a_block_barrier(graph, view):
    v = view(graph("softmax.attention", "sm_90a"))
    first = next(n for n in v.nodes if n.type == "tma_load" and not n.loop)
    after = [n for n in v.nodes[first.index + 1:] if 0 in n.warps][0]
    assert after.type == "cta_sync" and len(after.warps) == 12
