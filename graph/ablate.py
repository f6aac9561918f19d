"""Graphs without some of their constraints, to see what each class of them is worth.

Two classes are not data: the *program order* of a warp's operations, and the *synchronisation* between operations (mbarrier
phases, and with them the reuse of ring slots; block barriers; commit groups; fences). A graph without them asks the same of the
hardware but lets more overlap than any GPU would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from .model import TEMPLATE_ARRAYS, EdgeKind, KernelGraph, Reason, Template
from .registry import node_type

#: Synchronisation that holds back what follows it, and does not wait for what its warps did before.
ACQUIRES = ("barrier_wait", "wait_group", "cluster_wait")
_Edges = dict[tuple[int, int], tuple[int, int, int]]


def without(graph: KernelGraph, *, order: bool = False, synchronisation: bool = False) -> KernelGraph:
    """`graph`, its repeats written out, with fewer constraints. Data edges always stay.

    Args:
        graph: any kernel graph.
        order: drop program order. An operation still comes behind the synchronisation in front of it in its program, and
            synchronisation that releases others (arrivals, barriers, fences, commits) behind the operations in front of it.
        synchronisation: drop synchronising nodes, and every edge that is neither data nor program order. The program order of
            the operations around them stays, unless `order`.
    """
    flat = graph.unrolled()
    sync = np.array([node_type(name).sync for name in flat.type_names], dtype=bool)
    acquires = np.array([name in ACQUIRES for name in flat.type_names], dtype=bool)
    return replace(flat, templates=tuple(
        _template(t, sync[t.node_type], acquires[t.node_type], order, synchronisation) for t in flat.templates))


def _template(t: Template, sync: Any, acquires: Any, drop_order: bool, drop_sync: bool) -> Template:
    keep = ~sync if drop_sync else np.ones(t.nodes, dtype=bool)
    if not keep.any():
        return t  # nothing but synchronisation: there is nothing to overlap
    edges: _Edges = {}
    if not drop_order or not drop_sync:
        for a, b in _program(t, sync, acquires, keep, drop_order):
            kind = EdgeKind.COMPLETE if t.node_blocking[a] else EdgeKind.ISSUE
            edges[a, b] = (int(kind), int(Reason.PROGRAM), -1)
    rows = zip(t.edge_src().tolist(), t.edge_dst.tolist(), t.edge_kind.tolist(), t.edge_reason.tolist(), t.edge_label.tolist(),
               strict=True)
    for a, b, kind, reason, label in rows:
        data = reason == Reason.DATA
        # A SYNC edge into work is the program order of a warp that joins others there.
        gate = reason not in (Reason.PROGRAM, Reason.DATA) and (reason != Reason.SYNC or bool(sync[b]))
        if keep[a] and keep[b] and (data or gate and not drop_sync):
            old = edges.get((a, b))
            if old is None or data or old[0] == EdgeKind.ISSUE:
                edges[a, b] = (kind, reason, label)
    return _select(t, keep, edges)


def _program(t: Template, sync: Any, acquires: Any, keep: Any, drop_order: bool) -> Iterable[tuple[int, int]]:
    """Pairs of nodes that the programs of the warps order. The nodes of a template stand in the order of every program."""
    lanes: dict[tuple[int, int], list[int]] = {}
    for i in np.flatnonzero(keep).tolist():
        mask = int(t.node_warps[i])
        for w in range(mask.bit_length()):
            if mask >> w & 1:
                lanes.setdefault((int(t.node_cta[i]), w), []).append(i)
    for nodes in lanes.values():
        if not drop_order:
            yield from zip(nodes, nodes[1:], strict=False)
            continue
        last, open_ = -1, list[int]()
        for i in nodes:
            if last >= 0:
                yield last, i
            if not sync[i]:
                open_.append(i)
                continue
            last = i
            if not acquires[i]:
                yield from ((a, i) for a in open_)
                open_.clear()


def _select(t: Template, keep: Any, edges: _Edges) -> Template:
    """The nodes in `keep` of a template without repeats, with these edges."""
    at = np.cumsum(keep) - 1
    count = int(keep.sum())
    rows = np.array(sorted((int(at[a]), int(at[b]), *e) for (a, b), e in edges.items()), dtype=np.int64).reshape(-1, 5)
    sizes = np.diff(t.tile_ptr)
    tiles = np.repeat(keep, sizes)
    arrays: dict[str, Any] = {}
    for name, (_, shape) in TEMPLATE_ARRAYS.items():
        if shape == "nodes":
            arrays[name] = getattr(t, name)[keep]
        elif shape.startswith("tiles"):
            arrays[name] = getattr(t, name)[tiles]
    arrays["tile_ptr"] = np.concatenate([[0], np.cumsum(sizes[keep])])
    arrays["edge_ptr"] = np.concatenate([[0], np.cumsum(np.bincount(rows[:, 0], minlength=count))])
    for column, name in enumerate(("edge_dst", "edge_kind", "edge_reason", "edge_label"), start=1):
        arrays[name] = rows[:, column]
    arrays["edge_each"] = np.zeros(len(rows), dtype=bool)
    arrays = {k: np.asarray(v).astype(TEMPLATE_ARRAYS[k][0]) for k, v in arrays.items()}
    return replace(t, **arrays)
