"""What can be proven wrong about a graph before it is simulated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .model import EdgeKind, KernelGraph, Template
from .registry import node_type


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (`error`) or costs time (`warning`)."""

    kind: str  #: deadlock, race, bounds, capacity
    severity: str
    where: str
    text: str
    fix: str = ""


@dataclass(frozen=True)
class Limits:
    """What one SM of a target offers to one CTA; 0 means not limited."""

    name: str = ""
    threads: int = 0
    smem_bytes: int = 0
    registers: int = 0
    registers_per_thread: int = 0


def check(graph: KernelGraph, limits: Limits | None = None, *, races: bool = True) -> list[Finding]:
    """Find cycles, out-of-range warps and tiles, races on shared-memory slots, and (with `limits`) capacity overflows.

    A race is a write of a shared slot that no order path separates from the accesses of the version before it.
    """
    findings: list[Finding] = []
    for template in graph.templates:
        order, stuck = _topological(template)
        findings += _cycles(graph, template, stuck)
        if not findings:
            findings += _bounds(graph, template)
            if races:
                findings += _races(graph, template, order)
    return findings + (_capacity(graph, limits) if limits else [])


def _topological(t: Template) -> tuple[list[int], list[int]]:
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


def _cycles(graph: KernelGraph, t: Template, stuck: list[int]) -> list[Finding]:
    if not stuck:
        return []
    waiting = set(stuck)
    names = [graph.node(t, i).label() for i in stuck if node_type(graph.type_names[t.node_type[i]]).sync][:3]
    names = names or [graph.node(t, i).label() for i in stuck[:3]]
    labels = {
        graph.strings[lb] for i, lb in zip(t.edge_src().tolist(), t.edge_label.tolist(), strict=True) if lb >= 0 and i in waiting
    }
    barrier = f" through barrier {', '.join(sorted(labels)[:3])}" if labels else ""
    return [
        Finding(
            "deadlock",
            "error",
            t.name,
            f"{len(stuck)} nodes wait for each other in a circle{barrier}: {'; '.join(names)}",
            "Remove the edge that closes the circle, or arrive before waiting.",
        )
    ]


def _bounds(graph: KernelGraph, t: Template) -> list[Finding]:
    out: list[Finding] = []
    warps = -(-graph.launch.threads // 32)
    worst = int(t.node_warps.max()).bit_length() if t.nodes else 0
    if worst > warps:
        i = int(np.argmax(t.node_warps))
        out.append(
            Finding("bounds", "error", f"{t.name} {graph.node(t, i).label()}", f"uses warp {worst - 1} of a CTA of {warps} warps")
        )
    for b, buffer in enumerate(graph.buffers):
        if buffer.scope == "global":
            continue  # tiles at the edge of a tensor are clipped
        rank = len(buffer.shape)
        tiles = np.flatnonzero(t.tile_buffer == b)
        low, end = t.tile_offset[tiles, :rank], t.tile_offset[tiles, :rank] + t.tile_extent[tiles, :rank]
        outside = (low < 0).any(axis=1) | (end > np.array(buffer.shape)).any(axis=1)
        if outside.any():
            i = int(tiles[np.argmax(outside)])
            node = int(np.searchsorted(t.tile_ptr, i, side="right") - 1)
            out.append(
                Finding(
                    "bounds",
                    "error",
                    f"{t.name} {graph.node(t, node).label()}",
                    f"tile {t.tile_offset[i, :rank].tolist()}+{t.tile_extent[i, :rank].tolist()} leaves buffer "
                    f"{buffer.name!r} of shape {list(buffer.shape)}",
                )
            )
    return out


def _suspects(t: Template, shared: set[int]) -> list[tuple[int, int, int]]:
    """(earlier access, overwriting node, buffer) for every write of an on-chip tile that was accessed before."""
    owner = np.repeat(np.arange(t.nodes), np.diff(t.tile_ptr)).tolist()
    rows = zip(
        owner,
        t.tile_buffer.tolist(),
        t.tile_mode.tolist(),
        map(tuple, t.tile_offset.tolist()),
        map(tuple, t.tile_extent.tolist()),
        strict=True,
    )
    accesses: dict[int, dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]]] = {}
    out: list[tuple[int, int, int]] = []
    for node, buffer, mode, offset, extent in rows:
        if buffer not in shared:
            continue
        boxes = accesses.setdefault(buffer, {})
        box = (offset, extent)
        if mode == 2:
            for other in list(boxes):
                if other == box or all(a < b + f and b < a + x for a, x, b, f in zip(offset, extent, *other, strict=True)):
                    out += [(before, node, buffer) for before in boxes.pop(other) if before != node]
        boxes.setdefault(box, []).append(node)
    return out


def _races(graph: KernelGraph, t: Template, order: list[int]) -> list[Finding]:
    suspects = _suspects(t, {i for i, b in enumerate(graph.buffers) if b.scope in ("shared", "tmem")})
    if not suspects:
        return []
    # Bit sets of the nodes that are ordered behind a node's issue and behind its completion. They differ only for what runs
    # on asynchronously; a warp's synchronous operations are in program order.
    kinds = [node_type(n) for n in graph.type_names]
    runs_on = [k.unit in ("tma", "tensor") and not k.memory for k in kinds]
    issued, completed = [0] * t.nodes, [0] * t.nodes
    ptr, dst, kind = t.edge_ptr.tolist(), t.edge_dst.tolist(), t.edge_kind.tolist()
    types, blocking, issue = t.node_type.tolist(), t.node_blocking.tolist(), int(EdgeKind.ISSUE)
    for i in reversed(order):
        behind = done = 0
        for e in range(ptr[i], ptr[i + 1]):
            bits = issued[dst[e]] | 1 << dst[e]
            behind |= bits
            if kind[e] != issue:
                done |= bits
        issued[i], completed[i] = behind, done if runs_on[types[i]] and not blocking[i] else behind
    for before, after, buffer in suspects:
        if not completed[before] >> after & 1:
            return [
                Finding(
                    "race",
                    "error",
                    t.name,
                    f"{graph.node(t, after).label()} overwrites {graph.buffers[buffer].name!r} while "
                    f"{graph.node(t, before).label()} may still use it: no order path between them",
                    "Add a barrier (or the missing wait) between the two.",
                )
            ]
    return []


def _capacity(graph: KernelGraph, limits: Limits) -> list[Finding]:
    launch, out = graph.launch, []

    def over(what: str, need: int, have: int, unit: str, fix: str) -> None:
        if have and need > have:
            out.append(
                Finding(
                    "capacity",
                    "error",
                    graph.name,
                    f"a CTA needs {need} {unit} of {what}, {limits.name or 'the target'} has {have}: {need - have} too many",
                    fix,
                )
            )

    over("shared memory", launch.smem_bytes, limits.smem_bytes, "bytes", "Use smaller tiles or fewer stages.")
    over("threads", launch.threads, limits.threads, "threads", "Launch fewer threads.")
    over(
        "registers a thread", launch.registers_per_thread, limits.registers_per_thread, "registers", "Use smaller register tiles."
    )
    over(
        "registers",
        launch.registers_per_thread * launch.threads,
        limits.registers,
        "registers",
        "Use fewer threads or smaller register tiles.",
    )
    return out
