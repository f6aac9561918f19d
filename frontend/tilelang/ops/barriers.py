"""mbarriers, block barriers, fences."""

from __future__ import annotations

from typing import Any

from ...errors import UnknownStatement
from ..expr import text_of
from ..program import BarrierArray
from ..translate import Translator
from ..walk import Walk
from . import tile_op


class _Slots:
    """Handles and attribute sets of one barrier array, made once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.attrs: dict[tuple[int, int], dict[str, Any]] = {}

    def of(self, slot: int, count: int = 0) -> dict[str, Any]:
        """Attributes of an arrival (`count` > 0) or a wait on one slot."""
        found = self.attrs.get((slot, count))
        if found is None:
            found = self.attrs[slot, count] = {"barrier": f"{self.name}[{slot}]", **({"count": count} if count else {})}
        return found


class Wait(_Slots):
    """Each warpgroup waits for itself."""

    def __call__(self, walk: Walk, slot: int, parity: int) -> None:
        """Record the waits."""
        wait = (walk.shared.barriers[self.name][slot], parity & 1)
        attrs, source = self.of(slot), f"wait({self.name})"
        for warps in walk.active.parts:
            walk.put("barrier_wait", warps, source, attrs=attrs, wait=wait)


class Arrive(_Slots):
    """Every active lane arrives."""

    def __call__(self, walk: Walk, slot: int) -> None:
        """Record the arrivals, a node a warpgroup."""
        active, bar = walk.active, walk.shared.barriers[self.name][slot]
        for warps, lanes in zip(active.parts, active.lanes, strict=True):
            walk.put("barrier_arrive", warps, f"arrive({self.name})", attrs=self.of(slot, lanes), arrive=((bar, lanes),))


@tile_op("tl.mbarrier_wait_parity", "tirx.mbarrier_wait_parity", "tl.mbarrier_wait")
def mbarrier_wait(t: Translator, call: Any) -> None:
    """`T.mbarrier_wait_parity(bar[i], parity)`."""
    name, slot = t.slot(call.args[0])
    parity = t.compile(call.args[1])
    t.charge(parity)
    t.issue(Wait(name), slot, f"R.parity({t.uniform(parity)})")


@tile_op("tirx.ptx_arrive_barrier", "tl.ptx_arrive_barrier", "tirx.ptx_arrive_barrier_expect_tx")
def mbarrier_arrive(t: Translator, call: Any) -> None:
    """`T.mbarrier_arrive(bar[i])`; the byte count of the expect_tx form follows from the loads that name the barrier."""
    name, slot = t.slot(call.args[0])
    t.issue(Arrive(name), slot)


@tile_op("tl.mbarrier_expect_tx")
def mbarrier_expect_tx(t: Translator, call: Any) -> None:
    """Raises the pending byte count; the loads that name the barrier say the same."""
    _, _ = t.slot(call.args[0])


class Rendezvous:
    """A named barrier that warps of several roles meet at. `waits`: bar.sync, else bar.arrive."""

    def __init__(self, name: str, count: int, waits: bool) -> None:
        self.name, self.count, self.waits = name, count, waits

    def __call__(self, walk: Walk) -> None:
        """Record an arrival of each warpgroup, then the waits."""
        active, bar = walk.active, walk.shared.barriers[self.name][0]
        if self.waits and active.threads == self.count:
            walk.sync(implicit=False)
            return
        for warps, lanes in zip(active.parts, active.lanes, strict=True):
            walk.put("barrier_arrive", warps, f"arrive({self.name})", attrs={"barrier": self.name, "count": lanes},
                     arrive=((bar, lanes),))
        for warps in active.parts:
            phase = walk.named.get((self.name, warps), 0)
            walk.named[self.name, warps] = phase + 1
            if self.waits:
                walk.put("barrier_wait", warps, f"sync({self.name})", attrs={"barrier": self.name}, wait=(bar, phase & 1))
        walk.hazards.clear(active)


def _named(t: Translator, number: Any, count: Any, waits: bool) -> None:
    name, threads = f"named{t.constant(number)}", t.constant(count)
    known = next((b for b in t.program.barriers if b.name == name), None)
    if known is None:
        t.program.barriers.append(BarrierArray(name, [threads], named=True))
    elif known.counts != [threads]:
        raise UnknownStatement(f"named barrier {name!r} is used with {known.counts[0]} and {threads} threads")
    t.issue(Rendezvous(name, threads, waits))


@tile_op("tirx.tvm_storage_sync")
def storage_sync(t: Translator, call: Any) -> None:
    """`__syncthreads()` or a named barrier."""
    if len(call.args) > 2:
        _named(t, call.args[1], call.args[2], True)
        return

    def sync(walk: Walk) -> None:
        walk.sync(implicit=False)

    t.issue(sync)


@tile_op("tl.named_barrier_arrive")
def named_arrive(t: Translator, call: Any) -> None:
    """`bar.arrive id, count`."""
    _named(t, call.args[0], call.args[1], False)


@tile_op("tl.sync_grid")
def sync_grid(t: Translator, call: Any) -> None:
    """Cooperative grid barrier."""
    def sync(walk: Walk) -> None:
        walk.put("grid_sync", walk.active.warps, "sync_grid")
        walk.hazards.clear(walk.active)

    t.issue(sync)


@tile_op("tl.clc_try_cancel", "tl.clc_try_cancel_multicast")
def not_yet(t: Translator, call: Any) -> None:
    """Cluster launch control (Blackwell)."""
    raise UnknownStatement(f"{call.op.name} is not supported yet: cluster launch control is not modelled", where=text_of(call))


@tile_op("tl.fence_proxy_async", "tl.fence_barrier_init")
def fence_proxy(t: Translator, call: Any) -> None:
    """Generic to async proxy fence."""
    t.issue(Fence())


class Fence:
    """A proxy fence of each warpgroup, or of one elected warp."""

    def __init__(self, elected: bool = False) -> None:
        self.elected = elected

    def __call__(self, walk: Walk) -> None:
        """Record the fences."""
        for warps in ((walk.active.warps[:1],) if self.elected else walk.active.parts):
            walk.put("fence", warps, "fence", attrs=_PROXY)


_PROXY = {"kind": "proxy_async"}
