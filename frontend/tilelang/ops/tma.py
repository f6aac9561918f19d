"""TMA copies: issued by one elected thread."""

from __future__ import annotations

from typing import Any

from ...errors import FrontendError, UnknownStatement
from ..expr import text_of
from ..sync import Access
from ..translate import Region, Translator
from ..walk import Walk
from ..warps import Active
from ..widths import swizzle_span
from . import tile_op


def tensor_box(memory: Region, shared: Region) -> tuple[bool, tuple[int, ...]]:
    """Whether a copy needs a tensor map, and the box of one instruction (outermost first)."""
    if len(memory.dims) <= 1 and memory.storage.scope == "global":
        extent = 1
        for e in memory.extents:
            extent *= e
        if not memory.dims or memory.dims[-1] == len(memory.extents) - 1:
            return len(memory.extents) > 1, (extent,)
    box = [min(e, 256) for e in memory.extents]
    span = swizzle_span(shared.storage)
    if span:
        box[-1] = min(box[-1], max(128 * 8 // memory.storage.bits, 1))
    return True, tuple(box)


class TmaLoad:
    """`T.tma_copy` global -> shared, signalled through an mbarrier."""

    def __init__(self, src: Region, dst: Region, barrier: str, arrive: bool, every: int) -> None:
        self.src, self.dst, self.barrier, self.arrive, self.every = src, dst, barrier, arrive, every
        mapped, box = tensor_box(src, dst)
        self.attrs = {"tensor_map": mapped, "box": box}
        self.source = f"copy({src.storage.name} -> {dst.storage.name})"

    def __call__(self, walk: Walk, src: tuple[Any, ...], dst: tuple[int, ...], slot: int) -> None:
        """Record one node a leader."""
        bar = walk.shared.barriers[self.barrier][slot]
        read = walk.tile(self.src.storage, src, self.src.extents)
        write = walk.tile(self.dst.storage, dst, self.dst.extents)
        arrive = ((bar, 1),) if self.arrive else ()
        for warps in self.leaders(walk.active):
            walk.put("tma_load", warps, self.source, (read,), (write,), self.attrs, arrive=arrive, tx=bar)

    def leaders(self, active: Active) -> list[tuple[int, ...]]:
        """The warps of the threads that issue it."""
        count = max(active.threads // self.every, 1) if self.every else 1
        return [(active.warps[min(leader * self.every // 32, len(active.warps) - 1)],) for leader in range(count)]


class TmaStore:
    """Shared -> global by TMA. `blocking`: the issuing thread waits until shared memory has been read."""

    def __init__(self, src: Region, dst: Region, blocking: bool, fence: bool) -> None:
        self.src, self.dst, self.blocking, self.fence = src, dst, blocking, fence
        mapped, box = tensor_box(dst, src)
        self.attrs = {"tensor_map": mapped, "box": box}
        self.source = f"copy({src.storage.name} -> {dst.storage.name})"

    def __call__(self, walk: Walk, src: tuple[int, ...], dst: tuple[Any, ...]) -> None:
        """Record fence and store of the elected warp; the barrier behind the writes of other warps comes first."""
        walk.access((Access(self.src.storage, src, self.src.extents, False),))
        warps = walk.active.warps[:1]
        if self.fence:
            walk.put("fence", warps, "fence", attrs=PROXY)
        walk.put("tma_store", warps, self.source, (walk.tile(self.src.storage, src, self.src.extents),),
                 (walk.tile(self.dst.storage, dst, self.dst.extents),), self.attrs, self.blocking,
                 None if self.blocking else "bulk")


PROXY = {"kind": "proxy_async"}


@tile_op("tl.tileop.tma_copy")
def tma_copy(t: Translator, call: Any) -> None:
    """`T.tma_copy(src, dst, barrier=...)`."""
    src, dst = t.region(call.args[0]), t.region(call.args[1])
    marks = dict(call.annotations) if call.annotations else {}
    if t.arch_number < 90:
        raise FrontendError(f"TMA does not exist on {t.program.arch}", where=text_of(call),
                            fix="Use T.copy, or the target sm_90a.")
    t.touch(src.storage, dst.storage)
    if dst.storage in t.tracked:
        from .copy import follow

        follow(t, src, dst)
    if src.storage.scope == "shared" and dst.storage.scope == "global":
        t.usage.swizzled.add(src.storage)
        t.issue(TmaStore(src, dst, blocking=False, fence=False), t.origins(src), t.origins(dst))
        return
    if "barrier" not in marks:
        raise UnknownStatement("a TMA load without a barrier is not supported", where=text_of(call))
    name, slot = t.slot(marks["barrier"])
    arrive = "emit_arrive" in marks and bool(int(marks["emit_arrive"]))
    every = int(marks["leader_scope_threads"]) if "leader_scope_threads" in marks else 0
    t.usage.swizzled.add(dst.storage)
    if any(b.name == name and b.cluster for b in t.program.barriers):
        raise FrontendError(f"the load signals {name!r}, a cluster barrier: TileLang then expects the bytes of the whole cluster "
                            "at rank 0, which only the CTA pairs of Blackwell deliver", where=text_of(call),
                            fix="Use T.alloc_barrier for loads.")
    load = TmaLoad(src, dst, name, arrive, every)
    if int(marks.get("cluster_mask", 0)):
        from .clusters import multicast_load

        load = multicast_load(t, src, dst, name, arrive, every, int(marks["cluster_mask"]), call)
    t.issue(load, t.origins(src), t.origins(dst), slot)
