"""Shares of a nest cut up, and compared; values that read under a condition."""

from __future__ import annotations

import math
from typing import Any

from ..affine import Access
from ..expr import text_of
from ..warps import Share


def rounds(share: Share, count: int) -> list[Share]:
    """The share in as many pieces, one after the other, or in the next smaller number that divides its first long dimension."""
    d = next((i for i, n in enumerate(share.extent) if n > 1), None)
    if d is None or count < 2:
        return [share]
    count = math.gcd(share.extent[d], count)
    size = share.extent[d] // count
    extent = tuple(size if x == d else n for x, n in enumerate(share.extent))
    return [Share(share.warps, tuple(o + i * size if x == d else o for x, o in enumerate(share.offset)), extent,
                  share.elements // count) for i in range(count)]


def apart(access: Access, shares: list[Share]) -> bool:
    """Whether no two shares touch the same box of the tile."""
    boxes = [access.ranges(s.offset[:len(s.extent)], s.extent) for s in shares]
    return all(any(a + n <= b or b + m <= a for (a, n), (b, m) in zip(x, y, strict=True))
               for i, x in enumerate(boxes) for y in boxes[:i])


def selects(value: Any) -> bool:
    """Whether a value reads only where a condition holds."""
    return value is not None and ("if_then_else(" in text_of(value, 4000) or "Select(" in text_of(value, 4000))
