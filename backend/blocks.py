"""Blocks of the L2: what bulk fidelity caches, evicts and moves as a whole."""

from __future__ import annotations

import math

import numpy as np

from ..graph import KernelGraph

#: The most lines of one block: large where a unit streams tiles into shared memory, small where warps wait for each load.
#: Measured against `line`: larger ones cost accuracy, smaller ones events.
STREAM_BLOCK_LINES = 128
REGISTER_BLOCK_LINES = 8


def blocks_of(graph: KernelGraph, register_buffers: set[str]) -> list[list[int]]:
    """For every buffer the largest box grid that all accesses of it respect: the unit in which bulk fidelity caches it.

    Where tiles start anywhere (rows of an expert), that grid would be single rows. A dimension that is cut finer than an eighth
    of its tiles is cut like the tiles instead: a tile then takes parts of two blocks, each fetched from DRAM whole.
    """
    grid = [[0] * len(b.shape) for b in graph.buffers]
    tile = [[0] * len(b.shape) for b in graph.buffers]
    for index, t in enumerate(graph.templates):
        columns = graph.instances.columns[graph.instances.template == index]
        column_gcd = [int(np.gcd.reduce(c)) if len(c) else 0 for c in columns.T]
        steps = t.steps()
        for b, buffer in enumerate(graph.buffers):
            if buffer.scope != "global":
                continue
            tiles = np.flatnonzero(t.tile_buffer == b)
            for d, size in enumerate(buffer.shape):
                g = grid[b][d]
                for extent, offset, column, step in {
                    tuple(r)
                    for r in np.stack(
                        [t.tile_extent[tiles, d], t.tile_offset[tiles, d], t.tile_column[tiles, d], steps[tiles, d]], axis=1
                    ).tolist()
                }:
                    whole = offset == step == 0 and column < 0 and extent >= size
                    g = math.gcd(g, offset, step, 0 if whole else extent, column_gcd[column] if column >= 0 else 0)
                    tile[b][d] = math.gcd(tile[b][d], 0 if whole else extent)
                grid[b][d] = g
    out = []
    for buffer, exact, tiles_of in zip(graph.buffers, grid, tile, strict=True):
        found = [t if 8 * g < t else g for g, t in zip(exact, tiles_of, strict=True)]
        block = [min(g, n) if g else n for g, n in zip(found, buffer.shape, strict=True)]
        if buffer.scope == "global" and block:
            inner = max(1, 128 * 8 // buffer.bits)  # never finer than a line along the rows
            block[-1] = min(max(block[-1], inner), buffer.shape[-1]) or 1
            strides = [s * buffer.bits for s in buffer.element_strides()[:-1]]
            spill = int(any(s % (128 * 8) for s, n in zip(strides, buffer.shape[:-1], strict=True) if n > 1))
            most = REGISTER_BLOCK_LINES if buffer.name in register_buffers else STREAM_BLOCK_LINES
            _split(block, buffer.bits, most, spill)
        out.append([max(1, n) for n in block])
    return out


def _split(block: list[int], bits: int, most: int, spill: int) -> None:
    """Halve `block` until it holds at most `most` lines, outer dimensions first; a row that starts anywhere in a line takes
    `spill` lines more than its bytes."""

    def lines() -> int:
        return math.prod(block[:-1]) * (max(1, -(-block[-1] * bits // 1024)) + spill)

    while lines() > most:
        d = next((d for d in range(len(block)) if block[d] % 2 == 0 and (d < len(block) - 1 or block[d] * bits >= 2048)), None)
        if d is None:
            return
        block[d] //= 2
