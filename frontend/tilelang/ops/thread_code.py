"""Instructions of kernels written at thread level: block reductions, mma.sync, ldmatrix, asynchronous arrivals."""

from __future__ import annotations

import re
from typing import Any

from ...errors import UnknownStatement
from ..expr import text_of
from ..program import Storage
from ..translate import Translator
from ..walk import Walk
from . import tile_op
from .nest import Collector, Item, element_call, pointer

_IMPLICIT = {"implicit": True}
_FOUR = {"access_bytes": 4}


class ThreadReduce:
    """All-reduce over threads: shuffles within a warp, shared memory between warps. `span`: threads that share a result."""

    def __init__(self, t: Translator, span: int, source: str) -> None:
        self.span, self.source = max(span, 1), source
        self.register = t.scratch("thread_reduce", (1,), "float32", scope="local")
        self.workspace = t.scratch("reduce_workspace", (t.program.threads,), "float32", scope="shared")

    def __call__(self, walk: Walk) -> None:
        """Record the shuffles, and the exchange if the span is wider than a warp."""
        active = walk.active
        tile = walk.tile(self.register, (0,), (1,))
        steps = min((self.span - 1).bit_length(), 5)
        for warps, lanes in zip(active.parts, active.lanes, strict=True):
            walk.put("reduce", warps, self.source, (tile,), (tile,), {
                "elements": lanes, "op": "sum", "shuffle_steps": steps, "results": max(lanes >> steps, 1), "depth": 1})
        if self.span <= 32 or len(active.warps) < 2:
            return
        for kind, read in (("shared_store", False), ("shared_load", True)):
            walk.put("cta_sync", active.warps, self.source, attrs=_IMPLICIT)
            for warps in active.parts:
                slot = walk.tile(self.workspace, (warps[0],), (len(warps),))
                walk.put(kind, warps, self.source, (slot,) if read else (tile,), (tile,) if read else (slot,), _FOUR)
        walk.hazards.clear(active)


@tile_op("tirx.tvm_thread_allreduce")
def thread_allreduce(t: Translator, call: Any) -> None:
    """`T.tvm_thread_allreduce(size, value, condition, result, axis...)`."""
    span = 1
    for arg in call.args[4:]:
        var = t.inlined.get(arg, arg)
        axis = next((a for v, a in t.program.thread_vars.items() if v.same_as(var) or v.same_as(arg)), None)
        span *= t.program.thread_extents[axis] if axis is not None else 32
    t.issue(ThreadReduce(t, span, _short("allreduce", call.args[1])))


def _short(name: str, arg: Any) -> str:
    return f"{name}({text_of(arg, 40)})"


class Mma:
    """One mma.sync of every active warp."""

    def __init__(self, t: Translator, call: Any) -> None:
        shape = re.search(r"m(\d+)n(\d+)k(\d+)", str(call.args[0]))
        if shape is None:
            raise UnknownStatement("this form of mma.sync is not supported", where=text_of(call))
        self.m, self.n, self.k = (int(x) for x in shape.groups())
        names = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "tf32": "tfloat32", "e4m3": "float8_e4m3fn",
                 "e5m2": "float8_e5m2"}
        dtype = str(call.args[3].value)
        self.attrs = {"k": self.k, "dtype": names.get(dtype, dtype), "instruction": f"m{self.m}n{self.n}k{self.k}",
                      "instructions": 1, "a_shared": False, "b_shared": False, "smem_bytes": 0}
        self.operands = [self._operand(t, call.args[i]) for i in (6, 8, 10)]
        self.flops = 2 * self.m * self.n * self.k

    @staticmethod
    def _operand(t: Translator, data: Any) -> Storage | None:
        return next((s for s in t.program.storages if s.name == str(getattr(data, "name", "")) and s.scope != "global"), None)

    def __call__(self, walk: Walk) -> None:
        """Record one node a warpgroup."""
        tiles = [walk.tile(s, (0,) * len(s.shape), s.shape) if s is not None else None for s in self.operands]
        reads = tuple(x for x in tiles if x is not None)
        walk.flops += self.flops * len(walk.active.warps)
        for part in walk.active.parts:
            attrs = {"m": self.m * len(part), "n": self.n, **self.attrs}
            walk.put("mma", part, "mma", reads, (tiles[2],) if tiles[2] is not None else (), attrs)


@tile_op("tirx.ptx_mma", "tl.ptx_mma", "tl.ptx_mma_sm70")
def ptx_mma(t: Translator, call: Any) -> None:
    """`T.ptx_mma(shape, ...)`."""
    t.issue(Mma(t, call))


@element_call("tl.ptx_ldmatrix", "tirx.ptx_ldmatrix", "tl.ptx_stmatrix")
def _ldmatrix(collector: Collector, call: Any) -> None:
    """Eight 16-bit elements a thread for each pair of matrices it loads."""
    found = [p for p in map(pointer, call.args) if p is not None]
    if len(found) < 2:
        raise UnknownStatement("this form of ldmatrix is not supported", where=text_of(call))
    source = next((p for p in found if str(p[0].buffer.scope()).startswith("shared")), found[0])
    target = next((p for p in found if p is not source), found[1])
    collector.add(Item(target[0], source[0], "store", sources=[(source[0], 8)]))


class ArriveNoInc:
    """Every active lane arrives when its earlier cp.async are complete: the phase also waits for those copies."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, walk: Walk, slot: int) -> None:
        """Make the copies since the last such arrival part of the phase, and arrive."""
        active, bar = walk.active, walk.shared.barriers[self.name][slot]
        walk.flush()
        for warps, lanes in zip(active.parts, active.lanes, strict=True):
            for i in range(walk.attached.get(warps, 0), len(walk.records)):
                record = walk.records[i]
                if record[0] == "cp_async" and set(record[1]) <= set(warps):
                    walk.records[i] = (*record[:11], bar, *record[12:])
            walk.put("barrier_arrive", warps, f"arrive({self.name})", attrs={"barrier": f"{self.name}[{slot}]", "count": lanes},
                     arrive=((bar, lanes),))
            walk.attached[warps] = len(walk.records)


@tile_op("tl.ptx_cp_async_barrier_noinc", "tirx.ptx_cp_async_barrier_noinc")
def arrive_noinc(t: Translator, call: Any) -> None:
    """`T.cp_async_barrier_noinc(bar[i])`."""
    name, slot = t.slot(call.args[0])
    t.issue(ArriveNoInc(name), slot)
