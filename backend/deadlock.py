"""A standstill in the engine, told in the names of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph import KernelGraph, Reason
from ..graph.repeats import run_label

_BECAUSE = {
    Reason.PROGRAM: "program order",
    Reason.DATA: "its data",
    Reason.BARRIER: "barrier",
    Reason.GROUP: "a commit group",
    Reason.SYNC: "a barrier of the CTA or cluster",
    Reason.BUFFER: "reuse of a buffer",
}


def deadlock_text(graph: KernelGraph, error: BaseException) -> str:
    """The message of `error`, a `_engine.Deadlock`, with a line for each group of blocked nodes and each node in it."""
    lines = [str(error)]
    for circle, blocked, length, nodes in getattr(error, "groups", ()):
        lines += _group(graph, circle, blocked, length, nodes)
    return "\n".join(lines)


def _group(graph: KernelGraph, circle: bool, blocked: int, length: int, nodes: Sequence[Any]) -> list[str]:
    instance, template = nodes[0][:2]
    block = tuple(graph.instances.block[instance].tolist())
    who = f"block {block} ({graph.templates[template].name}), {blocked} operations blocked"
    first = f"{who}; these wait for each other in a circle:" if circle else f"{who}; the others wait for this one:"
    lines = [first]
    for _, _, node, run, missing, edges in nodes:
        text = f"  {_label(graph, template, node, run)}"
        if missing:
            causes = [f"{_label(graph, template, s, r)} ({_because(graph, template, s, node, reason)})" for s, r, reason in edges]
            more = f" and {missing - len(edges)} more" if missing > len(edges) else ""
            text += f" waits for {', '.join(causes) or f'{missing} edges'}{more}"
        else:
            text += " waits for the other CTAs of the grid"
        lines.append(text)
    if length > len(nodes):
        lines.append(f"  ... and {length - len(nodes)} more")
    return lines


def _label(graph: KernelGraph, template: int, node: int, run: int) -> str:
    t = graph.templates[template]
    view = graph.node(t, node)
    if not run or not view.loop:
        return view.label() + (f" (run {run})" if run else "")
    loop = run_label(view.loop, run * int(t.repeat_loop[t.repeat_of()[node]]))
    return view.label().replace(f"[{view.loop}]", f"[{loop}]")


def _because(graph: KernelGraph, template: int, source: int, node: int, reason: int) -> str:
    """Why there is an edge; for a barrier, which one."""
    t = graph.templates[template]
    if reason == Reason.BARRIER:
        edges = slice(int(t.edge_ptr[source]), int(t.edge_ptr[source + 1]))
        for dst, why, label in zip(t.edge_dst[edges], t.edge_reason[edges], t.edge_label[edges], strict=True):
            if dst == node and why == reason and label >= 0:
                return f"barrier {graph.strings[label]}"
    return _BECAUSE[Reason(reason)]
