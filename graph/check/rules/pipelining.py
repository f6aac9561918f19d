"""Loads that are not overlapped with work, and warp roles that were not made, with the reason where the graph shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from ...model import KernelGraph
from ..findings import Finding
from ..subject import Subject, rule

_TENSOR = ("mma", "wgmma", "tcgen05_mma")
_ASYNC = ("tma_load", "cp_async")
#: What a frontend's warning says -> kind of finding. mma.sync has a rule of its own that says more.
_KINDS = (("is synchronous", "pipelining"), ("falls back to mma.sync", ""))


@rule("cost")
def what_the_frontend_saw(subject: Subject) -> Iterable[Finding]:
    """Warnings that the frontend gave while it lowered the kernel."""
    for text in subject.graph.warnings:
        kind = next((kind for part, kind in _KINDS if part in text), "frontend")
        if kind == "" and "mma" in subject.graph.type_names and subject.target is not None and subject.target.wgmma:
            continue
        fix = "Use T.Pipelined with num_stages of 2 or more, and rows of whole 16 bytes." if kind == "pipelining" else ""
        yield Finding(
            kind or "tensor-core",
            "warning",
            text.split(" in a loop")[0] if kind == "pipelining" else subject.graph.name,
            text,
            fix,
        )


@rule("cost")
def single_buffers(subject: Subject) -> Iterable[Finding]:
    """Asynchronous loads of a loop that reuse one slot each trip: a load waits for the product, and the product for the load."""
    graph = subject.graph
    loads = [i for i, n in enumerate(graph.type_names) if n in _ASYNC]
    told: set[tuple[str, int]] = set()
    for index, t in enumerate(graph.templates):
        nodes = np.flatnonzero(np.isin(t.node_type, loads))
        trips: dict[tuple[int, int], set[int]] = defaultdict(set)
        again: dict[tuple[int, int], int] = defaultdict(int)  # trips that repeats add
        slots: dict[tuple[int, int], set[tuple[int, ...]]] = defaultdict(set)
        used = _operands(graph, subject)
        more = np.append(graph.times(index).max(axis=0, initial=1) - 1, 0)[t.repeat_of()]
        for i in nodes.tolist():
            for row in range(int(t.tile_ptr[i]), int(t.tile_ptr[i + 1])):
                if t.tile_mode[row] == 2 and int(t.tile_buffer[row]) in used:
                    key = int(t.node_source[i]), int(t.tile_buffer[row])
                    if int(t.node_loop[i]) not in trips[key]:
                        trips[key].add(int(t.node_loop[i]))
                        again[key] += int(more[i])
                    slots[key].add(tuple(t.tile_offset[row].tolist()))
        for (source, buffer), seen in trips.items():
            name, count = graph.strings[source], len(seen) + again[source, buffer]
            if len(seen) > 1 and len(slots[source, buffer]) == 1 and (name, buffer) not in told:
                told.add((name, buffer))
                yield Finding(
                    "pipelining",
                    "warning",
                    name or graph.buffers[buffer].name,
                    f"{name or 'a load'} is not pipelined: {graph.buffers[buffer].name} has one slot for {count} trips, "
                    "so each load waits until the trip before has been used",
                    "Use T.Pipelined with num_stages of 2 or more.",
                    {"buffer": graph.buffers[buffer].name, "trips": count},
                )


def _operands(graph: KernelGraph, subject: Subject) -> set[int]:
    """Buffers that tensor cores read."""
    found: set[int] = set()
    for t, i in subject.sites(*_TENSOR):
        rows = slice(int(t.tile_ptr[i]), int(t.tile_ptr[i + 1]))
        found.update(int(b) for b, m in zip(t.tile_buffer[rows], t.tile_mode[rows], strict=True) if m == 1)
    return found


@rule("cost")
def no_roles(subject: Subject) -> Iterable[Finding]:
    """A product loop on a target with TMA in which the same warps load and multiply."""
    graph, target = subject.graph, subject.target
    if target is None or not target.tma:
        return
    types = set(graph.type_names)
    if not types & set(_TENSOR) or not _loops(subject):
        return
    loading = {frozenset(_groups(subject, *(_ASYNC if types & set(_ASYNC) else ("global_load",))))}
    math = frozenset(_groups(subject, *_TENSOR))
    if not all(math & group for group in loading) or any(group - math for group in loading):
        return
    configs = graph.meta.get("pass_configs", {})
    if configs.get("tl.disable_warp_specialized"):
        why, fix = "the pass config tl.disable_warp_specialized switches it off", "Remove the pass config."
    elif "tma_load" in types:
        why, fix = (
            "the kernel's own code issues the loads from the warps that multiply",
            "Give the loads a warp group of their own.",
        )
    elif "cp_async" in types:
        why, fix = (
            (
                "its loads became cp.async, not TMA copies (computed addresses, a guard, rows that are not multiples of 16 "
                "bytes, or switched off)"
            ),
            "Load plain boxes of tensors with rows of whole 16 bytes.",
        )
    else:
        why, fix = "no load of the loop is asynchronous", "Use T.Pipelined with num_stages of 2 or more."
    yield Finding(
        "specialisation",
        "warning",
        graph.name,
        f"warps are not specialised, the same ones load and multiply: {why}",
        fix,
        {"reason": why},
    )


def _loops(subject: Subject) -> bool:
    """Whether any product stands in a loop."""
    return any(t.node_loop[i] for t, i in subject.sites(*_TENSOR))


def _groups(subject: Subject, *types: str) -> set[int]:
    """Warpgroups that execute nodes of these types."""
    graph = subject.graph
    kinds = [i for i, n in enumerate(graph.type_names) if n in types]
    masks = {int(m) for t in graph.templates for m in np.unique(t.node_warps[np.isin(t.node_type, kinds)])}
    return {w // 4 for m in masks for w in range(m.bit_length()) if m >> w & 1}
