"""Layouts of on-chip buffers, behind `LayoutInference`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...program import dtype_of
from ..facts import BufferFacts
from ..ir import find, integer
from . import View, reader

_LINE = 128  #: bytes over which the swizzles repeat
_CHUNK = 16  #: bytes they move together


@reader("buffers", after="tl.LayoutInference")
def read(view: View) -> tuple[BufferFacts, ...]:
    """Shared buffers and fragments in the order they are allocated."""
    layouts: dict[Any, Any] = {}
    allocated: list[Any] = []
    for block in find(view.body, "SBlock"):
        for buffer, layout in dict(block.annotations.get("layout_map", {})).items():
            layouts[getattr(buffer, "data", buffer)] = layout
    for block in find(view.captured, "SBlock"):
        allocated.extend(block.alloc_buffers)
    out: list[BufferFacts] = []
    seen: dict[str, int] = {}
    for buffer in allocated:
        scope = str(buffer.scope())
        if scope not in ("shared", "shared.dyn", "local.fragment"):
            continue
        name = str(buffer.data.name)
        number = seen[name] = seen.get(name, -1) + 1
        out.append(_facts(f"{name}#{number}" if number else name, buffer, layouts.get(buffer.data)))
    return tuple(out)


def _facts(name: str, buffer: Any, layout: Any) -> BufferFacts:
    fragment = str(buffer.scope()) == "local.fragment"
    shape = [integer(e) for e in buffer.shape]
    total = 1
    for extent in shape:
        total *= extent or 0
    if layout is None:
        return BufferFacts(name=name, scope="fragment" if fragment else "shared", swizzle_bytes=None if fragment else 0,
                           elements=0 if fragment else total)
    stored = 1
    for extent in layout.get_output_shape():
        stored *= integer(extent) or 0
    text = ", ".join(str(e) for e in layout.get_forward_index())
    if fragment:
        replicas = integer(layout.replicate_size) or 1
        return BufferFacts(name=name, scope="fragment", elements=stored, replicas=replicas, layout=text)
    return BufferFacts(name=name, scope="shared", swizzle_bytes=swizzle_span(layout, buffer), elements=stored, layout=text)


def swizzle_span(layout: Any, buffer: Any) -> int | None:
    """Span of the swizzle of a layout: 128, 64 or 32 bytes, 0 if rows lie as they are, None if it is something else.

    The hardware's swizzles exclusive-or the number of the 16-byte chunk with bits of the number of the 128-byte line. The right
    span is the narrowest that, undone, leaves each row contiguous, and rows at a constant distance.
    """
    bits = _bits(buffer)
    inner, rows = integer(buffer.shape[-1]) or 0, integer(buffer.shape[-2]) if len(buffer.shape) > 1 else 1
    step = max(_CHUNK * 8 // bits, 1)
    places = [[at * bits // 8 for at in _row(layout, buffer, row, range(0, min(inner, 8 * step), step))]
              for row in range(min(rows or 1, 8))]
    for span in (0, 32, 64, 128):
        row_bytes = min(inner * bits // 8, span or inner * bits // 8)
        chunks = max(min(row_bytes // _CHUNK, len(places[0])), 1)
        plain = [[_undo(at, span) for at in row[:chunks]] for row in places]
        if all(b - a == _CHUNK for row in plain for a, b in zip(row, row[1:], strict=False)) \
                and len({b[0] - a[0] for a, b in zip(plain, plain[1:], strict=False)}) <= 1:
            return span
    return None


def _row(layout: Any, buffer: Any, row: int, columns: range) -> Iterator[int]:
    shape = [integer(e) or 1 for e in layout.get_output_shape()]
    rank = len(buffer.shape)
    for column in columns:
        at = 0
        for place, extent in zip(layout.map_forward_index([0] * (rank - 2) + [row, column][-min(rank, 2):]), shape, strict=True):
            at = at * extent + (integer(place) or 0)
        yield at


def _undo(byte: int, span: int) -> int:
    return byte ^ ((byte // _LINE & max(span // _CHUNK - 1, 0)) * _CHUNK)


def _bits(buffer: Any) -> int:
    from .....graph import dtype_bits

    return dtype_bits(dtype_of(buffer))
