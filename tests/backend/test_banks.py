"""Bank conflicts, counted by hand: 32 banks of 4 bytes, a word each a cycle; in rows of 128 bytes a column is one bank."""

from __future__ import annotations

import pytest
from gtsim.backend import SimulationError
from gtsim.backend.demand import demand_of
from gtsim.graph import Buffer, Node, Tile
from gtsim.graph.banks import byte_of, conflict, matrix_conflict, row_conflict, wavefronts
from gtsim.hwconfigs import load_hardware

from .kernels import Kernel

HW = load_hardware("h100_sxm")


def buffer(rows: int, columns: int, dtype: str = "float32", swizzle: int = 0) -> Buffer:
    return Buffer("s", "shared", dtype, (rows, columns), (), swizzle)


def tile(of: Buffer, rows: int = 0, columns: int = 0) -> Tile:
    extent = (rows or of.shape[0], columns or of.shape[1])
    return Tile(of, "read", (0, 0), extent, (-1, -1), 0)


def test_a_wavefront_serves_each_word_once_and_one_word_a_bank() -> None:
    assert wavefronts([4 * i for i in range(32)], 4) == 1  # side by side
    assert wavefronts([128 * i for i in range(32)], 4) == 32  # one bank
    assert wavefronts([256 * i for i in range(16)], 4) == 16
    assert wavefronts([0] * 32, 4) == 1  # the same word
    assert wavefronts([2 * i for i in range(32)], 2) == 1  # two lanes a word
    assert wavefronts([8 * i for i in range(32)], 8) == 2  # two half warps
    assert wavefronts([16 * i for i in range(32)], 16) == 4  # four quarters
    assert wavefronts([128 * i for i in range(32)], 16) == 32  # eight lanes of a quarter in the same four banks


def test_an_access_along_rows_is_free_of_conflicts() -> None:
    for access in (4, 8, 16):
        assert row_conflict(tile(buffer(64, 64)), access) == 1.0
    assert row_conflict(tile(buffer(64, 64, "float16")), 2) == 2.0  # 32 lanes of 2 bytes: half of what a cycle could take


def test_a_column_of_32_words_meets_in_one_bank_unless_its_rows_are_padded() -> None:
    assert conflict(buffer(32, 32), (32,), (32,), 4) == 32.0
    assert conflict(buffer(32, 33), (32,), (33,), 4) == 1.0
    assert conflict(buffer(32, 16), (32,), (16,), 4) == 16.0  # rows of 64 bytes: two columns of banks
    assert conflict(buffer(32, 32), (4, 8), (1, 32), 4) == 8.0  # eight rows of four words


def test_a_tile_narrower_than_its_buffer_skips_banks() -> None:
    assert row_conflict(tile(buffer(64, 64), 64, 4), 16) == 8.0  # a quarter warp: eight rows of 256 bytes, 16 bytes each
    assert row_conflict(tile(buffer(64, 32), 64, 16), 16) == 2.0  # two rows of 64 bytes, both in the first half of the banks


