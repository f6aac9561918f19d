"""`T.fill` / `T.clear`."""

from __future__ import annotations

import math
from typing import Any

from ..sync import Access
from ..translate import Region, Translator
from ..walk import Walk
from . import tile_op


class Fill:
    """Each warpgroup sets its part of a tile to a constant."""

    def __init__(self, t: Translator, region: Region) -> None:
        self.region, self.layouts = region, t.layouts
        self.source = f"fill({region.storage.name})"
        self.extents = tuple(region.extents[d] for d in region.dims)
        self._plans: dict[Any, list[Any]] = {}

    def __call__(self, walk: Walk, origin: tuple[Any, ...]) -> None:
        """Record one node a warpgroup."""
        active, storage = walk.active, self.region.storage
        plan = self._plans.get(active)
        if plan is None:
            dims = self.region.dims
            index = [dims.index(d) if d in dims else None for d in range(len(self.region.extents))]
            shares = self.layouts.shares(active, self.extents, [(storage, index)] if storage.scope == "fragment" else [])
            plan = self._plans[active] = [(s, {"elements": s.elements, "alu": 1.0, "depth": 1}) for s in shares]
        kind = "fill"
        if storage.scope == "shared":
            walk.access((Access(storage, origin, self.region.extents, True, (self.extents, 0)),))
            kind = "shared_store"
        elif storage.scope == "global":
            kind = "global_store"
        for share, attrs in plan:
            at, extent = list(origin), list(self.region.extents)
            for i, d in enumerate(self.region.dims):
                at[d], extent[d] = at[d] + share.offset[i], share.extent[i]
            tile = walk.tile(storage, tuple(at), tuple(extent))
            walk.put(kind, share.warps, self.source, (), (tile,),
                     attrs if kind == "fill" else {"access_bytes": self._bytes(walk)})

    def _bytes(self, walk: Walk) -> int:
        total = math.prod(self.extents) * self.region.storage.bits // 8
        return max(min(16, total // max(walk.active.threads, 1)), 1)


@tile_op("tl.tileop.fill", "tl.tileop.reducer_init")
def fill(t: Translator, call: Any) -> None:
    """`T.fill(region, value)`."""
    region = t.region(call.args[0])
    t.touch(region.storage)
    if region.storage.scope == "shared":
        t.usage.generic.add(region.storage)
    t.issue(Fill(t, region), t.origins(region))
    if region.storage in t.tracked and not t.is_scalar(region.storage):
        mins = ", ".join(v.src for v in region.mins)
        value = t.compile(call.args[1]).src
        t.line(f"R.contents.fill({region.storage.index}, ({mins},), {region.extents}, {value})")
