"""Banks of shared memory: how many cycles the lanes of a warp take at a tile, from its layout and from where the lanes reach.

Shared memory has 32 banks of 4 bytes; each serves one word a cycle, to all lanes that ask for it (CUDA programming guide, shared
memory of compute capability 5 and later). Lanes of 8 bytes are served a half warp at a time, lanes of 16 bytes a quarter, so that
what is served together never exceeds 128 bytes: a *wavefront*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from .model import Buffer, Tile

BANKS = 32
BANK_BYTES = 4
WAVEFRONT_BYTES = BANKS * BANK_BYTES
WARP_LANES = 32
CHUNK_BYTES = 16  #: what a swizzle moves together, and a row of a matrix that ldmatrix, stmatrix and wgmma take at a time
MATRIX_ROWS = 8


def byte_of(buffer: Buffer, element: int) -> int:
    """The byte at which an element lies in its buffer.

    A swizzled buffer is cut into columns as wide as the swizzle, one behind the other; in each, the number of a 16-byte chunk is
    exclusive-or'ed with bits of the number of its 128-byte line (PTX ISA, swizzling modes).

    Args:
        buffer: in shared memory.
        element: its offset in elements, by the buffer's strides; a swizzled buffer lies dense.
    """
    if not buffer.swizzle_bytes:
        return element * buffer.bits // 8
    span, row = buffer.swizzle_bytes, buffer.shape[-1]
    column = element % row * buffer.bits // 8
    rows = math.prod(buffer.shape[:-1])
    byte = (column // span * rows + element // row) * span + column % span
    return byte ^ (byte // WAVEFRONT_BYTES % (span // CHUNK_BYTES) * CHUNK_BYTES)


def wavefronts(lanes: Sequence[int], access_bytes: int) -> int:
    """Cycles for one instruction whose lanes access `access_bytes` at these bytes: in each part of the warp that is served
    together, the most words that one bank has to deliver."""
    together = min(max(WAVEFRONT_BYTES // access_bytes, 1), WARP_LANES)
    total = 0
    for first in range(0, len(lanes), together):
        words = {w for at in lanes[first:first + together]
                 for w in range(at // BANK_BYTES, (at + access_bytes - 1) // BANK_BYTES + 1)}
        banks = [0] * BANKS
        for word in words:
            banks[word % BANKS] += 1
        total += max(banks)
    return total


@lru_cache(maxsize=4096)
def conflict(buffer: Buffer, lanes: tuple[int, ...], steps: tuple[int, ...], access_bytes: int) -> float:
    """Cycles that an access takes over those of as many bytes at 128 a cycle.

    Args:
        buffer: in shared memory.
        lanes: how many lanes lie side by side, then how many such groups, and so on; together a warp at most counts.
        steps: elements from one of them to the next.
        access_bytes: contiguous bytes a lane.

    Returns:
        At least 1; 2 for 32 lanes of 2 bytes side by side, which take a cycle for 64 bytes.
    """
    places = [0]
    for count, step in zip(lanes, steps, strict=True):
        places = [at + i * step for i in range(max(min(count, WARP_LANES), 1)) for at in places][:WARP_LANES]
    bytes_ = [byte_of(buffer, at) for at in places]
    return wavefronts(bytes_, access_bytes) * WAVEFRONT_BYTES / (len(bytes_) * access_bytes)


def row_conflict(tile: Tile, access_bytes: int) -> float:
    """:func:`conflict` of lanes that follow each other along the rows of a tile, and from its rows to the next."""
    width = max(access_bytes * 8 // tile.buffer.bits, 1)
    strides = tile.buffer.element_strides()
    lanes, steps = [max(tile.extent[-1] // width, 1)], [width * strides[-1]]
    for extent, stride in zip(reversed(tile.extent[:-1]), reversed(strides[:-1]), strict=True):
        lanes.append(extent)
        steps.append(stride)
    return conflict(tile.buffer, tuple(lanes), tuple(steps), access_bytes)


def matrix_conflict(buffer: Buffer) -> float:
    """:func:`conflict` of the matrices of eight rows of 16 bytes that ldmatrix, stmatrix and wgmma take. Rows that start in the
    midst of such a piece cannot be taken this way; 1 for them and for fewer than eight rows."""
    if len(buffer.shape) < 2 or buffer.shape[-2] < MATRIX_ROWS:
        return 1.0
    stride = buffer.element_strides()[-2]
    if stride * buffer.bits // 8 % CHUNK_BYTES:
        return 1.0
    return conflict(buffer, (MATRIX_ROWS,), (stride,), CHUNK_BYTES)
