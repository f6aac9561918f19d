"""Operations that reach other CTAs of the cluster: its barrier, arrivals elsewhere, multicast loads, SM-to-SM copies."""

from __future__ import annotations

import math
from typing import Any

from ...errors import FrontendError, UnknownStatement
from ..clusters import Bytes, check_mask
from ..expr import text_of
from ..program import BarrierArray, Storage
from ..sync import Access
from ..translate import Region, Translator
from ..walk import Walk
from . import tile_op
from .barriers import Arrive
from .copy import Copy
from .tma import PROXY, TmaLoad

BULK_BYTES = 16  #: bulk copies take whole multiples of this (PTX ISA, cp.async.bulk)


@tile_op("tl.cluster_sync", "tl.cluster_arrive", "tl.cluster_arrive_relaxed", "tl.cluster_wait")
def cluster_barrier(t: Translator, call: Any) -> None:
    """The barrier of all threads of the cluster, or one half of it."""
    name = str(call.op.name).split(".")[-1]

    def operation(walk: Walk) -> None:
        walk.cluster_barrier(name, arrive=name != "cluster_wait", wait=name in ("cluster_sync", "cluster_wait"),
                             relaxed=name == "cluster_arrive_relaxed")

    t.issue(operation)


@tile_op("tl.ptx_arrive_cluster_barrier")
def arrive_elsewhere(t: Translator, call: Any) -> None:
    """`T.mbarrier_arrive(bar[i], cta)`: every active lane arrives at the barrier in the CTA with that rank."""
    name, slot = t.slot(call.args[0])
    rank = t.compile(call.args[1])
    t.charge(rank)
    t.issue(_ArriveAt(name), slot, t.uniform(rank))


class _ArriveAt(Arrive):
    """Every active lane arrives at the barrier of one CTA of the cluster."""

    def __call__(self, walk: Walk, slot: int, cta: int = 0) -> None:
        """Record the arrivals, a node a warpgroup."""
        active, bar = walk.active, walk.shared.barriers[self.name].at(cta)[slot]
        for warps, lanes in zip(active.parts, active.lanes, strict=True):
            walk.put("barrier_arrive", warps, f"arrive({self.name})", attrs=self.of(slot, lanes), arrive=((bar, lanes),))


# -- multicast -------------------------------------------------------------------------------------------------------------


class MulticastLoad(TmaLoad):
    """A TMA load that several CTAs of the cluster receive. The CTA of the lowest rank in the mask issues it, the others of the
    mask only expect its bytes at their own barrier; CTAs outside of it load for themselves."""

    mask = 0

    def __call__(self, walk: Walk, src: tuple[Any, ...], dst: tuple[int, ...], slot: int) -> None:
        """Record the load, or the expectation."""
        handle, active = walk.shared.barriers[self.barrier], walk.active
        others = [r for r in range(self.mask.bit_length()) if self.mask >> r & 1 and r != walk.rank]
        if not self.mask >> walk.rank & 1 or not others:
            super().__call__(walk, src, dst, slot)
            return
        arrive = ((handle[slot], 1),) if self.arrive else ()
        tile = walk.tile(self.dst.storage, dst, self.dst.extents)
        for warps in self.leaders(active):
            if walk.rank < others[0]:
                remote = tuple(type(tile)(tile.buffer, tile.origin, tile.extent, r) for r in others)
                bytes_of = Bytes(handle[slot], None, tuple(handle.at(r)[slot] for r in others))
                walk.put("tma_load", warps, self.source, (walk.tile(self.src.storage, src, self.src.extents),), (tile, *remote),
                         self.attrs, arrive=arrive, tx=bytes_of)
            else:
                size = math.prod(self.dst.extents) * self.dst.storage.bits // 8
                attrs = {"barrier": f"{self.barrier}[{slot}]", "count": int(self.arrive), "expect_bytes": size}
                walk.put("barrier_arrive", warps, f"expect({self.source[5:-1]})", attrs=attrs, arrive=arrive,
                         tx=Bytes(None, handle[slot]))


