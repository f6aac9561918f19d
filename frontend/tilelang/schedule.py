"""What the assembler moves within a basic block, seen in the SASS of nvcc 13.0 for sm_90a (docs/calibration.md).

Warps issue in order, so where an instruction stands decides what waits for it. Two kinds of operation are issued as early as
their operands allow, although the source has them later:

- *Loads from global memory into registers* go in front of stores to shared memory, arithmetic and reductions, while there are
  registers to hold them: a loop body that copies two tiles through registers waits for memory once, not twice.
- *Waits for wgmma groups and arrivals on barriers* go in front of arithmetic on registers, which does not feed them and which no
  statement orders against them: after such a wait the softmax of an attention kernel no longer overlaps the product that was
  waited for behind it, and the tile that this product read is free that much earlier.

Nothing passes a branch, a barrier, another access that the C++ memory model orders, or the border of a repeated loop body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .walk import Record

_ARITHMETIC = ("elementwise", "reduce", "fill")
_UNDER_LOADS = (*_ARITHMETIC, "shared_store", "shared_load")


def scheduled(records: Sequence[Record], on_chip: Callable[[int], bool], words: Callable[[Any], float],
              registers: float) -> list[Record]:
    """`records` as the assembler orders them.

    Args:
        records: of one CTA, in program order.
        on_chip: whether a buffer of the graph is registers.
        words: registers that a tile takes, of all its threads.
        registers: of a thread, free for loads that are under way.
    """
    def registers_only(other: Record, _: Record) -> bool:
        return all(on_chip(t.buffer) for t in (*other[4], *other[5]))

    out: list[Record] = []
    held: dict[tuple[int, ...], float] = {}  #: registers of the loads since the last border, by warps
    for record in records:
        kind, warps = record[0], record[1]
        if kind == "global_load":
            size = sum(words(t) for t in record[5]) / (32 * len(warps))
            used = held.get(warps, 0.0)
            if used + size <= registers:
                out.insert(_place(out, record, _UNDER_LOADS, _apart), record)
            else:
                out.append(record)
                used = 0.0
            held[warps] = used + size
            continue
        if kind == "barrier_arrive" or (kind == "wait_group" and record[6]["queue"] == "wgmma"):
            out.insert(_place(out, record, _ARITHMETIC, registers_only), record)
            continue
        if kind not in _UNDER_LOADS:
            held = {w: n for w, n in held.items() if set(w).isdisjoint(warps)}
        out.append(record)
    return out


def _place(out: Sequence[Record], record: Record, under: tuple[str, ...], free: Callable[[Record, Record], bool]) -> int:
    """Where `record` comes to stand: behind the last record of its warps that it may not pass."""
    warps, place = set(record[1]), record[12]
    at = len(out)
    for i in range(len(out) - 1, -1, -1):
        other = out[i]
        if warps.isdisjoint(other[1]):
            continue
        if other[0] == "control" and not other[6]["branches"] and other[12] == place:
            continue
        if other[0] not in under or other[12] != place or not free(other, record):
            break
        at = i
    return at


def _apart(other: Record, load: Record) -> bool:
    """Whether a load into registers does not touch what another operation touches."""
    mine = {t.buffer for t in load[5]}
    read = {t.buffer for t in load[4]}
    return all(t.buffer not in mine for t in (*other[4], *other[5])) and all(t.buffer not in read for t in other[5])
