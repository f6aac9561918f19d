"""TMA copies: issued by one elected thread."""

from __future__ import annotations

from typing import Any

from ...errors import FrontendError, UnknownStatement
from ..bulk import store_swizzle, tma_pieces
from ..expr import text_of
from ..sync import Access
from ..translate import Region, Translator
from ..walk import Walk
from ..warps import Active
from . import tile_op


class _Bulk:
    """What loads and stores by TMA share: the box of one instruction, known once all statements have been seen.

    `given`: attributes that follow no common rule and replace those of the box; `more`: added to them.
    """

    given: dict[str, Any] | None = None
    more: dict[str, Any] | None = None

    def __init__(self, t: Translator, memory: Region, shared: Region, unit: str) -> None:
        self.memory, self.shared, self.unit, self.usage = memory, shared.storage, unit, t.usage
        self.exact = t.rules.exact
        self._attrs: dict[str, Any] | None = None

    def by_rule(self) -> dict[str, Any]:
        """Facts by rule, named as in :class:`~..exact.TmaFacts`; dimensions of extent 1 are left out of the box."""
        swizzle = self.usage.swizzle(self.shared)
        mapped, box, count = tma_pieces(self.memory, self.shared, swizzle)
        return {"unit": self.unit, "tensor_map": mapped, "box": plain_box(box), "instructions": count,
                "swizzle_bytes": swizzle if mapped else 0}

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the node."""
        if self._attrs is None:
            mapped, box, _ = tma_pieces(self.memory, self.shared, self.usage.swizzle(self.shared))
            decided = self.exact.tma if self.exact is not None else None
            if decided is not None and (decided.tensor_map, plain_box(decided.box)) != (mapped, plain_box(box)):
                mapped, box = decided.tensor_map, decided.box
            self._attrs = {**(self.given or {"tensor_map": mapped, "box": box}), **(self.more or {})}
        return self._attrs


def plain_box(box: tuple[int, ...]) -> tuple[int, ...]:
    """A box without its dimensions of extent 1."""
    return tuple(n for n in box if n != 1) or (1,)


class TmaLoad(_Bulk):
    """`T.tma_copy` global -> shared, signalled through an mbarrier."""

    def __init__(self, t: Translator, src: Region, dst: Region, barrier: str, arrive: bool, every: int) -> None:
        super().__init__(t, src, dst, "tma_load")
        self.src, self.dst, self.barrier, self.arrive, self.every = src, dst, barrier, arrive, every
        self.source = f"copy({src.storage.name} -> {dst.storage.name})"

    def __call__(self, walk: Walk, src: tuple[Any, ...], dst: tuple[int, ...], slot: int) -> None:
        """Record one node a leader."""
        bar = walk.shared.barriers[self.barrier][slot]
        read = walk.tile(self.src.storage, src, self.src.extents)
        write = walk.tile(self.dst.storage, dst, self.dst.extents)
        arrive = ((bar, 1),) if self.arrive else ()
        walk.access((Access(self.dst.storage, dst, self.dst.extents, True, engine="tma", pointer="tile"),))
        for warps in self.leaders(walk.active):
            walk.put("tma_load", warps, self.source, (read,), (write,), self.attrs, arrive=arrive, tx=bar)

    def leaders(self, active: Active) -> list[tuple[int, ...]]:
        """The warps of the threads that issue it."""
        count = max(active.threads // self.every, 1) if self.every else 1
        return [(active.warps[min(leader * self.every // 32, len(active.warps) - 1)],) for leader in range(count)]


class TmaStore(_Bulk):
    """Shared -> global by TMA. `blocking`: the issuing thread waits until shared memory has been read."""

    def __init__(self, t: Translator, src: Region, dst: Region, blocking: bool, fence: bool) -> None:
        super().__init__(t, dst, src, "tma_store")
        self.src, self.dst, self.blocking, self.fence = src, dst, blocking, fence
        self.source = f"copy({src.storage.name} -> {dst.storage.name})"
        if blocking:
            self.more = {"until_read": True}

    def __call__(self, walk: Walk, src: tuple[int, ...], dst: tuple[Any, ...]) -> None:
        """Record fence and store of the elected warp; the barrier behind the writes of other warps comes first."""
        walk.access((Access(self.src.storage, src, self.src.extents, False, pointer="tile"),))
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
        store(t, src, dst, blocking=False)
        return
    if "barrier" not in marks:
        raise UnknownStatement("a TMA load without a barrier is not supported", where=text_of(call))
    name, slot = t.slot(marks["barrier"])
    arrive = "emit_arrive" in marks and bool(int(marks["emit_arrive"]))
    every = int(marks["leader_scope_threads"]) if "leader_scope_threads" in marks else 0
    t.usage.loaded.add(dst.storage)
    if any(b.name == name and b.cluster for b in t.program.barriers):
        raise FrontendError(f"the load signals {name!r}, a cluster barrier: TileLang then expects the bytes of the whole cluster "
                            "at rank 0, which only the CTA pairs of Blackwell deliver", where=text_of(call),
                            fix="Use T.alloc_barrier for loads.")
    load = TmaLoad(t, src, dst, name, arrive, every)
    if int(marks.get("cluster_mask", 0)):
        from .clusters import multicast_load

        load = multicast_load(t, src, dst, name, arrive, every, int(marks["cluster_mask"]), call)
    t.rules.says(load.source, load.by_rule)
    t.issue(load, t.origins(src), t.origins(dst), slot)


def store(t: Translator, src: Region, dst: Region, *, blocking: bool) -> None:
    """Issue a TMA store."""
    t.usage.stored.setdefault(src.storage, store_swizzle(dst, src.storage))
    operation = TmaStore(t, src, dst, blocking=blocking, fence=blocking and src.storage in t.usage.generic)
    t.rules.says(operation.source, operation.by_rule)
    t.issue(operation, t.origins(src), t.origins(dst))
