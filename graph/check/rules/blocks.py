"""Blocks that use the same part of a tensor, at least one of them to write it, although nothing orders blocks.

Tiles are compared as boxes over the instance table. Left out is whatever may be no race: tiles that are bounds (a condition or a
gather decides which elements are meant), atomic updates, tensors that each block makes from a pointer (`own_place` of the graph's
meta names them), and kernels whose blocks may wait for each other through flags.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...model import KernelGraph, Node
from ..findings import Finding
from ..subject import Subject, rule

Boxes = npt.NDArray[np.int64]

_WRITES, _READS = ("tma_store", "global_store"), ("tma_load", "cp_async", "global_load")
#: Most tiles of one tensor that are looked at (the first ones), and most pairs of them: bounds the cost of huge grids.
MAX_TILES, MAX_PAIRS = 1 << 18, 1 << 22


@dataclass(frozen=True)
class _Site:
    """A tile of a template's node."""

    template: int
    node: int
    row: int
    write: bool


@rule("blocks")
def races_between_blocks(subject: Subject) -> Iterable[Finding]:
    """At most one finding a tensor."""
    graph = subject.graph
    if graph.meta.get("orders_blocks") or "grid_sync" in graph.type_names or _flags(graph) or len(graph.instances) < 2:
        return
    sites = _sites(graph)
    elsewhere = set(graph.meta.get("own_place", ()))
    for buffer, found in sites.items():
        if graph.buffers[buffer].name in elsewhere or not any(s.write for s in found):
            continue
        pair = _first_overlap(graph, buffer, found)
        if pair is not None:
            yield _finding(graph, buffer, *pair)


def _flags(graph: KernelGraph) -> bool:
    """Whether integers are updated atomically: counters or flags that may order blocks."""
    kinds = [i for i, n in enumerate(graph.type_names) if n == "atomic"]
    for t in graph.templates:
        for node in np.flatnonzero(np.isin(t.node_type, kinds)).tolist():
            targets = [x.buffer for x in graph.tiles_of(t, node) if x.mode == "write" and x.buffer.scope == "global"]
            if any(b.dtype.startswith(("int", "uint")) for b in targets):
                return True
    return False


def _sites(graph: KernelGraph) -> dict[int, list[_Site]]:
    """Exact tiles in global memory that nodes read or write, by buffer; equal ones of a template once."""
    out: dict[int, list[_Site]] = {}
    world = np.array([b.scope == "global" for b in graph.buffers], dtype=bool)
    writes, reads = ([i for i, n in enumerate(graph.type_names) if n in names] for names in (_WRITES, _READS))
    loose = np.array([bool(a.get("approximate") or a.get("reduce")) for a in graph.attrs], dtype=bool)
    for at, t in enumerate(graph.templates):
        owner = np.repeat(np.arange(t.nodes), np.diff(t.tile_ptr))
        kind = t.node_type[owner]
        put = (t.tile_mode == 2) & np.isin(kind, writes)
        used = world[t.tile_buffer] & (put | (t.tile_mode == 1) & np.isin(kind, reads)) & ~loose[t.node_attrs[owner]]
        rows = np.flatnonzero(used)
        if not len(rows):
            continue
        box = (t.tile_offset[rows], t.tile_extent[rows], t.tile_column[rows])
        parts = (t.tile_buffer[rows, None], t.tile_mode[rows, None], *box)
        key = np.concatenate([p.astype(np.int64) for p in parts], axis=1)
        _, first = np.unique(key, axis=0, return_index=True)
        for row in rows[np.sort(first)].tolist():
            out.setdefault(int(t.tile_buffer[row]), []).append(_Site(at, int(owner[row]), row, bool(put[row])))
    return out


def _first_overlap(graph: KernelGraph, buffer: int, sites: list[_Site]) -> tuple[_Site, int, _Site, int, Boxes] | None:
    """Two sites, their instances, and the box [2, rank] (low, end) that both use; a write comes first."""
    shape = np.array(graph.buffers[buffer].shape, dtype=np.int64)
    members = [np.flatnonzero(graph.instances.template == i) for i in range(len(graph.templates))]
    steps = [t.steps()[:, : len(shape)] for t in graph.templates]
    low, end, who, site, left = [], [], [], [], MAX_TILES
    for number, s in sorted(enumerate(sites), key=lambda pair: not pair[1].write):
        t, step = graph.templates[s.template], steps[s.template][s.row]
        inside, run = _runs(graph, s, members[s.template], step, left)
        left -= len(inside)
        start = t.tile_offset[s.row, : len(shape)] + run[:, None] * step
        for d, column in enumerate(t.tile_column[s.row, : len(shape)].tolist()):
            if column >= 0:
                start[:, d] += graph.instances.columns[inside, column]
        low.append(np.maximum(start, 0))
        end.append(np.minimum(start + t.tile_extent[s.row, : len(shape)], shape))
        who.append(inside)
        site.append(np.full(len(inside), number))
    lows, ends, instance, at = np.concatenate(low), np.concatenate(end), np.concatenate(who), np.concatenate(site)
    kept = (lows < ends).all(axis=1)
    lows, ends, instance, at = lows[kept], ends[kept], instance[kept], at[kept]
    written = np.array([s.write for s in sites], dtype=bool)[at]
    if not written.any():
        return None
    for a, b in _candidates(lows, ends, written):
        meet = (instance[a] != instance[b]) & (written[a] | written[b])
        meet &= ((lows[a] < ends[b]) & (lows[b] < ends[a])).all(axis=1)
        if meet.any():
            i, j = int(a[np.argmax(meet)]), int(b[np.argmax(meet)])
            if not written[i]:
                i, j = j, i
            both = np.stack([np.maximum(lows[i], lows[j]), np.minimum(ends[i], ends[j])])
            return sites[at[i]], int(instance[i]), sites[at[j]], int(instance[j]), both
    return None