def multicast_load(t: Translator, src: Region, dst: Region, name: str, arrive: bool, every: int, mask: int, call: Any) -> TmaLoad:
    """The load behind a `cluster_mask`.

    Raises:
        FrontendError: it names CTAs that the cluster lacks.
    """
    check_mask(mask, t.program.cluster, text_of(call))
    load = MulticastLoad(t, src, dst, name, arrive, every)
    load.mask = mask
    return load


def multicast_copy(t: Translator, call: Any, src: Region, dst: Region, mask: int) -> None:
    """`T.copy_cluster(..., cluster_mask=)`: a multicast load that all threads wait for, at a barrier the compiler makes."""
    if src.storage.scope != "global" or dst.storage.scope != "shared" or dst.extents[-1] * dst.storage.bits % (8 * BULK_BYTES):
        raise FrontendError("a multicast copy must be a TMA load from global to shared memory, in rows of whole 16 bytes",
                            where=text_of(call), fix="Choose such a tile, or leave cluster_mask away.")
    base = name = f"{src.storage.name}_to_{dst.storage.name}_mbarrier"
    names = {b.name for b in t.program.barriers}
    while name in names:
        name = f"{base}_{len(names)}"
    t.program.barriers.append(BarrierArray(name, [1]))
    t.touch(src.storage, dst.storage)
    t.usage.loaded.add(dst.storage)
    load = multicast_load(t, src, dst, name, True, 0, mask, call)

    def operation(walk: Walk, source: tuple[Any, ...], target: tuple[int, ...]) -> None:
        walk.access((Access(dst.storage, target, dst.extents, True),))
        load(walk, source, target, 0)
        for warps in walk.active.parts:
            phase = walk.named.get((name, warps), 0)
            walk.named[name, warps] = phase + 1
            walk.put("barrier_wait", warps, f"wait({name})", attrs={"barrier": f"{name}[0]"},
                     wait=(walk.shared.barriers[name][0], phase & 1))

    t.issue(operation, t.origins(src), t.origins(dst))


# -- SM to SM --------------------------------------------------------------------------------------------------------------


def remote_copy(t: Translator, call: Any, src: Region, dst: Region, marks: dict[str, Any]) -> None:
    """`T.copy_cluster(..., dst_block=, remote_barrier=)`: shared memory to that of another CTA.

    With a barrier and whole 16-byte pieces, one thread issues a bulk copy for each contiguous piece; else every thread stores
    element by element, and one arrives behind them if there is a barrier.

    Raises:
        UnknownStatement: not between shared buffers.
    """
    if src.storage.scope != "shared" or dst.storage.scope != "shared":
        raise UnknownStatement(f"a copy from {src.storage.scope} to {dst.storage.scope} memory of another CTA is not supported",
                               where=text_of(call))
    rank = t.compile(marks["dst_block"])
    t.charge(rank)
    t.touch(src.storage, dst.storage)
    name, slot = t.slot(marks["barrier"]) if "barrier" in marks else ("", "0")
    copies = _bulk_copies(src, dst) if name else 0
    where = (t.origins(src), t.origins(dst), t.uniform(rank), slot)
    if copies:
        if copies > 1:  # the compiler sets the arrival counts of all slots to the number of pieces
            array = next(b for b in t.program.barriers if b.name == name)
            array.counts = [copies] * len(array.counts)
        t.issue(BulkCopy(src, dst, name, copies), *where)
        return
    if [src.extents[d] for d in src.dims] != [dst.extents[d] for d in dst.dims]:
        raise UnknownStatement("a copy between tiles of different shapes is not supported", where=text_of(call))
    t.usage.generic.add(dst.storage)
    cast = ["elementwise"] if src.storage.dtype != dst.storage.dtype else []
    via = t.scratch(f"{src.storage.name}.reg", tuple(dst.extents[d] for d in dst.dims) or (1,), src.storage.dtype)
    t.issue(RemoteStores(t, src, dst, ["shared_load", *cast, "dsmem_store"], via, name), *where)


