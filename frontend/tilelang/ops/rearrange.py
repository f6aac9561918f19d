"""Transposes and im2col."""

from __future__ import annotations

import math
from typing import Any

from ...errors import UnknownStatement
from ..expr import Value, text_of
from ..sync import Access
from ..translate import Region, Translator
from ..walk import Walk
from ..warps import even_shares, shifted
from ..widths import linear_lanes
from . import tile_op
from .tma import TmaLoad


class Transpose:
    """Shared to shared, element by element through registers."""

    def __init__(self, t: Translator, src: Region, dst: Region) -> None:
        self.src, self.dst = src, dst
        self.source = f"transpose({src.storage.name} -> {dst.storage.name})"
        self.register = t.scratch(f"{src.storage.name}.t", src.extents, src.storage.dtype)
        self.attrs = {"access_bytes": max(src.storage.bits // 8, 1)}
        shape = dst.storage.shape
        steps = [math.prod(shape[d + 1:]) for d in reversed(range(len(shape)))]
        self.store_attrs = {**self.attrs, **linear_lanes(steps, src.extents, 1)}  # threads go along the rows of the source

    def __call__(self, walk: Walk, src: tuple[Any, ...], dst: tuple[Any, ...]) -> None:
        """Record load and store of each warpgroup; each touches the whole tile's share of elements."""
        pairs = [(self.src, src, False), (self.dst, dst, True)]
        walk.access(tuple(Access(r.storage, at, r.extents, w) for r, at, w in pairs if r.storage.scope == "shared"))
        for share in even_shares(walk.active.parts, self.src.extents):
            register = walk.tile(self.register, share.offset, share.extent)
            read = walk.tile(self.src.storage, shifted(src, share.offset), share.extent)
            back = walk.tile(self.dst.storage, shifted(dst, tuple(reversed(share.offset))), tuple(reversed(share.extent)))
            walk.put("shared_load", share.warps, self.source, (read,), (register,), self.attrs)
            walk.put("shared_store", share.warps, self.source, (register,), (back,), self.store_attrs)


@tile_op("tl.tileop.transpose")
def transpose(t: Translator, call: Any) -> None:
    """`T.transpose(src, dst)`."""
    src, dst = t.region(call.args[0]), t.region(call.args[1])
    if {src.storage.scope, dst.storage.scope} != {"shared"} or src.extents != tuple(reversed(dst.extents)):
        raise UnknownStatement("this transposition is not supported", where=text_of(call))
    t.touch(src.storage, dst.storage)
    t.usage.generic.add(dst.storage)
    t.issue(Transpose(t, src, dst), t.origins(src), t.origins(dst))


class Gather:
    """im2col by threads: global loads of rows of channels, then shared stores."""

    def __init__(self, t: Translator, image: Region, column: Region) -> None:
        self.image, self.column = image, column
        self.source = f"im2col({image.storage.name} -> {column.storage.name})"
        self.register = t.scratch(f"{image.storage.name}.reg", column.extents, image.storage.dtype)
        row = column.extents[-1] * image.storage.bits // 8
        self.attrs = {"access_bytes": 16, "row_bytes": min(row, 512)}

    def __call__(self, walk: Walk, image: tuple[Any, ...], column: tuple[Any, ...]) -> None:
        """Record loads and stores, warpgroup by warpgroup."""
        walk.access((Access(self.column.storage, column, self.column.extents, True),))
        for share in even_shares(walk.active.parts, self.column.extents):
            register = walk.tile(self.register, share.offset, share.extent)
            read = walk.tile(self.image.storage, image, self.image.extents)
            write = walk.tile(self.column.storage, shifted(column, share.offset), share.extent)
            walk.put("global_load", share.warps, self.source, (read,), (register,), self.attrs)
            walk.put("shared_store", share.warps, self.source, (register,), (write,), {"access_bytes": 16})


@tile_op("tl.tileop.im2col")
def im2col(t: Translator, call: Any) -> None:
    """`T.im2col(image, column, pixel step, channel step, kernel, stride, dilation, pad)`. The tile of the image is the rows of
    pixels of one filter tap that the column tile needs; rows that two taps share count for each."""
    image, column = t.region(call.args[0]), t.region(call.args[1])
    step, channel = t.compile(call.args[2]), t.compile(call.args[3])
    kernel, stride, dilation, pad = (t.constant(a) for a in call.args[4:8])
    _, height, width, channels = image.storage.shape
    pixels, depth = column.extents[-2:]
    high = (height + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    wide = (width + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    flags = step.flags
    first = f"({step.src} * {pixels})"
    tap = f"({channel.src} * {depth} // {channels})"
    mins = (Value(f"({first} // {high * wide})", flags),
            Value(f"({first} % {high * wide} // {wide} * {stride} - {pad} + {tap} // {kernel} * {dilation})",
                  flags | channel.flags),
            Value(f"({tap} % {kernel} * {dilation} - {pad})", channel.flags),
            Value(f"({channel.src} * {depth} % {channels})", channel.flags))
    rows = min(-(-pixels // wide), high)
    images = max(pixels // (high * wide), 1)
    tile = Region(image.storage, mins, (images, rows, min(pixels, wide), min(depth, channels)))
    t.touch(column.storage)
    marks = dict(call.annotations) if call.annotations else {}
    if "barrier" not in marks:
        t.usage.generic.add(column.storage)
        t.issue(Gather(t, tile, column), t.origins(tile), t.origins(column))
        return
    name, slot = t.slot(marks["barrier"])
    t.usage.swizzled.add(column.storage)
    t.usage.loaded.add(column.storage)
    load = TmaLoad(t, tile, column, name, "emit_arrive" in marks and bool(int(marks["emit_arrive"])), 0)
    load.given = {"tensor_map": True, "box": (1, 1, min(math.prod(tile.extents[:3]), 256), tile.extents[3])}
    t.issue(load, t.origins(tile), t.origins(column), slot)
