"""Which warps are active at a program point, and how they share a collective's work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


class Active:
    """The active threads at a program point: mask, warps, and the warps grouped by warpgroup. Interned: compare by identity."""

    __slots__ = ("mask", "warps", "parts", "lanes", "threads", "whole")

    def __init__(self, mask: Any) -> None:
        self.mask = mask
        padded = np.zeros(-(-len(mask) // 32) * 32, dtype=bool)
        padded[:len(mask)] = mask
        per_warp = padded.reshape(-1, 32).sum(axis=1)
        self.warps = tuple(int(w) for w in np.flatnonzero(per_warp))
        groups: dict[int, list[int]] = {}
        for w in self.warps:
            groups.setdefault(w // 4, []).append(w)
        self.parts = tuple(tuple(g) for g in groups.values())
        self.lanes = tuple(int(sum(per_warp[w] for w in g)) for g in self.parts)
        self.threads = int(mask.sum())
        self.whole = bool(mask.all())


@dataclass(frozen=True)
class Share:
    """What one warpgroup does of a collective: a box of the iteration space and the elements it computes."""

    warps: tuple[int, ...]
    offset: tuple[int, ...]
    extent: tuple[int, ...]
    elements: int


def even_shares(parts: Sequence[tuple[int, ...]], extents: Sequence[int]) -> list[Share]:
    """Split the first dimension that the number of warpgroups divides, else the first that is long enough, in uneven pieces; one
    warpgroup does it alone if none is."""
    n = len(parts)
    zero = (0,) * len(extents)
    total = math.prod(extents)
    if n == 1:
        return [Share(parts[0], zero, tuple(extents), total)]
    for d, extent in enumerate(extents):
        if extent % n == 0:
            size = extent // n
            return [Share(w, tuple(i * size if x == d else 0 for x in range(len(extents))),
                          tuple(size if x == d else e for x, e in enumerate(extents)), total // n)
                    for i, w in enumerate(parts)]
    for d, extent in enumerate(extents):
        if extent > n:
            edges = [extent * i // n for i in range(n + 1)]
            return [Share(w, tuple(edges[i] if x == d else 0 for x in range(len(extents))),
                          tuple(edges[i + 1] - edges[i] if x == d else e for x, e in enumerate(extents)),
                          total // extent * (edges[i + 1] - edges[i])) for i, w in enumerate(parts)]
    return [Share(parts[0], zero, tuple(extents), total)]


def shifted(at: Sequence[Any], offset: Sequence[int]) -> tuple[Any, ...]:
    """The place `offset` behind `at`."""
    return tuple(a + o if o else a for a, o in zip(at, offset, strict=True))


@dataclass(frozen=True)
class Grid:
    """How a GEMM spreads its rows and columns over warps: warp i has row block i % m and column block i // m."""

    m: int
    n: int

    def box(self, rows: int, cols: int, first: int, count: int) -> tuple[int, int, int, int]:
        """Rows and columns [r0, r1, c0, c1) that warps `first .. first + count - 1` of the set cover together."""
        if self.m * self.n < first + count or rows % self.m or cols % self.n:
            return 0, rows, 0, cols
        ms = sorted({i % self.m for i in range(first, first + count)})
        ns = sorted({i // self.m for i in range(first, first + count)})
        height, width = rows // self.m, cols // self.n
        return ms[0] * height, (ms[-1] + 1) * height, ns[0] * width, (ns[-1] + 1) * width
