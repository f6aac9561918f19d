"""What can be proven wrong about a graph before it is simulated."""

from __future__ import annotations

from collections.abc import Mapping
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
        findings += _cycles(graph, template)
        if not findings:
            findings += _bounds(graph, template)
            if races:
                findings += _races(graph, template)
    return findings + (_capacity(graph, limits) if limits else [])


def _cycles(graph: KernelGraph, t: Template) -> list[Finding]:
    missing = np.bincount(t.edge_dst, minlength=t.nodes)
    stack = np.flatnonzero(missing == 0).tolist()
    left = missing.tolist()
    done = 0
    while stack:
        i = stack.pop()
        done += 1
        for j in t.edge_dst[t.edge_ptr[i]:t.edge_ptr[i + 1]].tolist():
            left[j] -= 1
            if left[j] == 0:
                stack.append(j)
    if done == t.nodes:
        return []
    stuck = [i for i, n in enumerate(left) if n > 0]
    names = [graph.node(t, i).label() for i in stuck if node_type(graph.type_names[t.node_type[i]]).sync][:3]
    names = names or [graph.node(t, i).label() for i in stuck[:3]]
    labels = {graph.strings[lb] for i, lb in zip(t.edge_src(), t.edge_label, strict=True) if lb >= 0 and left[i] > 0}
    barrier = f" through barrier {', '.join(sorted(labels)[:3])}" if labels else ""
    return [Finding("deadlock", "error", t.name, f"{len(stuck)} nodes wait for each other in a circle{barrier}: {'; '.join(names)}",
                    "Remove the edge that closes the circle, or arrive before waiting.")]


def _bounds(graph: KernelGraph, t: Template) -> list[Finding]:
    out: list[Finding] = []
    warps = -(-graph.launch.threads // 32)
    worst = int(t.node_warps.max()).bit_length() if t.nodes else 0
    if worst > warps:
        i = int(np.argmax(t.node_warps))
        out.append(Finding("bounds", "error", f"{t.name} {graph.node(t, i).label()}", f"uses warp {worst - 1} of a CTA of {warps} warps"))
    for i in range(len(t.tile_buffer)):
        buffer = graph.buffers[t.tile_buffer[i]]
        if buffer.scope == "global":
            continue
        rank = len(buffer.shape)
        end = t.tile_offset[i, :rank] + t.tile_extent[i, :rank]
        if (t.tile_offset[i, :rank] < 0).any() or (end > np.array(buffer.shape)).any():
            node = int(np.searchsorted(t.tile_ptr, i, side="right") - 1)
            out.append(Finding("bounds", "error", f"{t.name} {graph.node(t, node).label()}",
                               f"tile {t.tile_offset[i, :rank].tolist()}+{t.tile_extent[i, :rank].tolist()} leaves buffer "
                               f"{buffer.name!r} of shape {list(buffer.shape)}"))
            break
    return out


def _reach(t: Template, order: list[int]) -> list[int]:
    """For each node the bit set of nodes that are ordered behind its completion. A warp's synchronous operations are in
    program order, so an issue edge orders unless its source runs on asynchronously."""
    reach = [0] * t.nodes
    for i in reversed(order):
        bits = 0
        for j in t.edge_dst[t.edge_ptr[i]:t.edge_ptr[i + 1]].tolist():
            bits |= reach[j] | (1 << j)
        reach[i] = bits
    return reach


def _races(graph: KernelGraph, t: Template) -> list[Finding]:
    shared = {i for i, b in enumerate(graph.buffers) if b.scope in ("shared", "tmem")}
    owner = np.repeat(np.arange(t.nodes), np.diff(t.tile_ptr)).tolist()
    history: dict[int, list[tuple[int, tuple[int, ...], tuple[int, ...], int, int]]] = {}
    suspects: list[tuple[int, int, int]] = []
    for i in range(len(t.tile_buffer)):
        buffer = int(t.tile_buffer[i])
        if buffer not in shared:
            continue
        offset, extent = tuple(t.tile_offset[i].tolist()), tuple(t.tile_extent[i].tolist())
        mode, node = int(t.tile_mode[i]), owner[i]
        entries = history.setdefault(buffer, [])
        if mode == 2:
            kept = []
            for other, o, e, m, _ in entries:
                if not all(a < b + f and b < a + x for a, x, b, f in zip(offset, extent, o, e, strict=True)):
                    kept.append((other, o, e, m, 0))
                elif other != node:
                    suspects.append((other, node, buffer))
            entries[:] = kept
        entries.append((node, offset, extent, mode, 0))
    if not suspects:
        return []
    order = list(range(t.nodes))
    reach = _reach(t, order)
    kinds = [node_type(n) for n in graph.type_names]
    full = [0] * t.nodes
    for i in reversed(order):
        kind = kinds[t.node_type[i]]
        asynchronous = not bool(t.node_blocking[i]) and kind.unit in ("tma", "tensor") and not kind.memory  # mma.sync runs in order
        for e in range(int(t.edge_ptr[i]), int(t.edge_ptr[i + 1])):
            if t.edge_kind[e] != EdgeKind.ISSUE or not asynchronous:
                j = int(t.edge_dst[e])
                full[i] |= reach[j] | (1 << j)
    for before, after, buffer in suspects:
        if not full[before] >> after & 1:
            return [Finding("race", "error", t.name, f"{graph.node(t, after).label()} overwrites {graph.buffers[buffer].name!r} while "
                            f"{graph.node(t, before).label()} may still use it: no order path between them",
                            "Add a barrier (or the missing wait) between the two.")]
    return []


def _capacity(graph: KernelGraph, limits: Limits) -> list[Finding]:
    launch, out = graph.launch, []
    def over(what: str, need: int, have: int, unit: str, fix: str) -> None:
        if have and need > have:
            out.append(Finding("capacity", "error", graph.name, f"a CTA needs {need} {unit} of {what}, {limits.name or 'the target'} "
                               f"has {have}: {need - have} too many", fix))

    over("shared memory", launch.smem_bytes, limits.smem_bytes, "bytes", "Use smaller tiles or fewer stages.")
    over("threads", launch.threads, limits.threads, "threads", "Launch fewer threads.")
    over("registers a thread", launch.registers_per_thread, limits.registers_per_thread, "registers", "Use smaller register tiles.")
    over("registers", launch.registers_per_thread * launch.threads, limits.registers, "registers", "Use fewer threads or smaller register tiles.")
    return out


