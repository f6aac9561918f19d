"""Reducers: `T.alloc_reducer`, `T.reducer_update`, `T.finalize_reducer`.

Every thread keeps a partial result of each output. At the end all threads combine them, an output after the other: by shuffles
within a warp, through shared memory between warps.
"""

from __future__ import annotations

import math
from typing import Any

from ..program import Storage
from ..translate import Region, Translator
from ..walk import Walk
from ..warps import Active
from . import tile_op
from .nest import Collector, Item, element_call
from .reduce import author_threads, exchange

_LANE_STEPS = 5  #: shuffles that combine the 32 lanes of a warp


def _combines(t: Translator, reducer: Storage) -> str:
    """The operation of a reducer: sum, max, min, bitand, bitor or bitxor."""
    for data, facts in dict(t.program.annotations.get("reducer_info_v2", {})).items():
        if str(data.name) == reducer.name:
            return str(dict(facts)["op"])
    return "sum"


@element_call("tl.reducer_update")
def _update(collector: Collector, call: Any) -> None:
    """One combination an iteration; it reads and writes the thread's own partial result."""
    op = _combines(collector.t, collector.t.program.storage(call.args[0].buffer))
    collector.add(Item(call.args[0], call.args[1], "store", {"fma" if op == "sum" else "alu": 1.0}))


class Finalize:
    """All threads combine their partial results of every output."""

    def __init__(self, t: Translator, reducer: Region, target: Region) -> None:
        self.reducer, self.target = reducer, target
        self.op = _combines(t, reducer.storage)
        self.crosses = False  #: whether several warps execute it
        self.values = max(math.prod(reducer.extents), 1)
        self.source = f"finalize_{self.op}({reducer.storage.name} -> {target.storage.name})"
        self.workspace = t.scratch(f"reduce_workspace{t.time}", (author_threads(t),), reducer.storage.dtype, scope="shared")

    def spread(self, warps: int, threads: int) -> tuple[int, int, int]:
        """(shuffle steps, exchange rounds through shared memory, results a thread)."""
        return _LANE_STEPS, (warps - 1).bit_length(), self.values

    def __call__(self, walk: Walk, reducer: tuple[Any, ...], target: tuple[Any, ...]) -> None:
        """Record the shuffles of each warpgroup, then the exchange between warps."""
        active: Active = walk.active
        steps, rounds, repeats = self.spread(len(active.warps), active.threads)
        read = walk.tile(self.reducer.storage, reducer, self.reducer.extents)
        write = walk.tile(self.target.storage, target, self.target.extents)
        for warps in active.parts:
            walk.put("reduce", warps, self.source, (read,), (write,), {
                "elements": 32 * len(warps) * self.values, "op": self.op, "shuffle_steps": steps,
                "results": len(warps) * self.values, "depth": 1})
        if rounds:
            self.crosses = True
            exchange(walk, self.workspace, self.source, rounds, repeats, [(warps, write) for warps in active.parts])


@tile_op("tl.tileop.finalize_reducer_v2", "tl.tileop.finalize_reducer")
def finalize_reducer(t: Translator, call: Any) -> None:
    """`T.finalize_reducer(reducer, target)`; without a target in place."""
    reducer = t.region(call.args[0])
    two = len(call.args) > 1 and type(call.args[1]).__name__ in ("Call", "BufferLoad")
    target = t.region(call.args[1]) if two else reducer
    operation = Finalize(t, reducer, target)
    t.touch(operation.workspace)
    t.reductions.append((operation, t.time + 1))
    t.forget(target.storage)
    t.issue(operation, t.origins(reducer), t.origins(target))
