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


def linear_row_bytes(storage: Storage, width: int, inner: int) -> int:
    """Contiguous bytes of a tensor row that one warp instruction covers."""
    return min(32 * width * storage.bits // 8, inner * storage.bits // 8)


def swizzle_span(storage: Storage) -> int:
    """Swizzle span of a shared tile that tensor cores or TMA use: the largest of 128, 64, 32 bytes that divides its rows."""
    row = storage.shape[-1] * storage.bits // 8
    return next((span for span in (128, 64, 32) if row % span == 0), 0)