def test_a_swizzle_exchanges_chunks_by_the_number_of_their_line() -> None:
    s = buffer(64, 64, "float16", 128)
    assert [byte_of(s, 64 * row) for row in range(4)] == [0, 128 + 16, 256 + 32, 384 + 48]
    assert byte_of(s, 64 + 8) == 128  # second chunk of the second row
    wide = buffer(64, 128, "float16", 128)
    assert byte_of(wide, 64) == 64 * 128  # columns beyond 128 bytes lie behind the first ones
    assert byte_of(buffer(64, 32, "float16", 64), 2 * 32) == 128 + 16  # two rows of 64 bytes a line
    assert byte_of(buffer(64, 16, "float16", 32), 4 * 16) == 128 + 16
    for span in (32, 64, 128):
        s = buffer(64, span // 2, "float16", span)
        assert sorted(byte_of(s, i) for i in range(0, 64 * span // 2, 8)) == list(range(0, 64 * span, 16))


@pytest.mark.parametrize(("columns", "swizzle", "factor"), [
    (64, 0, 8.0), (32, 0, 4.0), (16, 0, 2.0), (8, 0, 1.0), (72, 0, 1.0),  # rows of 128, 64, 32, 16 bytes; padded by 16 bytes
    (64, 128, 1.0), (128, 128, 1.0), (32, 64, 1.0), (16, 32, 1.0),
    (64, 32, 1.0),  # cut into columns of 32 bytes
])
def test_matrices_of_eight_rows_need_a_swizzle_or_padding(columns: int, swizzle: int, factor: float) -> None:
    assert matrix_conflict(buffer(64, columns, "float16", swizzle)) == factor


def node(type: str, tiles: tuple[Tile, ...], **attrs: object) -> Node:
    return Node(0, type, (0, 1, 2, 3), 0, True, attrs, "", "", "", tiles)


def test_a_load_occupies_shared_memory_for_its_conflicts() -> None:
    whole = tile(buffer(32, 32))
    column = node("shared_load", (whole,), access_bytes=4, lanes=(32,), lane_steps=(32,))
    assert demand_of(column, HW).stages[0].uses["smem"] == 32 * 32 * 32 * 4
    assert demand_of(node("shared_load", (whole,), access_bytes=4), HW).stages[0].uses["smem"] == 32 * 32 * 4
    off = load_hardware("h100_sxm", {"smem.bank_conflicts": False})
    assert demand_of(column, off).stages[0].uses["smem"] == 32 * 32 * 4


def test_the_time_of_a_transposed_store_is_that_of_its_conflicts() -> None:
    def cycles(step: int) -> int:
        kernel = Kernel()
        s = kernel.b.buffer("s", (128, 32), "float32", scope="shared")
        kernel.t.node("shared_store", range(4), writes=[s.tile()],
                      attrs={"access_bytes": 4, "lanes": (32,), "lane_steps": (step,)})
        return kernel.run(overrides={"smem.latency_cycles": 0}).cycles

    assert cycles(1) == 128 * 128 // 128
    assert cycles(32) == 32 * 128 * 128 // 128


@pytest.mark.parametrize("type", ["wgmma", "mma"])
def test_operands_without_a_swizzle_take_eight_times_as_long(type: str) -> None:
    def read(swizzle: int) -> float:
        a, b = (tile(buffer(64, 64, "float16", swizzle)) for _ in range(2))
        shape = {"instruction": "m64n64k16", "instructions": 4} if type == "wgmma" else {"instruction": "m16n8k16"}
        more = {"smem_bytes": 16384} if type == "mma" else {}
        made = node(type, (a, b), m=64, n=64, k=64, dtype="float16", **shape, **more)
        return next(s.uses["smem"] for s in demand_of(made, HW).stages if "smem" in s.uses)

    assert read(0) == 8 * read(128) == 8 * 16384


def test_the_writes_of_cp_async_meet_in_banks_too() -> None:
    def sink(width: int) -> float:
        source = Tile(Buffer("g", "global", "float16", (64, 64)), "read", (0, 0), (64, 8), (-1, -1), 0)
        target = Tile(buffer(64, width, "float16"), "write", (0, 0), (64, 8), (-1, -1), 0)
        access = demand_of(node("cp_async", (source, target), access_bytes=16), HW).stages[1].access
        assert access is not None
        return access.sink_work

    assert sink(8) == 1.0
    assert sink(64) == 8.0  # 16 bytes of each row of 128


@pytest.mark.parametrize(("attrs", "message"), [
    ({"lanes": (32,)}, "1 counts of lanes and 0 steps"),
    ({"lanes": (8, 4), "lane_steps": (1,)}, "2 counts of lanes and 1 steps"),
    ({"access_bytes": 0}, "access_bytes is 0"),
])
def test_lanes_that_say_nothing_clear_are_refused(attrs: dict[str, object], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        demand_of(node("shared_load", (tile(buffer(32, 32)),), **attrs), HW)
