"""How wide the compiler makes the accesses of synchronous copies and element-wise statements."""

from __future__ import annotations

from collections.abc import Sequence

from .program import Storage


def vector_elements(storages: Sequence[Storage], inner: int, total: int, threads: int, aligned: int = 0) -> int:
    """Elements one thread moves with one instruction of a row-major tile.

    Args:
        storages: the memory that is accessed; the widest type limits the vector to 16 bytes.
        inner: extent of the innermost dimension.
        total: elements of the tile.
        threads: threads that share it.
        aligned: the origin and the outer strides are multiples of this many elements (0: not known to be unaligned).
    """
    bits = max((s.bits for s in storages), default=32)
    width = max(128 // bits, 1)
    while width > 1 and (inner % width or total < width * threads or total % (width * threads) or (aligned and aligned % width)):
        width //= 2
    return width


def row_alignment(storage: Storage) -> int:
    """Largest power of two (up to 32: 16 bytes of 4-bit elements) that divides every outer stride of a tensor, in elements."""
    strides = storage.strides[:-1] if storage.strides else ()
    if not strides and len(storage.shape) > 1:
        strides = (storage.shape[-1],)
    width = 32
    while width > 1 and any(s % width for s in strides):
        width //= 2
    return width


def mma_access_bytes(storage: Storage) -> tuple[int, int]:
    """(access, row) bytes of a tensor-core fragment stored to or loaded from global memory: a lane owns two neighbouring
    elements of a row, four lanes a row of eight."""
    access = max(2 * storage.bits // 8, 1)
    return access, 4 * access


def contiguous(storage: Storage, extents: Sequence[int]) -> int:
    """Elements of a box of a tensor that follow each other in memory: those of a row, of all its rows where they are whole."""
    run = 1
    for d in reversed(range(len(extents))):
        if storage.strides and extents[d] != 1 and storage.strides[d] != run:
            break
        run *= extents[d]
        if extents[d] != storage.shape[d]:
            break
    return run


def linear_row_bytes(storage: Storage, width: int, run: int) -> int:
    """Contiguous bytes of a tensor that one warp instruction covers, of `run` elements in a row."""
    return min(32 * width * storage.bits // 8, run * storage.bits // 8)


def swizzle_span(storage: Storage) -> int:
    """Swizzle span of a shared tile that tensor cores or TMA use: the largest of 128, 64, 32 bytes that divides its rows."""
    row = storage.shape[-1] * storage.bits // 8
    return next((span for span in (128, 64, 32) if row % span == 0), 0)


def matrix_lanes(outer: int, inner: int) -> dict[str, tuple[int, ...]]:
    """Lanes of ldmatrix and stmatrix: each of eight rows of a matrix takes 16 bytes; four matrices follow each other.

    Args:
        outer, inner: elements of the buffer from a row, a column of the tile to the next; 16-bit elements.
    """
    return {"lanes": (8, 4), "lane_steps": (outer, 8 * inner)}


def fragment_lanes(outer: int, inner: int) -> dict[str, tuple[int, ...]]:
    """Lanes of plain loads and stores of a tensor-core fragment: four lanes own two neighbouring elements of a row each, and
    there are eight such rows. Arguments as above."""
    return {"lanes": (4, 8), "lane_steps": (2 * inner, outer)}


def linear_lanes(steps: Sequence[int], extents: Sequence[int], width: int) -> dict[str, tuple[int, ...]]:
    """Lanes that share an iteration space in row-major order, `width` iterations each.

    Args:
        steps: elements of the buffer from one iteration to the next, a dimension each.
        extents: the iteration space.
    """
    lanes: list[int] = []
    found: list[int] = []
    left, width = 32, max(width, 1)
    for step, extent in zip(reversed(steps), reversed(extents), strict=True):
        count = min(max(extent // width, 1), left)
        if count > 1:
            lanes.append(count)
            found.append(step * width)
            left //= count
        width = max(width // extent, 1)
        if left < 2:
            break
    return {"lanes": tuple(lanes) or (1,), "lane_steps": tuple(found) or (0,)}
