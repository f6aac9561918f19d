"""The fewer constraints a graph keeps, the further it is from the whole one."""

import pytest

pytest.importorskip("tilelang")


def test_the_error_grows_from_order_to_synchronisation_to_data_only(case_study) -> None:
    """With every read a request of its own; the pair of SMs that asks for the same lines at the same time is another matter."""
    study = case_study("tile_graph_ablation")
    whole, off = study.errors(4096, 4096, 1024, **{"l2.coalescer": False})
    assert list(off) == ["no order", "no synchronisation", "data only"]
    order, synchronisation, data = (-off[name] for name in off)
    assert 1 < order < synchronisation < data < 20
    assert whole > 4096 * 4096 * 1024 * 2 / (132 * 8192)


def test_with_requests_merged_data_only_is_furthest_off(case_study) -> None:
    _, off = case_study("tile_graph_ablation").errors(4096, 4096, 1024)
    assert all(e < 0 for e in off.values()) and min(off, key=off.__getitem__) == "data only"