def _bulk_copies(src: Region, dst: Region) -> int:
    """Bulk copies that move the region, one a contiguous piece; 0 if it cannot be cut into pieces of whole 16 bytes."""
    if src.storage.dtype != dst.storage.dtype or math.prod(src.extents) != math.prod(dst.extents):
        return 0
    total = math.prod(src.extents)
    pieces = max(_pieces(src), _pieces(dst))
    if pieces > 1 and src.extents != dst.extents:
        return 0
    return pieces if total // pieces * src.storage.bits % (8 * BULK_BYTES) == 0 else 0


def _pieces(region: Region) -> int:
    """Contiguous pieces of a region."""
    inside = len(region.extents)
    while inside and region.extents[inside - 1] == region.storage.shape[inside - 1]:
        inside -= 1  # whole dimensions from here on
    return max(math.prod(region.extents[: max(inside - 1, 0)]), 1)


class BulkCopy:
    """cp.async.bulk between shared memories, issued by the first thread; completes bytes at the target's barrier."""

    def __init__(self, src: Region, dst: Region, barrier: str, copies: int) -> None:
        self.src, self.dst, self.barrier, self.copies = src, dst, barrier, copies
        self.source = f"copy({src.storage.name} -> {dst.storage.name})"

    def __call__(self, walk: Walk, src: tuple[int, ...], dst: tuple[int, ...], cta: int, slot: int) -> None:
        """Record fence and copy; the barrier behind the writes of other warps comes first."""
        walk.access((Access(self.src.storage, src, self.src.extents, False),))
        bar, warps = walk.shared.barriers[self.barrier].at(cta)[slot], walk.active.warps[:1]
        read = walk.tile(self.src.storage, src, self.src.extents)
        write = walk.tile(self.dst.storage, dst, self.dst.extents)
        walk.put("fence", warps, "fence", attrs=PROXY)
        walk.put("dsmem_copy", warps, self.source, (read,), (type(write)(write.buffer, write.origin, write.extent, cta),),
                 {"copies": self.copies}, arrive=((bar, self.copies),), tx=bar)


class RemoteStores(Copy):
    """Every thread stores its elements, one by one, into another CTA; the first arrives at its barrier afterwards."""

    def __init__(self, t: Translator, src: Region, dst: Region, steps: list[str], via: Storage, barrier: str) -> None:
        super().__init__(t, src, dst, steps, via)
        self.barrier, self.cta = barrier, 0

    def width(self, threads: int) -> int:
        """Elements a thread moves with one instruction."""
        return 1

    def _attrs(self, step: str, threads: int) -> dict[str, Any] | None:
        return None if step == "elementwise" else {"access_bytes": max(self.src.storage.bits // 8, 1)}

    def _tile(self, walk: Walk, region: Region, origin: tuple[Any, ...], share: Any) -> Any:
        tile = super()._tile(walk, region, origin, share)
        return type(tile)(tile.buffer, tile.origin, tile.extent, self.cta) if region is self.dst else tile

    def _shared_accesses(self, src: Any, dst: Any, threads: int) -> tuple[Access, ...]:
        return (Access(self.src.storage, src, self.src.extents, False, (self.extents, 1)),)

    def __call__(self, walk: Walk, src: tuple[Any, ...], dst: tuple[Any, ...], cta: int = 0, slot: int = 0) -> None:
        """Record loads, stores and the arrival."""
        self.cta = cta
        super().__call__(walk, src, dst)
        if self.barrier:
            walk.sync(implicit=False)
            bar = walk.shared.barriers[self.barrier].at(cta)[slot]
            walk.put("barrier_arrive", walk.active.warps[:1], f"arrive({self.barrier})",
                     attrs={"barrier": f"{self.barrier}[{slot}]", "count": 1}, arrive=((bar, 1),))
