"""What repeats: runs of loop bodies within a template, and the launch order of the instances."""

from __future__ import annotations

import numpy as np

from ..graph import KernelGraph, Template

#: Which runs an edge connects, as in the engine's EdgeMode.
SAME_RUN, NEXT_RUN, LAST_RUN, EACH_RUN, EVERY_RUN = range(1, 6)


def program_order(t: Template) -> tuple[np.ndarray, np.ndarray]:
    """CTA and lowest warp of each node as one number, and its place in the order of that and of the warp's program, int64[nodes]
    each. Of nodes that become ready at the same time the first goes first. This does not depend on how nodes are numbered, as a
    warp's nodes follow each other."""
    warps = t.node_warps.astype(np.uint64)
    lowest = warps & (~warps + np.uint64(1))
    order = np.lexsort((lowest, t.node_cta))
    changes = (np.diff(lowest[order]) != 0) | (np.diff(t.node_cta[order]) != 0)
    warp, place = np.empty((2, t.nodes), dtype=np.int64)
    warp[order], place[order] = np.append(0, np.cumsum(changes)), np.arange(t.nodes)
    return warp, place


def edges_of_runs(t: Template) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(edge of the template, source node, which runs it connects) of every edge that the engine follows; an edge into a repeated
    period from the one in front stands for one from each run to the next too. Modes as in the engine's EdgeMode."""
    which, source = np.arange(t.edges), t.edge_src()
    mode = np.zeros(t.edges, dtype=np.uint8)
    if not len(t.repeat_first):
        return which, source, mode
    repeat, lengths = t.repeat_of(), np.append(t.repeat_nodes, 0)
    start, end = repeat[source], repeat[t.edge_dst]
    in_front = (end >= 0) & (start < 0)
    near = in_front & (source >= (np.append(t.repeat_first, 0) - lengths)[end])
    mode[(start >= 0) & (end >= 0)] = SAME_RUN
    mode[(start >= 0) & (end < 0)] = np.where(t.edge_each, EACH_RUN, LAST_RUN)[(start >= 0) & (end < 0)]
    mode[in_front & ~near] = EVERY_RUN
    more = np.flatnonzero(near)
    next_run = np.full(len(more), NEXT_RUN, dtype=np.uint8)
    return np.append(which, more), np.append(source, source[more] + lengths[end[more]]), np.append(mode, next_run)


def sequence_period(graph: KernelGraph) -> int:
    """Instances after which the launch order repeats: the same templates, the same numbers of runs. 0 if it does so less than
    four times."""
    ids = graph.instances.template.astype(np.int64)
    width = max(len(t.repeat_first) for t in graph.templates)
    what = np.zeros((len(ids), 1 + width), dtype=np.int64)
    what[:, 0] = ids
    for i, t in enumerate(graph.templates):
        if len(t.repeat_first):
            what[ids == i, 1 : 1 + len(t.repeat_first)] = graph.times(i)
    _, code = np.unique(what, axis=0, return_inverse=True)
    code = code.reshape(-1)
    for period in (np.flatnonzero(code[1 : len(code) // 4 + 1] == code[0]) + 1).tolist():
        if (code[period:] == code[:-period]).all():
            return int(period)
    return 0
