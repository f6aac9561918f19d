"""Transposes and im2col."""

import pytest
from gtsim.graph import Reason


def test_a_transpose_reads_rows_and_writes_columns_an_element_at_a_time(graph, view):
    v = view(graph("rare.transposed", "sm_90a", threads=256))
    nodes = [n for n in v.nodes if n.source == "transpose(s -> t)"]
    boxes = [(n.type, *((x.buffer.name, x.offset, x.extent) for x in n.tiles if x.buffer.scope == "shared")) for n in nodes]
    assert sorted(boxes) == [
        ("shared_load", ("s", (0, 0), (32, 32))), ("shared_load", ("s", (32, 0), (32, 32))),
        ("shared_store", ("t", (0, 0), (32, 32))), ("shared_store", ("t", (0, 32), (32, 32)))]
    assert {n.attrs["access_bytes"] for n in nodes} == {2}  # neighbours in one tile are a row apart in the other


def test_other_warps_must_have_written_what_a_transpose_reads_and_read_what_it_wrote(graph, view):
    kinds = [n.type for n in view(graph("rare.transposed", "sm_90a")).nodes]
    at = kinds.index("shared_load")
    assert kinds[at - 1:at + 3] == ["cta_sync", "shared_load", "shared_store", "cta_sync"]


def test_im2col_reads_the_pixels_of_one_filter_tap(graph, view):
    v = view(graph("rare.convolution", "sm_80"))  # 32 pixels: four rows of eight
    loads = [n for n in v.of("global_load") if n.reads[0].buffer.name == "X"]
    assert [n.reads[0].offset[1:] for n in loads] == [(y - 1, x - 1, 0) for y in range(3) for x in range(3)]
    assert {n.reads[0].extent for n in loads} == {(1, 4, 8, 32)}
    assert {(n.attrs["access_bytes"], n.attrs["row_bytes"]) for n in loads} == {(16, 32 * 2)}
    stores = [n for n in v.of("shared_store") if n.source.startswith("im2col")]
    assert len(stores) == 9 and {n.writes[0].extent for n in stores} == {(32, 32)}


def test_the_second_block_starts_at_the_fifth_row_of_pixels(graph, view):
    g = graph("rare.convolution", "sm_80")
    tile = view(g).of("global_load")[0].reads[0]
    column = g.instances.columns[:, tile.column[1]]
    assert [tile.offset[1] + int(c) for c in column] == [-1, 3]


def test_stride_and_dilation_move_the_pixels_of_a_tap(graph, view):
    v = view(graph("rare.convolution", "sm_80", stride=2, dilation=2, pad=2, pixels=16))
    loads = [n for n in v.of("global_load") if n.reads[0].buffer.name == "X"]
    assert [n.reads[0].offset[1:3] for n in loads] == [(2 * y - 2, 2 * x - 2) for y in range(3) for x in range(3)]


def test_a_pipelined_im2col_is_one_tma_load_of_pixels_by_channels(graph, view):
    v = view(graph("rare.convolution", "sm_90a", stages=2))
    loads = [n for n in v.of("tma_load") if n.reads[0].buffer.name == "X"]
    assert len(loads) == 9 and all(len(n.warps) == 1 for n in loads)
    assert {n.attrs["box"] for n in loads} == {(1, 1, 32, 32)}
    first = next(w for w in v.of("barrier_wait") if loads[0] in v.sources(w, Reason.BARRIER))
    assert first.role != loads[0].role


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_a_convolution_multiplies_each_pixel_with_each_filter_of_each_tap(graph, arch):
    assert graph("rare.convolution", arch).meta["flops"] == 2 * 64 * 64 * (9 * 32)


def test_the_lanes_of_a_transpose_lie_along_rows_to_read_and_along_columns_to_write(graph, view):
    v = view(graph("rare.transposed", "sm_90a", threads=256))
    store = next(n for n in v.of("shared_store") if n.source == "transpose(s -> t)")
    assert (store.attrs["lanes"], store.attrs["lane_steps"]) == ((32,), (64,))  # rows of 64 elements, 128 bytes: one bank
    load = next(n for n in v.of("shared_load") if n.source == "transpose(s -> t)")
    assert "lanes" not in load.attrs
