"""The grouped GEMM example: Mixtral 8x7B shapes, balanced and skewed."""

import importlib.util
import pathlib

import pytest
from gtsim.frontend import lower

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "moe_grouped_gemm.py"


@pytest.fixture(scope="module")
def moe():
    pytest.importorskip("tilelang")
    spec = importlib.util.spec_from_file_location("moe_grouped_gemm", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("tokens", [1, 128, 1000, 4096])
def test_tiles_cover_every_row_once(moe, tokens, skew):
    rows = moe.routing(tokens, skew)
    tiles = moe.tiles_of(rows)
    assert sum(rows) == tokens * 2 == tiles["tile_rows"].sum()
    assert len(tiles["tile_rows"]) == moe.launch_tiles(tokens)
    used = tiles["tile_rows"] > 0
    ends = tiles["tile_start"][used] + tiles["tile_rows"][used]
    assert (tiles["tile_start"][used][1:] == ends[:-1]).all()


def test_half_of_the_rows_go_to_the_hottest_expert(moe):
    assert moe.routing(1024, 0.5)[0] == 1024


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("projection", ["up", "down"])
@pytest.mark.parametrize("skew", [0.0, 0.5])
def test_idle_tiles_are_a_class_of_their_own(moe, arch, projection, skew):
    tiles = moe.tiles_of(moe.routing(512, skew))
    g = lower(moe.moe_gemm, kwargs={"tokens": 512, "projection": projection}, arch=arch, metadata=tiles)
    columns = (14336 if projection == "up" else 4096) // 128
    busy = int((tiles["tile_rows"] > 0).sum())
    assert sorted(g.instance_counts()) == sorted([busy * columns, (len(tiles["tile_rows"]) - busy) * columns])
