"""Two accesses of one on-chip slot, at least one of them a write, without an order path between them.

Data edges say what a read sees in one execution; they are no proof that the read waits. So a data edge through shared or tensor
memory does not count as order: a barrier, a wait or program order has to stand behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ...model import EdgeKind, KernelGraph, Reason, Template
from ...registry import node_type
from ..findings import Finding
from ..order import unordered
from ..signals import Signals
from ..subject import Subject, rule

_MAX = 3  #: findings a template


@rule("race")
def races(subject: Subject) -> Iterable[Finding]:
    """One finding a pair of source operations; pairs behind one wait that does not wait have one cause, and one finding."""
    graph = subject.graph
    slots = np.array([b.scope in ("shared", "tmem") for b in graph.buffers], dtype=bool)
    if not slots.any():
        return
    told: set[object] = set()
    causes: dict[object, list[tuple[Template, int, int, int]]] = {}
    for t, (order, _) in zip(graph.templates, subject.orders, strict=True):
        for before, after, buffer in _races(graph, t, slots, order):
            key = (t.node_source[before], t.node_source[after], t.node_type[before], t.node_type[after], buffer)
            if key in told:
                continue
            told.add(key)
            wait = _idle_wait(graph, t, after)
            cause = (graph.node(t, wait).source, graph.node(t, wait).role) if wait >= 0 else key
            causes.setdefault(cause, []).append((t, before, after, buffer))
    for pairs in causes.values():
        yield _finding(graph, *pairs[0], others=pairs[1:])


def _races(graph: KernelGraph, t: Template, slots: np.ndarray, order: list[int]) -> list[tuple[int, int, int]]:
    owner = np.repeat(np.arange(t.nodes), np.diff(t.tile_ptr))
    on_chip = slots[t.tile_buffer]
    writes = t.tile_mode == 2
    # Nodes whose results stay in shared or tensor memory: their data edges are to be proven, not to be trusted.
    publishes = np.zeros(t.nodes, dtype=bool)
    publishes[owner[writes & on_chip]] = True
    publishes[owner[writes & ~on_chip]] = False
    elsewhere = np.zeros(t.nodes, dtype=bool)  # nodes that write into another CTA of the cluster
    elsewhere[owner[writes & on_chip & (t.tile_cta != t.node_cta[owner])]] = True
    kinds = [node_type(n) for n in graph.type_names]
    detached = np.array([k.unit in ("tma", "tensor", "lsu") and not k.memory for k in kinds], dtype=bool)
    source = t.edge_src()
    data = publishes[source] & (t.edge_kind == int(EdgeKind.DATA)) & (t.edge_reason == int(Reason.DATA))
    doubtful = data
    if "tilelang" in graph.meta and not graph.meta.get("pass_configs", {}).get("tl.disable_thread_storage_sync"):
        doubtful = data & (detached[t.node_type] | elsewhere)[source]  # stores by threads: _unsignalled
    pairs = _suspects(t, owner.tolist(), on_chip)
    first = {int(o): int(b) for o, b in zip(owner[writes & on_chip][::-1], t.tile_buffer[writes & on_chip][::-1], strict=True)}
    pairs += [(s, d, first[s]) for s, d in zip(source[doubtful].tolist(), t.edge_dst[doubtful].tolist(), strict=True)]
    credited = data & ~doubtful
    if not pairs and not credited.any():
        return []
    fifo = np.array([n.startswith("tcgen05") and n not in ("tcgen05_ld", "tcgen05_st") for n in graph.type_names], dtype=bool)
    runs_on = detached[t.node_type] & ~t.node_blocking | elsewhere
    # Copies by cp.async of one warp set may overlap each other: the frontend's own rule, and the compiler's.
    copies = np.array([n == "cp_async" for n in graph.type_names], dtype=bool)[t.node_type]

    def unproven(pairs: list[tuple[int, int, int]], skip: np.ndarray) -> list[tuple[int, int, int]]:
        return unordered(t, order, pairs, runs_on.tolist(), fifo[t.node_type].tolist(), skip)

    found = unproven(pairs, doubtful)
    if credited.any():
        stored = [(s, d, first[s]) for s, d in zip(source[credited].tolist(), t.edge_dst[credited].tolist(), strict=True)]
        found += _unsignalled(t, unproven(stored, data), lambda asked: unproven(asked, doubtful))
    found = [
        p
        for p in found
        if not (copies[p[0]] and copies[p[1]] and t.node_warps[p[0]] == t.node_warps[p[1]]) and not _pieces(t, p[0], p[1])
    ]
    return sorted(found, key=lambda p: (p[1], p[0]))[: 64 * _MAX]


def _unsignalled(
    t: Template,
    pairs: list[tuple[int, int, int]],
    unproven: Callable[[list[tuple[int, int, int]]], list[tuple[int, int, int]]],
) -> list[tuple[int, int, int]]:
    """Of stores by threads and reads that no path orders, those whose reader is not behind a signal of the stores either."""
    if not pairs:
        return []
    signals = Signals(t)
    behind = {s: signals.behind(s) for s in {p[0] for p in pairs}}
    asked = {(x, p[1], p[2]) for p in pairs for x in behind[p[0]]}
    open_ = set(unproven(sorted(asked)))
    return [p for p in pairs if all((x, p[1], p[2]) in open_ for x in behind[p[0]])]


def _pieces(t: Template, a: int, b: int) -> bool:
    """Whether two nodes are one operation, split among disjoint warps: each writes its part of the tile."""
    same = all(getattr(t, f"node_{k}")[a] == getattr(t, f"node_{k}")[b] for k in ("type", "source", "loop", "attrs", "cta"))
    return bool(same and t.node_source[a] and not int(t.node_warps[a]) & int(t.node_warps[b]))


def _suspects(t: Template, owner: list[int], on_chip: np.ndarray) -> list[tuple[int, int, int]]:
    """(earlier access, overwriting node, buffer) for every write of an on-chip tile that was accessed before."""
    rows = zip(
        owner,
        t.tile_buffer.tolist(),
        t.tile_mode.tolist(),
        t.tile_cta.tolist(),
        map(tuple, t.tile_offset.tolist()),
        map(tuple, t.tile_extent.tolist()),
        on_chip.tolist(),
        strict=True,
    )
    accesses: dict[tuple[int, int], dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]]] = {}
    out: list[tuple[int, int, int]] = []
    for node, buffer, mode, cta, offset, extent, slot in rows:
        if not slot:
            continue
        boxes = accesses.setdefault((buffer, cta), {})
        box = (offset, extent)
        if mode == 2:
            for other in list(boxes):
                if other == box or all(a < b + f and b < a + x for a, x, b, f in zip(offset, extent, *other, strict=True)):
                    out += [(before, node, buffer) for before in boxes.pop(other) if before != node]
        boxes.setdefault(box, []).append(node)
    return out


def _finding(
    graph: KernelGraph, t: Template, before: int, after: int, buffer: int, others: list[tuple[Template, int, int, int]]
) -> Finding:
    first, second = graph.node(t, before), graph.node(t, after)
    name = graph.buffers[buffer].name
    mode = ["write" if any(x.buffer.name == name for x in n.writes) else "read" for n in (first, second)]
    slot = next((x.offset[0] for x in second.tiles if x.buffer.name == name and len(x.offset) > 2 and x.extent[0] == 1), None)
    verb = "overwrites" if mode[1] == "write" else "reads"
    still = "may still use it" if mode[0] == "read" or mode[1] == "write" else "may not have written it yet"
    roles = [f"{n.role}'s " if n.role and n.role != "all" else "" for n in (first, second)]
    what = repr(name)
    if graph.launch.cluster_ctas > 1:
        roles = [f"CTA {n.cta}'s " + role.replace("'s", "") for n, role in zip((first, second), roles, strict=True)]
        shared = {x.cta for x in first.tiles if x.buffer.name == name} & {x.cta for x in second.tiles if x.buffer.name == name}
        what += f" of CTA {min(shared, default=second.cta)}"
    at = "" if slot is None else f" (slot {slot})"
    text = f"{roles[1]}{second.label()} {verb} {what} while {roles[0]}{first.label()} {still}{at}: no order path between them"
    fix = "Add a barrier (or the missing wait) between the two."
    idle = _idle_wait(graph, t, after)
    if idle >= 0:
        fix = f"{graph.node(t, idle).label()} in front of it passes at once: does its parity name the phase that is meant?"
    also = sorted({graph.buffers[b].name for _, _, _, b in others})
    if others:
        text += f"; {len(others)} more such pair{'s' if len(others) > 1 else ''} behind the same wait ({', '.join(also)})"
    return Finding(
        "race",
        "error",
        t.name,
        text,
        fix,
        {"buffer": name, "slot": slot, "first": _who(first, mode[0]), "second": _who(second, mode[1]), "also": also},
    )


def _who(node: object, mode: str) -> dict[str, object]:
    return {"access": mode, **{k: getattr(node, k) for k in ("type", "source", "role", "loop", "cta")}}


def _idle_wait(graph: KernelGraph, t: Template, node: int) -> int:
    """The barrier wait closest before `node` in its program, if no phase stands behind it; -1 if one does."""
    source = t.edge_src()
    for _ in range(8):
        before = source[(t.edge_dst == node) & (t.edge_reason == int(Reason.PROGRAM))]
        if not len(before):
            break
        node = int(before.max())
        if graph.type_names[t.node_type[node]] == "barrier_wait":
            idle = not ((t.edge_dst == node) & (t.edge_reason == int(Reason.BARRIER))).any()
            return node if idle else -1
    return -1
