"""Which nodes are ordered behind which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..model import EdgeKind, Template

_ISSUE = int(EdgeKind.ISSUE)
_CHUNK = 8192  #: nodes whose predecessors are looked for at once: bounds the memory of large templates


def topological(t: Template) -> tuple[list[int], list[int]]:
    """An order of the nodes that respects every edge, and the nodes that are left because they wait in a circle."""
    left = np.bincount(t.edge_dst, minlength=t.nodes).tolist()
    ptr, dst = t.edge_ptr.tolist(), t.edge_dst.tolist()
    order = [i for i, n in enumerate(left) if n == 0]
    for i in order:  # grows while it is walked
        for j in dst[ptr[i] : ptr[i + 1]]:
            left[j] -= 1
            if left[j] == 0:
                order.append(j)
    return order, [i for i, n in enumerate(left) if n > 0]


def unordered(
    t: Template,
    order: Sequence[int],
    pairs: Sequence[tuple[int, int, int]],
    runs_on: Sequence[bool],
    in_order: Sequence[bool],
    skip: npt.NDArray[np.bool_],
) -> list[tuple[int, int, int]]:
    """The pairs (before, after, ...) of which `after` may run before `before` has completed.

    Args:
        order: nodes in topological order.
        pairs: what to prove.
        runs_on: nodes that go on when their warps do; only edges of completion order others behind them.
        in_order: nodes of a unit that works in order: behind another of them, issue order is enough.
        skip: edges that carry no order.
    """
    out: list[tuple[int, int, int]] = []
    targets = sorted({after for _, after, _ in pairs})
    kept = np.flatnonzero(~skip)
    dst = t.edge_dst[kept].tolist()
    late = (t.edge_kind[kept] != _ISSUE).tolist()
    ptr = np.searchsorted(kept, t.edge_ptr).tolist()
    for start in range(0, len(targets), _CHUNK):
        bit = {node: 1 << i for i, node in enumerate(targets[start : start + _CHUNK])}
        # Bits of the targets behind a node's issue (itself included) and behind its completion.
        reached, issued, completed = [0] * t.nodes, [0] * t.nodes, [0] * t.nodes
        for i in reversed(order):
            first, last = ptr[i], ptr[i + 1]
            behind = 0
            for j in dst[first:last]:
                behind |= reached[j]
            if runs_on[i]:
                done = 0
                for e in range(first, last):
                    if late[e]:
                        done |= reached[dst[e]]
                completed[i] = done
            else:
                completed[i] = behind
            issued[i] = behind
            reached[i] = behind | bit.get(i, 0)
        for pair in pairs:
            at = bit.get(pair[1])
            if at and not (issued if in_order[pair[0]] and in_order[pair[1]] else completed)[pair[0]] & at:
                out.append(pair)
    return out