def _runs(graph: KernelGraph, s: _Site, members: Boxes, step: Boxes, most: int) -> tuple[Boxes, Boxes]:
    """Instance and run of its loop body, for every tile that a site stands for; at most `most`."""
    repeat = int(graph.templates[s.template].repeat_of()[s.node])
    if repeat < 0 or not step.any():
        return members[:most], np.zeros(min(len(members), most), dtype=np.int64)
    times = np.minimum(graph.times(s.template)[:, repeat], most)
    count = int(np.searchsorted(np.cumsum(times), most)) + 1
    inside = np.repeat(members[:count], times[:count])
    before = np.repeat(np.cumsum(times[:count]) - times[:count], times[:count])
    return inside[:most], (np.arange(len(inside)) - before)[:most]


def _candidates(lows: Boxes, ends: Boxes, written: npt.NDArray[np.bool_]) -> Iterable[tuple[Boxes, Boxes]]:
    """Pairs (a, b) of boxes that may meet: they lie in one cell of a grid as wide as the widest written box."""
    width = np.maximum((ends - lows)[written].max(axis=0), 1)
    first, last = lows // width, (ends - 1) // width
    counts = (last - first + 1).prod(axis=1)
    fits = counts <= 16
    box = np.repeat(np.flatnonzero(fits), counts[fits])
    step = np.arange(len(box)) - np.repeat(np.cumsum(counts[fits]) - counts[fits], counts[fits])
    cell = np.zeros(len(box), dtype=np.int64)
    span = (last - first + 1)[box]
    for d in range(lows.shape[1]):
        cell = cell * (int(last[:, d].max()) + 2) + first[box, d] + step % span[:, d]
        step = step // span[:, d]
    order = np.argsort(cell, kind="stable")
    box, cell = box[order], cell[order]
    budget = MAX_PAIRS
    for shift in range(1, len(box)):
        near = np.flatnonzero(cell[shift:] == cell[:-shift])
        if not len(near) or budget <= 0:
            break
        budget -= len(near)
        yield box[near], box[near + shift]
    writers = np.flatnonzero(written)
    for wide in np.flatnonzero(~fits).tolist():  # reads of whole tensors
        budget -= len(writers)
        if budget <= 0:
            return
        yield writers, np.full(len(writers), wide)


def _finding(graph: KernelGraph, buffer: int, a: _Site, i: int, b: _Site, j: int, box: Boxes) -> Finding:
    name = graph.buffers[buffer].name
    nodes = [graph.node(graph.templates[s.template], s.node) for s in (a, b)]
    blocks = [tuple(graph.instances.block[n].tolist()) for n in (i, j)]
    part = f"{name}[{', '.join(f'{lo}:{hi}' for lo, hi in box.T.tolist())}]"
    if b.write:
        text = f"{_who(nodes[0], blocks[0])} and {_who(nodes[1], blocks[1])} both write {part}, and nothing orders blocks"
        fix = "Give each block its own part of the tensor, or add up with T.atomic_add."
    else:
        text = f"{_who(nodes[1], blocks[1])} reads {part}, which {_who(nodes[0], blocks[0])} writes, and nothing orders blocks"
        fix = "Write to another tensor, or split the kernel in two."
    entries = [
        {"block": list(at), "access": "write" if s.write else "read", "type": n.type, "source": n.source, "loop": n.loop}
        for at, s, n in zip(blocks, (a, b), nodes, strict=True)
    ]
    details = {"buffer": name, "box": box.T.tolist(), "first": entries[0], "second": entries[1]}
    return Finding("race", "error", graph.name, text, fix, details)


def _who(node: Node, block: tuple[int, ...]) -> str:
    return f"block {block} at {node.source or node.type}" + (f" [{node.loop}]" if node.loop else "")

