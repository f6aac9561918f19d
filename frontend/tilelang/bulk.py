"""Bulk copies by rule: whether one needs a tensor map, what box one instruction moves, and how the shared tile lies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .widths import swizzle_span

if TYPE_CHECKING:
    from .program import Storage
    from .translate import Region

BOX_LIMIT = 256  #: elements a dimension of a TMA box


def one_run(memory: Region, shared: Storage) -> bool:
    """Whether a tile of global memory is one run of bytes that is sure to lie inside the tensor: a plain bulk copy moves it.

    Every dimension behind the first partial one must be whole. That a tile lies inside the tensor is taken for proven if its
    extent divides the tensor's.
    """
    storage = memory.storage
    strides, whole, expected = storage.strides, True, 1
    for d in reversed(range(len(memory.extents))):
        extent, size = memory.extents[d], storage.shape[d]
        if whole:
            if extent != 1 and strides and strides[d] != expected:
                return False
            if extent == size and memory.mins[d].const == 0:
                expected *= size
            else:
                whole = False
        elif extent != 1:
            return False
        if size % extent:
            return False
    return math.prod(memory.extents) * shared.bits % 128 == 0


def tma_pieces(memory: Region, shared: Storage, swizzle_bytes: int) -> tuple[bool, tuple[int, ...], int]:
    """(tensor map needed, box, instructions) of a TMA copy; the box has the tensor's dimensions, outermost first.

    The row of a box ends with the swizzle span. Rows of an unswizzled tile end at 256 elements, and a box of a cut row is one
    row high. Longer dimensions are cut to their largest divisor up to 256.
    """
    if not swizzle_bytes and one_run(memory, shared):
        return False, (math.prod(memory.extents),), 1
    box = [_cut(e, BOX_LIMIT) for e in memory.extents]
    row = memory.extents[-1]
    if swizzle_bytes:
        box[-1] = _cut(row, min(BOX_LIMIT, max(swizzle_bytes * 8 // shared.bits, 1)))
    elif box[-1] < row:
        box[:-1] = [1] * (len(box) - 1)
    return True, tuple(box), math.prod(memory.extents) // math.prod(box)


def _cut(extent: int, limit: int) -> int:
    return next((d for d in range(min(extent, limit), 0, -1) if extent % d == 0), 1)


def store_swizzle(memory: Region, shared: Storage, runs: bool = True) -> int:
    """Swizzle of a tile that no tensor core reads and TMA stores; a tile that goes out as one run, or has no whole number of the
    swizzle's eight rows, keeps its rows as they are. `runs`: one run is stored as such (reductions always go by boxes)."""
    if len(shared.shape) < 2 or shared.shape[-2] % 8 or (runs and one_run(memory, shared)):
        return 0
    return swizzle_span(shared)
