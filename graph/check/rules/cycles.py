"""Nodes that wait for each other in a circle: a graph that was not made by the builder."""

from __future__ import annotations

from collections.abc import Iterable

from ...model import KernelGraph, Template
from ...registry import node_type
from ..findings import Finding
from ..subject import Subject, rule


@rule("structure")
def cycles(subject: Subject) -> Iterable[Finding]:
    """One finding a template with a circle."""
    for template, (_, stuck) in zip(subject.graph.templates, subject.orders, strict=True):
        if stuck:
            yield _circle(subject.graph, template, stuck)


def _circle(graph: KernelGraph, t: Template, stuck: list[int]) -> Finding:
    waiting = set(stuck)
    names = [graph.node(t, i).label() for i in stuck if node_type(graph.type_names[t.node_type[i]]).sync][:3]
    names = names or [graph.node(t, i).label() for i in stuck[:3]]
    labels = {
        graph.strings[lb] for i, lb in zip(t.edge_src().tolist(), t.edge_label.tolist(), strict=True) if lb >= 0 and i in waiting
    }
    barrier = f" through barrier {', '.join(sorted(labels)[:3])}" if labels else ""
    return Finding(
        "deadlock",
        "error",
        t.name,
        f"{len(stuck)} nodes wait for each other in a circle{barrier}: {'; '.join(names)}",
        "Remove the edge that closes the circle, or arrive before waiting.",
        {"nodes": len(stuck), "barriers": sorted(labels)},
    )
