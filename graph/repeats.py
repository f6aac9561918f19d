"""Loop bodies that repeat: stored once, run as often as an instance says.

A template with repeats is built with two alike periods of each loop, segment 3 r + 1 (once) and 3 r + 2 (the repeated one).
:func:`in_segments` brings the nodes into an order in which both stand as blocks of the same inner order, :func:`fold` compares
them node by node and edge by edge and notes how the second continues, :func:`unroll` writes the runs out.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .errors import GraphError
from .handles import Column
from .model import TEMPLATE_ARRAYS, KernelGraph, Template
from .replay import Draft

_LAST_NUMBER = re.compile(r"(\d+)(?!.*\d)")


class NotPeriodic(GraphError):
    """The two periods of a repeated loop body are not alike."""


def in_segments(drafts: Sequence[Draft], order: Sequence[int], where: str) -> list[int]:
    """The execution order `order` with the nodes of each segment together, segments in ascending order. Within the periods of a
    repeat the order depends on their inner edges only.

    Raises:
        NotPeriodic: a node waits for one of a later segment.
    """
    groups: dict[int, list[int]] = {}
    for i in order:
        draft = drafts[i]
        for source in (*draft.program, *draft.preds):
            if drafts[source].segment > draft.segment:
                raise NotPeriodic(f"node {i} waits for node {source} of a later part of the loop", where=where)
        groups.setdefault(draft.segment, []).append(i)
    out: list[int] = []
    for segment in sorted(groups):
        out += groups[segment] if segment % 3 == 0 else _by_number(drafts, groups[segment])
    return out


def _by_number(drafts: Sequence[Draft], members: list[int]) -> list[int]:
    """Nodes in an order that respects the edges among them; of those that could be next, the one appended first."""
    inside = set(members)
    missing, behind = {}, {i: [] for i in members}  # type: dict[int, int], dict[int, list[int]]
    for i in members:
        before = {s for s in (*drafts[i].program, *drafts[i].preds) if s in inside}
        missing[i] = len(before)
        for s in before:
            behind[s].append(i)
    ready = [i for i in members if missing[i] == 0]
    heapq.heapify(ready)
    out = []
    while ready:
        i = heapq.heappop(ready)
        out.append(i)
        for j in behind[i]:
            missing[j] -= 1
            if missing[j] == 0:
                heapq.heappush(ready, j)
    return out


def fold(t: Template, segments: Any, times: Sequence[int | Column], strings: Sequence[str], on_chip: Sequence[bool]) -> Template:
    """Mark the repeated periods of a flat template.

    Args:
        t: nodes in the order of :func:`in_segments`.
        segments: int[nodes].
        times: how often each repeated period runs.
        strings: string table of the graph, for loop labels.
        on_chip: whether each buffer is; its tiles must come back to the same place each period.

    Raises:
        NotPeriodic: the two periods of a repeat differ; says where.
    """
    firsts = [int(np.searchsorted(segments, 3 * r + 2)) for r in range(len(times))]
    ends = [int(np.searchsorted(segments, 3 * r + 2, side="right")) for r in range(len(times))]
    each = np.zeros(t.edges, dtype=bool)
    moving = np.array(on_chip, dtype=bool)
    steps, loops = [], []
    for r, (first, end) in enumerate(zip(firsts, ends, strict=True)):
        count = end - first
        if count == 0 or int(np.searchsorted(segments, 3 * r + 1)) != first - count:
            raise NotPeriodic(f"repeat {r}: its two periods have {first - int(np.searchsorted(segments, 3 * r + 1))} and {count} "
                              "nodes", where=t.name)
        steps.append(_compare_nodes(t, first, count))
        _refuse_moving(t, first, count, steps[-1], moving)
        loops.append(_compare_labels(t, first, count, strings))
        _compare_edges(t, first, count, each)
    source = t.edge_src()
    into = np.isin(segments[t.edge_dst], [3 * r + 2 for r in range(len(times))])
    out = np.isin(segments[source], [3 * r + 2 for r in range(len(times))])
    if (into & out & (segments[t.edge_dst] != segments[source])).any():
        raise NotPeriodic("an edge leads from one repeated period into another", where=t.name)
    given = [(n.delta, n.index) if isinstance(n, Column) else (int(n), -1) for n in times]
    arrays: dict[str, Any] = {
              "edge_each": each, "repeat_first": firsts, "repeat_nodes": [e - f for f, e in zip(firsts, ends, strict=True)],
              "repeat_times": [g[0] for g in given], "repeat_column": [g[1] for g in given], "repeat_loop": loops,
              "repeat_step": np.concatenate(steps)}
    arrays = {k: np.asarray(v).astype(TEMPLATE_ARRAYS[k][0]) for k, v in arrays.items()}
    return replace(t, **arrays)


def _compare_nodes(t: Template, first: int, count: int) -> Any:
    """Steps [tiles, rank] from the period before to the one at `first`."""
    a, b = slice(first - count, first), slice(first, first + count)
    for name in ("type", "warps", "cta", "blocking", "attrs", "source", "role"):
        values = getattr(t, f"node_{name}")
        wrong = np.flatnonzero(values[a] != values[b])
        if len(wrong):
            raise NotPeriodic(f"nodes {first - count + wrong[0]} and {first + wrong[0]} differ in {name}", where=t.name)
    ptr = t.tile_ptr
    if not (np.diff(ptr[first - count:first + 1]) == np.diff(ptr[first:first + count + 1])).all():
        raise NotPeriodic("the tiles of two periods differ", where=t.name)
    x, y = slice(ptr[first - count], ptr[first]), slice(ptr[first], ptr[first + count])
    for name in ("buffer", "mode", "cta", "column", "extent"):
        values = getattr(t, f"tile_{name}")
        if not (values[x] == values[y]).all():
            raise NotPeriodic(f"the tiles of two periods differ in {name}", where=t.name)
    return t.tile_offset[y] - t.tile_offset[x]


def _refuse_moving(t: Template, first: int, count: int, step: Any, on_chip: Any) -> None:
    """Refuse what two periods cannot show: on-chip tiles that move on, and tensors that a moving tile writes and another one
    reads."""
    rows = np.arange(t.tile_ptr[first], t.tile_ptr[first + count])
    moves = step.any(axis=1)
    if (moves & on_chip[t.tile_buffer[rows]]).any():
        raise NotPeriodic("an on-chip tile moves from period to period", where=t.name)
    before = int(t.tile_ptr[first - count])
    for buffer in np.unique(t.tile_buffer[rows[moves]]).tolist():
        mine = np.flatnonzero(t.tile_buffer == buffer)
        modes = set(t.tile_mode[mine].tolist())
        inside = mine[(mine >= before) & (mine <= rows[-1])]
        here = mine[(mine >= rows[0]) & (mine <= rows[-1])]
        boxes = np.unique(np.concatenate([t.tile_offset[here], t.tile_extent[here], t.tile_column[here]], axis=1), axis=0)
        if len(modes) > 1 and (len(inside) < len(mine) or len(boxes) > 1):
            raise NotPeriodic("a tensor is written by tiles that move on, and read elsewhere", where=t.name)


def _compare_labels(t: Template, first: int, count: int, strings: Sequence[str]) -> int:
    """How much the last number of the loop labels grows a period."""
    found = set()
    for a, b in zip(t.node_loop[first - count:first].tolist(), t.node_loop[first:first + count].tolist(), strict=True):
        if a == b == 0:
            continue
        one, two = _LAST_NUMBER.search(strings[a]), _LAST_NUMBER.search(strings[b])
        if one is None or two is None or strings[a][:one.start()] + strings[a][one.end():] \
                != strings[b][:two.start()] + strings[b][two.end():]:
            raise NotPeriodic(f"the loops {strings[a]!r} and {strings[b]!r} of two periods differ", where=t.name)
        found.add(int(two.group()) - int(one.group()))
    if len(found) > 1:
        raise NotPeriodic("the loop labels of two periods differ by several steps", where=t.name)
    return found.pop() if found else 0


def _compare_edges(t: Template, first: int, count: int, each: Any) -> None:
    """Compare the edges of two periods; sets `each` for edges that leave every run."""
    source = t.edge_src()
    dst = t.edge_dst
    facts = np.stack([source, dst, t.edge_kind, t.edge_reason, t.edge_label], axis=1).astype(np.int64)
    start, end = first - count, first + count
    in_a, in_b = (dst >= start) & (dst < first), (dst >= first) & (dst < end)
    out_a, out_b = (source >= start) & (source < first), (source >= first) & (source < end)

    def rows(which: Any, move_source: int, move_dst: int) -> set[tuple[int, ...]]:
        moved = facts[which] + np.array([move_source, move_dst, 0, 0, 0])
        return set(map(tuple, moved.tolist()))

    if rows(in_a & out_a, count, count) != rows(in_b & out_b, 0, 0):
        raise NotPeriodic("the edges inside two periods differ", where=t.name)
    lost = rows(in_b & ~out_b & ~out_a, 0, 0) - rows(in_a & ~out_a, 0, count)
    if lost:
        raise NotPeriodic(f"node {min(lost)[1]} depends on node {min(lost)[0]}, more than a period earlier", where=t.name)
    behind = rows(out_b & ~in_b, 0, 0)
    earlier = rows(out_a & ~in_a & ~in_b, count, 0)
    if earlier - behind:
        raise NotPeriodic(f"node {min(earlier)[1]} depends on a period that is not the last", where=t.name)
    for e in np.flatnonzero(out_b & ~in_b).tolist():
        each[e] = tuple(facts[e].tolist()) in earlier


def unroll(graph: KernelGraph) -> KernelGraph:
    """The same graph without repeats: one flat template for each combination of template and numbers of runs."""
    if not any(len(t.repeat_first) for t in graph.templates):
        return graph
    strings = list(graph.strings)
    known = {s: i for i, s in enumerate(strings)}

    def string(text: str) -> int:
        at = known.setdefault(text, len(strings))
        if at == len(strings):
            strings.append(text)
        return at

    templates: list[Template] = []
    ids = np.zeros(len(graph.instances), dtype=np.int32)
    for i, t in enumerate(graph.templates):
        mine = np.flatnonzero(graph.instances.template == i)
        runs, which = np.unique(graph.times(i), axis=0, return_inverse=True)
        ids[mine] = len(templates) + which.reshape(-1)
        for row in runs.tolist():
            flat = _written_out(t, row, graph.strings, string)
            templates.append(replace(flat, name=t.name if len(runs) == 1 else f"{t.name}, {row} runs"))
    return replace(graph, strings=tuple(strings), templates=tuple(templates), instances=replace(graph.instances, template=ids))


def _written_out(t: Template, times: Sequence[int], strings: Sequence[str], string: Any) -> Template:
    repeat = t.repeat_of()
    runs = np.where(repeat >= 0, np.asarray([*times, 1])[repeat], 1)
    # stored node and run of every node, in order
    stored, run = [], []
    at = 0
    for r, (first, count) in enumerate(zip(t.repeat_first.tolist(), t.repeat_nodes.tolist(), strict=True)):
        stored += [np.arange(at, first), np.tile(np.arange(first, first + count), times[r])]
        run += [np.zeros(first - at, dtype=np.int64), np.repeat(np.arange(times[r]), count)]
        at = first + count
    node = np.concatenate([*stored, np.arange(at, t.nodes)])
    copy = np.concatenate([*run, np.zeros(t.nodes - at, dtype=np.int64)])
    position = np.zeros(t.nodes, dtype=np.int64)
    position[node[copy == 0]] = np.flatnonzero(copy == 0)
    length = np.where(repeat >= 0, np.asarray([*t.repeat_nodes, 0])[repeat], 0)
    edges = []
    source = t.edge_src()
    for e, (u, v) in enumerate(zip(source.tolist(), t.edge_dst.tolist(), strict=True)):
        ru, rv = int(repeat[u]), int(repeat[v])
        pairs = [(0, 0)]
        if ru >= 0 and ru == rv:
            pairs = [(c, c) for c in range(runs[u])]
        elif rv >= 0 and int(t.repeat_first[rv]) - int(t.repeat_nodes[rv]) <= u < int(t.repeat_first[rv]):
            after = u + int(t.repeat_nodes[rv])
            edges += [(position[after] + length[after] * (c - 1), position[v] + length[v] * c, e) for c in range(1, runs[v])]
        elif rv >= 0:
            pairs = [(0, c) for c in range(runs[v])]
        elif ru >= 0:
            pairs = [(c, 0) for c in range(0 if t.edge_each[e] else runs[u] - 1, runs[u])]
        edges += [(position[u] + length[u] * a, position[v] + length[v] * b, e) for a, b in pairs]
    edge = np.array(sorted(edges), dtype=np.int64).reshape(-1, 3)
    sizes = np.diff(t.tile_ptr)[node]
    tile = np.repeat(t.tile_ptr[node] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) + np.arange(sizes.sum())
    loops = t.node_loop[node].copy()
    for i in np.flatnonzero((copy > 0) & (loops > 0)).tolist():
        loops[i] = string(run_label(strings[loops[i]], int(copy[i]) * int(t.repeat_loop[repeat[node[i]]])))
    arrays: dict[str, Any] = {k: getattr(t, k)[node] for k, (_, s) in TEMPLATE_ARRAYS.items() if s == "nodes"}
    arrays |= {k: getattr(t, k)[tile] for k, (_, s) in TEMPLATE_ARRAYS.items() if s.startswith("tiles")}
    arrays |= {k: getattr(t, k)[edge[:, 2]] for k, (_, s) in TEMPLATE_ARRAYS.items() if s == "edges"}
    arrays |= {k: getattr(t, k)[:0] for k, (_, s) in TEMPLATE_ARRAYS.items() if s in ("repeats", "steps,rank")}
    moved = np.repeat(copy, sizes)[:, None] * t.steps()[tile]
    counts = np.bincount(edge[:, 0], minlength=len(node))
    arrays |= {"node_loop": loops, "tile_offset": t.tile_offset[tile] + moved, "edge_dst": edge[:, 1],
               "tile_version": _versions(t, node, copy, tile, sizes), "edge_each": np.zeros(len(edge), dtype=bool),
               "tile_ptr": np.concatenate([[0], np.cumsum(sizes)]), "edge_ptr": np.concatenate([[0], np.cumsum(counts)])}
    return Template(t.name, **{k: np.asarray(v).astype(TEMPLATE_ARRAYS[k][0]) for k, v in arrays.items()})


def _versions(t: Template, node: Any, copy: Any, tile: Any, sizes: Any) -> Any:
    """Versions of the tiles of all runs: a run writes as many versions of a buffer as the stored period."""
    version = t.tile_version[tile].astype(np.int64)
    buffer, owner = t.tile_buffer[tile], np.repeat(np.arange(len(node)), sizes)
    for first, count in zip(t.repeat_first.tolist(), t.repeat_nodes.tolist(), strict=True):
        period = slice(int(t.tile_ptr[first]), int(t.tile_ptr[first + count]))
        before = slice(0, int(t.tile_ptr[first - count]))
        wrote = np.bincount(t.tile_buffer[period][t.tile_mode[period] == 2], minlength=int(t.tile_buffer.max(initial=-1)) + 1)
        known = np.bincount(t.tile_buffer[before][t.tile_mode[before] == 2], minlength=len(wrote))
        inside = (node >= first) & (node < first + count)
        runs = np.where(inside, copy, np.where(node >= first + count, copy[inside].max(), 0))[owner]
        version += np.where(t.tile_version[tile] > known[buffer], wrote[buffer] * runs, 0)
    return version


def run_label(label: str, amount: int) -> str:
    """A loop label whose last number is `amount` larger."""
    return _LAST_NUMBER.sub(lambda m: str(int(m.group()) + amount), label, count=1) if amount else label
