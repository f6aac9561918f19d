"""Running sums: a warp takes a line in pieces of 32, each five shuffles by 1 to 16 lanes and one for the carry."""

import pytest


def scans(graph, view, **kwargs):
    return view(graph("rare.scanned", "sm_90a", **kwargs)).of("scan")


@pytest.mark.parametrize(("dim", "boxes", "pieces"), [
    (1, [((0, 0), (32, 96)), ((32, 0), (32, 96))], 3),  # rows of 96 go round eight warps
    (0, [((0, 0), (64, 48)), ((0, 48), (64, 48))], 2)])  # columns of 64
def test_the_lines_are_spread_over_the_warps_and_never_cut(graph, view, dim, boxes, pieces):
    nodes = scans(graph, view, shape=(64, 96), dim=dim)
    assert [(n.reads[0].offset, n.reads[0].extent) for n in nodes] == boxes
    assert {n.attrs["pieces"] for n in nodes} == {pieces}
    assert [n.warps for n in nodes] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_each_element_takes_a_shuffle_and_an_addition_a_step_and_one_for_the_carry(graph, view):
    attrs = scans(graph, view)[0].attrs
    assert (attrs["shuffle_steps"], attrs["shuffle"], attrs["alu"], attrs["op"]) == (5, 6.0, 6.0, "cumsum")


def test_a_line_that_ends_within_a_piece_costs_the_whole_piece(graph, view):
    nodes = scans(graph, view, shape=(8, 40), threads=128)
    assert [(n.attrs["pieces"], n.attrs["elements"]) for n in nodes] == [(2, 8 * 64)]


def test_a_vector_is_scanned_by_the_first_warp_alone(graph, view):
    v = view(graph("rare.scanned", "sm_90a", shape=(1024,), dim=0))
    assert [n.warps for n in v.of("scan")] == [(0,)]
    assert v.of("scan")[0].attrs["pieces"] == 32


def test_fewer_lines_than_warps_leave_warpgroups_idle(graph, view):
    assert [n.warps for n in scans(graph, view, shape=(1, 64))] == [(0,)]  # one line is a vector
    assert sum(n.reads[0].extent[0] for n in scans(graph, view, shape=(2, 64))) == 2


def test_barriers_stand_before_and_behind_a_scan_of_shared_memory(graph, view):
    v = view(graph("rare.scanned", "sm_90a", threads=128))
    kinds = [n.type for n in v.nodes]
    at = kinds.index("shared_load")
    assert kinds[at - 1:at + 4] == ["cta_sync", "shared_load", "scan", "shared_store", "cta_sync"]
