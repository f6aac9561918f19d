"""Loads that the compiler issues early.

A load from a tensor that the kernel only reads, whose place no data decides, waits for nothing but its address. Within a stretch
of straight-line code the assembler issues it ahead of what stands before it: of stores to shared memory that wait for earlier
loads, of the wait for products. (TileLang passes such tensors as `const T* __restrict__`; SASS of ptxas 13.0 shows LDG.CONSTANT
in front of STS, of WARPGROUP.DEPBAR, and of BAR.SYNC: norms load their weights before they reduce.) Waits on mbarriers, branches
and the ends of loop bodies bound the stretch, and so do registers: what is on its way needs some.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .walk import Record

#: Bytes a thread of loads that move ahead: assumed, 64 registers beside accumulators and addresses.
MOST_BYTES = 256
_FARTHEST = 128  #: records that are looked at
#: What an early load may overtake.
_OVERTAKES = frozenset(("elementwise", "fill", "reduce", "scan", "shared_store", "shared_load", "fence", "wait_group",
                        "cta_sync"))
#: Products: one that is waited for where it is issued waits behind the load's issue as well.
_PRODUCTS = frozenset(("wgmma",))


class EarlyLoad(dict[str, Any]):
    """Attributes of a load from global memory that no data and no run-time condition holds back."""


def hoisted(records: Sequence[Record], bits: Mapping[int, int]) -> list[Record]:
    """The records with early loads moved ahead.

    Args:
        records: of one CTA, in program order.
        bits: bits of an element, by buffer.
    """
    if not any(type(r[6]) is EarlyLoad for r in records):
        return list(records)
    written = {t.buffer for r in records for t in r[5]}
    out: list[Record] = []
    moved: dict[tuple[int, ...], int] = {}  #: bytes a thread that have moved ahead since the last boundary, by warps
    for record in records:
        kind, warps, _, _, reads, writes, attrs, *_ = record
        if kind == "global_load" and type(attrs) is EarlyLoad and not any(r.buffer in written for r in reads):
            size = sum(math.prod(w.extent) * bits[w.buffer] // 8 for w in writes) // (32 * len(warps))
            at = _place(out, record)
            if at < len(out) and moved.get(warps, 0) + size <= MOST_BYTES:
                moved[warps] = moved.get(warps, 0) + size
                out.insert(at, record)
                continue
        elif kind not in _OVERTAKES and kind not in _PRODUCTS:
            for key in [k for k in moved if not set(k).isdisjoint(warps)]:
                del moved[key]
        out.append(record)
    return out


def _place(out: Sequence[Record], load: Record) -> int:
    """Where a load may go: behind the last record of its warps that it may not overtake."""
    warps, buffers, place = set(load[1]), {t.buffer for t in load[5]}, load[-1]
    at = best = len(out)
    while at > len(out) - _FARTHEST and at:
        record = out[at - 1]
        if not warps.isdisjoint(record[1]):
            passable = record[0] in _OVERTAKES or (record[0] in _PRODUCTS and record[7])
            if not passable or record[-1] != place or any(t.buffer in buffers for t in (*record[4], *record[5])):
                break
            best = at - 1
        at -= 1
    return best
