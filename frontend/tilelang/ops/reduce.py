"""`T.reduce_*`: within the threads of a row by shuffles, across warps through shared memory."""

from __future__ import annotations

import math
from typing import Any

from ...errors import UnknownStatement
from ..expr import text_of
from ..program import Storage
from ..sync import Access
from ..translate import Region, Translator
from ..walk import Walk
from ..widths import vector_elements
from . import tile_op

_FMA = ("sum", "abssum")


class Reduce:
    """One reduction; how a row is spread over threads follows from the layout of the source."""

    def __init__(self, t: Translator, src: Region, dst: Region, op: str, dim: int, clear: bool, batch: int) -> None:
        self.src, self.dst, self.op, self.dim, self.clear, self.batch = src, dst, op, dim, clear, max(batch, 1)
        self.layouts = t.layouts
        self.source = f"reduce_{op}({src.storage.name} -> {dst.storage.name})"
        self.extents = src.extents
        if src.storage.scope == "shared":
            self.register = t.scratch(f"{src.storage.name}.reg", src.extents, src.storage.dtype)
        self.workspace = t.scratch(f"reduce_workspace{t.time}", (author_threads(t),), dst.storage.dtype, scope="shared")
        self.crosses = False  #: whether some walk found rows that lie in several warps
        self._plans: dict[Any, Any] = {}

    def spread(self, warps: int, threads: int) -> tuple[int, int, int]:
        """(shuffle steps, exchange rounds through shared memory, results a thread) to combine the threads that share a row."""
        length = self.extents[self.dim]
        others = math.prod(self.extents) // max(length, 1)
        storage = self.src.storage
        if self.layouts.is_mma(storage) and len(storage.shape) == 2:
            columns = self.layouts.warp_columns(storage, warps)
            rows = max(warps // columns, 1)
            if self.dim == 1:  # four lanes hold a row, a lane holds every eighth row of its warp
                return 2, (columns - 1).bit_length(), max(others // rows // 8, 1)
            return 3, (rows - 1).bit_length(), max(others // columns // 4, 1)
        last = self.dim == len(self.extents) - 1
        apart = 1  # lanes between two threads that share a row
        width = vector_elements([storage], self.extents[-1], math.prod(self.extents), threads)
        along = max(self.extents[-1] // width, 1)
        across = along if last else max(threads // along, 1)
        if last and others < threads // max(across, 1):
            across = max(threads // max(others, 1), 1)
        if not last:
            apart = min(along, threads)
        across = max(min(across, threads, length), 1)
        steps = (across - 1).bit_length()
        within = min(steps, (max(32 // apart, 1) - 1).bit_length())
        return within, steps - within, max(others * across // threads, 1)

    def __call__(self, walk: Walk, src: tuple[Any, ...], dst: tuple[Any, ...]) -> None:
        """Record the local part with its shuffles, then the exchange between warps."""
        active = walk.active
        plan = self._plans.get(active)
        if plan is None:
            steps, rounds, results = self.spread(len(active.warps), active.threads)
            index: list[int | None] = list(range(len(self.extents)))
            split = self.layouts.shares(active, self.extents, [(self.src.storage, index)])
            plan = self._plans[active] = (rounds, -(-results // self.batch), [(s, self._attrs(s, steps, rounds)) for s in split])
        rounds, repeats, shares = plan
        if self.src.storage.scope == "shared":
            walk.access((Access(self.src.storage, src, self.src.extents, False),))
        tiles = []
        for share, attrs in shares:
            read = walk.tile(self.src.storage, tuple(o + d for o, d in zip(src, share.offset, strict=True)), share.extent)
            write = self._result(walk, dst, share)
            if self.src.storage.scope == "shared":
                register = walk.tile(self.register, share.offset, share.extent)
                walk.put("shared_load", share.warps, self.source, (read,), (register,), {"access_bytes": 16})
                read = register
            walk.put("reduce", share.warps, self.source, (read,) if self.clear else (read, write), (write,), attrs)
            tiles.append((share.warps, write))
        if rounds:
            self.crosses = True
            exchange(walk, self.workspace, self.source, rounds, repeats, tiles)

    def _attrs(self, share: Any, steps: int, rounds: int) -> dict[str, Any]:
        rows = max(share.elements // max(share.extent[self.dim], 1), 1)
        return {"elements": share.elements, "fma" if self.op in _FMA else "alu": 1.0, "op": self.op, "shuffle_steps": steps,
                "results": rows, "depth": max(self.extents[self.dim] >> (steps + rounds), 1)}

    def _result(self, walk: Walk, dst: tuple[Any, ...], share: Any) -> Any:
        """The results of a share: the destination drops the reduced dimension, or keeps it with extent 1."""
        offset, extent = list(share.offset), list(share.extent)
        if len(self.dst.extents) == len(self.extents):
            offset[self.dim], extent[self.dim] = 0, 1
        else:
            del offset[self.dim], extent[self.dim]
        if not offset:
            offset, extent = [0], [1]
        at = tuple(o + d for o, d in zip(dst, offset, strict=False))
        sizes = tuple(min(e, n - a) for e, n, a in zip(extent, self.dst.storage.shape, at, strict=False))
        return walk.tile(self.dst.storage, at, sizes)


def author_threads(t: Translator) -> int:
    """Threads of the author's launch, without the producer warpgroup that the compiler adds."""
    launch = t.program.annotations.get("tl.launch_threads")
    return math.prod(int(n) for n in launch) if launch is not None else t.program.threads


def exchange(walk: Walk, workspace: Storage, source: str, rounds: int, repeats: int, tiles: list[Any]) -> None:
    """The butterfly between warps: each round writes a word a thread, and reads the partner's, between two barriers. It goes
    over the results in a loop, in which the compiler guards the workspace by one more barrier. `tiles` are the registers of each
    warpgroup."""
    warps = walk.active.warps
    use = (Access(workspace, (0,), workspace.shape, True, pointer="tile"),)
    for _ in range(repeats):
        if repeats > 1 and walk.shared.implicit_sync:
            walk.sync()
        walk.access(use)
        for _ in range(rounds):
            walk.put("cta_sync", warps, source, attrs=_IMPLICIT)
            for part, tile in tiles:
                walk.put("shared_store", part, source, (tile,), (_slice(walk, workspace, part),), _FOUR)
            walk.put("cta_sync", warps, source, attrs=_IMPLICIT)
            for part, tile in tiles:
                walk.put("shared_load", part, source, (_slice(walk, workspace, warps),), (tile,), _FOUR)


def _slice(walk: Walk, workspace: Storage, warps: tuple[int, ...]) -> Any:
    """The workspace of these warps, a word a thread."""
    total = workspace.shape[0]
    start = min((warps[0] - walk.active.warps[0]) * 32, total - 1)
    return walk.tile(workspace, (start,), (min(32 * (warps[-1] - warps[0] + 1), total - start),))


_IMPLICIT = {"implicit": True}
_FOUR = {"access_bytes": 4}


@tile_op("tl.tileop.reduce")
def reduce(t: Translator, call: Any) -> None:
    """`T.reduce_max(src, dst, dim)` and its relatives."""
    src, dst = t.region(call.args[0]), t.region(call.args[1])
    op, dim, clear = str(call.args[2].value), t.constant(call.args[3]), bool(t.constant(call.args[4]))
    if src.storage.scope not in ("fragment", "shared", "local") or dst.storage.scope not in ("fragment", "local"):
        raise UnknownStatement(f"a reduction from {src.storage.scope} to {dst.storage.scope} memory is not supported",
                               where=text_of(call))
    if len(dst.storage.shape) == 1 and len(src.storage.shape) == 2:
        t.layouts.vector(dst.storage, src.storage, 1 - dim)
    marks = {str(k): v for k, v in dict(call.annotations or {}).items()}
    operation = Reduce(t, src, dst, op, dim, clear, int(marks.get("batch", 1)))
    t.touch(src.storage, operation.workspace)
    t.forget(dst.storage)
    t.reductions.append((operation, t.time + 1))
    t.issue(operation, t.origins(src), t.origins(dst))
