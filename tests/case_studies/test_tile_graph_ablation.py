"""The fewer constraints a graph keeps, the further it is from the whole one."""

import pytest

pytest.importorskip("tilelang")


def test_the_error_grows_from_order_to_synchronisation_to_data_only(case_study) -> None:
    study = case_study("tile_graph_ablation")
    whole, off = study.errors(4096, 4096, 1024)
    assert list(off) == ["no order", "no synchronisation", "data only"]
    order, synchronisation, data = (-off[name] for name in off)
    assert 1 < order < synchronisation < data < 20
    assert whole > 4096 * 4096 * 1024 * 2 / (132 * 8192)
