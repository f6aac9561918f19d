"""`T.cumsum` and `T.cummax`: a warp scans a line in pieces of 32 elements; the lines of a tile go round the warps."""

from __future__ import annotations

from typing import Any

from ...errors import UnknownStatement
from ..expr import text_of
from ..sync import Access
from ..translate import Region, Translator
from ..walk import Walk
from ..warps import Active, Share, shifted
from . import tile_op

_PIECE = 32  #: elements that a warp scans at once
_STEPS = 5  #: shuffles by 1, 2, 4, 8 and 16 lanes


class Scan:
    """A running sum or maximum along one dimension. Tiles of one dimension are scanned by the first warp alone."""

    def __init__(self, t: Translator, src: Region, dst: Region, op: str, dim: int) -> None:
        self.src, self.dst, self.op = src, dst, op
        self.extents = src.extents
        self.dim = dim
        self.other = next((d for d, e in enumerate(self.extents) if d != dim and e > 1), None)  #: dimension of the lines
        self.pieces = -(-self.extents[dim] // _PIECE)
        self.source = f"{op}({src.storage.name} -> {dst.storage.name})"
        self.register = t.scratch(f"{src.storage.name}.scan", src.extents, src.storage.dtype)

    def shares(self, active: Active) -> list[Share]:
        """The lines of each warpgroup; `elements` fills up the last piece of a line."""
        padded = self.pieces * _PIECE
        if self.other is None:
            return [Share(active.warps[:1], (0,) * len(self.extents), self.extents, padded)]
        lines, warps, first, out = self.extents[self.other], len(active.warps), 0, []
        for part in active.parts:
            start, stop = lines * first // warps, lines * (first + len(part)) // warps
            first += len(part)
            if stop > start:
                offset, extent = [0] * len(self.extents), list(self.extents)
                offset[self.other], extent[self.other] = start, stop - start
                out.append(Share(part, tuple(offset), tuple(extent), (stop - start) * padded))
        return out

    def __call__(self, walk: Walk, src: tuple[Any, ...], dst: tuple[Any, ...]) -> None:
        """Record load, scan and store of each warpgroup."""
        pairs = [(self.src, src, False), (self.dst, dst, True)]
        walk.access(tuple(Access(r.storage, at, r.extents, w) for r, at, w in pairs if r.storage.scope == "shared"))
        wide = {"access_bytes": max(self.src.storage.bits // 8, 1)}
        for share in self.shares(walk.active):
            register = walk.tile(self.register, share.offset, share.extent)
            read = walk.tile(self.src.storage, shifted(src, share.offset), share.extent)
            write = walk.tile(self.dst.storage, shifted(dst, share.offset), share.extent)
            if self.src.storage.scope == "shared":
                walk.put("shared_load", share.warps, self.source, (read,), (register,), wide)
                read = register
            target = register if self.dst.storage.scope == "shared" else write
            ops = _STEPS + 1.0  # the last one is for the carry
            walk.put("scan", share.warps, self.source, (read,), (target,), {
                "elements": share.elements, "op": self.op, "shuffle_steps": _STEPS, "pieces": self.pieces, "alu": ops,
                "shuffle": ops})
            if self.dst.storage.scope == "shared":
                walk.put("shared_store", share.warps, self.source, (register,), (write,), wide)


@tile_op("tl.tileop.cumsum", "tl.tileop.cummax")
def scan(t: Translator, call: Any) -> None:
    """`T.cumsum(src, dst, dim)`."""
    src, dst = t.region(call.args[0]), t.region(call.args[1])
    if src.storage.scope == "global" or dst.storage.scope == "global":
        raise UnknownStatement("a scan of global memory is not supported", where=text_of(call))
    dim = t.constant(call.args[2]) % max(len(src.extents), 1)
    t.touch(src.storage, dst.storage)
    if dst.storage.scope == "shared":
        t.usage.generic.add(dst.storage)
    t.forget(dst.storage)
    t.issue(Scan(t, src, dst, str(call.op.name).rsplit(".", 1)[-1], dim), t.origins(src), t.origins(dst))
