"""Tile graphs as networkx multigraphs and back, one template at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import GraphError
from .model import TEMPLATE_ARRAYS, EdgeKind, KernelGraph, Reason, Template

if TYPE_CHECKING:
    import networkx


def to_networkx(graph: KernelGraph, template: int = 0) -> networkx.MultiDiGraph[int]:
    """Template number `template` as a `MultiDiGraph`: node attributes are the fields of :class:`Node`, edges carry `kind`
    (`DATA`, `ISSUE`, `COMPLETE`), `reason` and `label`. The kernel graph hangs on `.graph["kernel"]`.

    Raises:
        GraphError: the template has repeats; `graph.unrolled()` has none.
    """
    import networkx as nx

    t = graph.templates[template]
    if len(t.repeat_first):
        raise GraphError(f"template {template} has loop bodies that repeat", where=graph.name,
                         fix="Write them out first: to_networkx(graph.unrolled(), ...).")
    out: networkx.MultiDiGraph[int] = nx.MultiDiGraph(kernel=graph, template=template)
    for node in graph.nodes_of(t):
        out.add_node(node.index, **{k: v for k, v in vars(node).items() if k != "index"})
    for source, dst, kind, reason, label in zip(t.edge_src().tolist(), t.edge_dst.tolist(), t.edge_kind.tolist(),
                                                t.edge_reason.tolist(), t.edge_label.tolist(), strict=True):
        out.add_edge(source, dst, kind=EdgeKind(kind).name, reason=Reason(reason).name,
                     label=graph.strings[label] if label >= 0 else "")
    return out


def from_networkx(nx_graph: Any) -> KernelGraph:
    """The kernel graph behind a multigraph that :func:`to_networkx` made, with nodes removed, edges added or removed, and
    the attributes `attrs`, `blocking` and `warps` of nodes as they are now.

    Raises:
        GraphError: it does not come from :func:`to_networkx`, has new nodes, or an edge lacks a known `kind`.
    """
    graph, at = nx_graph.graph.get("kernel"), nx_graph.graph.get("template")
    if not isinstance(graph, KernelGraph) or not isinstance(at, int):
        raise GraphError("the multigraph does not come from to_networkx", fix="Keep .graph['kernel'] and .graph['template'].")
    t = graph.templates[at]
    keep = sorted(nx_graph.nodes)
    if any(not isinstance(i, int) or not 0 <= i < t.nodes for i in keep):
        raise GraphError("new nodes cannot be added in networkx", fix="Use TileGraphBuilder.")
    position = {old: new for new, old in enumerate(keep)}
    attrs, strings = list(graph.attrs), {s: i for i, s in enumerate(graph.strings)}
    arrays: dict[str, Any] = {k: getattr(t, k)[keep] for k, (_, s) in TEMPLATE_ARRAYS.items() if s == "nodes"}
    arrays = {k: v.copy() for k, v in arrays.items()}
    for old, new in position.items():
        data = nx_graph.nodes[old]
        if dict(data["attrs"]) != dict(graph.attrs[t.node_attrs[old]]):
            arrays["node_attrs"][new] = len(attrs)
            attrs.append(dict(data["attrs"]))
        arrays["node_blocking"][new] = data["blocking"]
        arrays["node_warps"][new] = sum(1 << w for w in data["warps"])
    rows = []
    for source, dst, data in nx_graph.edges(data=True):
        try:
            label = data.get("label", "")
            rows.append((position[source], position[dst], int(EdgeKind[data["kind"]]), int(Reason[data.get("reason", "PROGRAM")]),
                         strings.setdefault(label, len(strings)) if label else -1))
        except KeyError as exc:
            raise GraphError(f"edge {source} -> {dst} has no valid kind or reason ({exc})",
                             fix="kind is DATA, ISSUE or COMPLETE.") from None
    rows.sort()
    edge = np.array(rows, dtype=np.int64).reshape(-1, 5)
    tiles = np.concatenate([np.arange(t.tile_ptr[i], t.tile_ptr[i + 1]) for i in keep]).astype(np.int64)
    sizes = np.diff(t.tile_ptr)[keep]
    arrays.update({k: getattr(t, k)[tiles] for k, (_, s) in TEMPLATE_ARRAYS.items() if s.startswith("tiles")})
    arrays.update({k: getattr(t, k) for k, (_, s) in TEMPLATE_ARRAYS.items() if s in ("repeats", "steps,rank")})
    arrays["edge_each"] = np.zeros(len(edge), dtype=bool)
    arrays["tile_ptr"] = np.concatenate([[0], np.cumsum(sizes)])
    arrays["edge_ptr"] = np.concatenate([[0], np.cumsum(np.bincount(edge[:, 0], minlength=len(keep)))])
    for column, name in enumerate(("edge_dst", "edge_kind", "edge_reason", "edge_label"), start=1):
        arrays[name] = edge[:, column]
    new_template = Template(t.name, **{k: np.asarray(v).astype(TEMPLATE_ARRAYS[k][0]) for k, v in arrays.items()})
    templates = tuple(new_template if i == at else other for i, other in enumerate(graph.templates))
    return replace(graph, templates=templates, attrs=tuple(attrs), strings=tuple(strings))
