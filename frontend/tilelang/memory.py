"""Shared memory after the compiler's merge: buffers whose lifetimes do not overlap share bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .program import Storage

ALIGN = 16  #: bytes; what no unit addresses by itself
#: Swizzle span -> bytes that a tile of TMA or wgmma starts at a multiple of: eight rows of the swizzle (PTX ISA, tensor maps).
BULK_ALIGN = {128: 1024, 64: 512, 32: 256, 0: 128}
RUN_ALIGN = 1024  #: the same of a tile that a plain bulk copy moves: TileLang does not look closer


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets of the shared buffers and the total, without mbarriers."""

    offsets: Mapping[Storage, int]
    nbytes: int

    def aliases(self) -> dict[Storage, list[Storage]]:
        """For each buffer the others that share bytes with it."""
        out: dict[Storage, list[Storage]] = {}
        for a, x in self.offsets.items():
            shared = [b for b, y in self.offsets.items() if b is not a and x < y + b.nbytes and y < x + a.nbytes]
            if shared:
                out[a] = shared
        return out


def plan_memory(spans: Mapping[Storage, list[int]], aligned: Mapping[Storage, int] | None = None) -> MemoryPlan:
    """Place buffers by first fit in the order they come to life; `spans` are first and last use in statement order, `aligned`
    says of which number of bytes a buffer starts at a multiple, unless 16."""
    placed: dict[Storage, int] = {}
    total = 0
    for storage in sorted(spans, key=lambda s: (spans[s][0], -s.nbytes, s.index)):
        first, last = spans[storage]
        size = storage.nbytes
        align = (aligned or {}).get(storage, ALIGN)
        busy = sorted((placed[o], placed[o] + o.nbytes) for o in placed if spans[o][0] <= last and first <= spans[o][1])
        at = 0
        for start, end in busy:
            if at + size <= start:
                break
            at = max(at, -(-end // align) * align)
        placed[storage] = at
        total = max(total, at + size)
    return MemoryPlan(placed, total)
