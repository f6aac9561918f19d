"""`T.atomic_add` on tiles."""

from __future__ import annotations

from typing import Any

from ...errors import UnknownStatement
from ..bulk import store_swizzle
from ..expr import text_of
from ..translate import Translator
from . import tile_op
from .copy import Copy
from .tma import TmaStore


@tile_op("tl.tileop.atomicadd", "tl.tileop.atomicmax", "tl.tileop.atomicmin")
def atomic(t: Translator, call: Any) -> None:
    """Element-wise read-modify-write of a global tile, or one TMA reduction (`use_tma`)."""
    if type(call.args[0]).__name__ not in ("Call", "BufferLoad", "BufferRegion"):
        raise UnknownStatement("an atomic update by a scalar is not supported", where=text_of(call))
    src, dst = t.region(call.args[0]), t.region(call.args[1])
    if dst.storage.scope != "global":
        raise UnknownStatement(f"an atomic update of {dst.storage.scope} memory is not supported", where=text_of(call))
    marks = {str(k): v for k, v in dict(call.annotations or {}).items()}
    t.touch(src.storage)
    if src.storage.scope == "shared" and "use_tma" in marks and int(marks["use_tma"]):
        t.usage.stored.setdefault(src.storage, store_swizzle(dst, src.storage, runs=False))
        operation = TmaStore(t, src, dst, blocking=True, fence=src.storage in t.usage.generic)
        operation.more = {"reduce": True, "until_read": True}
        t.issue(operation, t.origins(src), t.origins(dst))
        return
    steps = ["atomic"]
    if src.storage.dtype != dst.storage.dtype:
        steps = ["elementwise", *steps]
    if src.storage.scope == "shared":
        steps = ["shared_load", *steps]
    via = None
    if len(steps) > 1:
        dtype = dst.storage.dtype if steps[0] == "elementwise" else src.storage.dtype
        via = t.scratch(f"{src.storage.name}.reg", tuple(dst.extents[d] for d in dst.dims) or (1,), dtype)
    t.issue(Copy(t, src, dst, steps, via), t.origins(src), t.origins(dst))
