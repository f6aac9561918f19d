"""Node types: what kinds of tile operation a graph may hold.

A node type is one file in `graph/nodes/` that calls :func:`register_node_type`; the files register themselves when the
registry is first asked. Users register their own types the same way, from anywhere, before they build a graph.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import GraphError


@dataclass(frozen=True)
class Attr:
    """One attribute of a node type: its Python type, whether it must be given, and what it means (with its unit). A tuple holds
    integers of at least `least`."""

    type: type
    doc: str
    required: bool = False
    least: int = 1


@dataclass(frozen=True)
class NodeType:
    """A kind of tile operation.

    Attributes:
        name: the name graphs store.
        doc: one line for people.
        unit: the hardware unit that people associate with it (reports group by it).
        attrs: attribute name -> :class:`Attr`.
        blocking: default of a node's `blocking` flag: do the executing warps wait for its completion?
        memory: does it read or write memory that other warps see, so that a barrier arrival must wait for it?
        sync: does it order warps (barriers, fences, waits)? Its waiting time counts as synchronisation.
    """

    name: str
    doc: str
    unit: str
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    blocking: bool = False
    memory: bool = False
    sync: bool = False

    def check_attrs(self, attrs: Mapping[str, Any], where: str) -> None:
        """Raise :class:`GraphError` if `attrs` has unknown, missing or ill-typed entries."""
        for key, value in attrs.items():
            spec = self.attrs.get(key)
            if spec is None:
                known = ", ".join(sorted(self.attrs)) or "none"
                raise GraphError(f"node type {self.name!r} has no attribute {key!r}", where=where, fix=f"It takes: {known}.")
            if not isinstance(value, spec.type) and not (spec.type is float and isinstance(value, int)):
                raise GraphError(f"attribute {key!r} of {self.name!r} must be {spec.type.__name__}, got {value!r}", where=where)
            if isinstance(value, tuple) and not all(isinstance(n, int) and n >= spec.least for n in value):
                kind = "positive integers" if spec.least == 1 else f"integers of at least {spec.least}"
                raise GraphError(f"attribute {key!r} of {self.name!r} must hold {kind}, got {value!r}", where=where)
        for key, spec in self.attrs.items():
            if spec.required and key not in attrs:
                raise GraphError(f"attribute {key!r} of {self.name!r} is missing", where=where, fix=spec.doc)


_TYPES: dict[str, NodeType] = {}
_loaded = False


def register_node_type(node_type: NodeType, *, replace: bool = False) -> NodeType:
    """Make `node_type` known. Raises :class:`GraphError` if the name is taken, unless `replace`."""
    if not replace and _TYPES.get(node_type.name, node_type) != node_type:
        raise GraphError(f"node type {node_type.name!r} is already registered", fix="Choose another name or pass replace=True.")
    _TYPES[node_type.name] = node_type
    return node_type


def _load_builtin() -> None:
    global _loaded
    if not _loaded:
        _loaded = True
        from . import nodes

        for module in pkgutil.iter_modules(nodes.__path__):
            importlib.import_module(f"{nodes.__name__}.{module.name}")


def node_type(name: str) -> NodeType:
    """The registered type called `name`. Raises :class:`GraphError` with the nearest names if there is none."""
    _load_builtin()
    try:
        return _TYPES[name]
    except KeyError:
        import difflib

        near = difflib.get_close_matches(name, _TYPES, n=3) or sorted(_TYPES)
        raise GraphError(f"unknown node type {name!r}", fix=f"Did you mean {', '.join(near)}? Register new types with "
                         "gtsim.graph.register_node_type.") from None


def node_types() -> dict[str, NodeType]:
    """All registered node types by name."""
    _load_builtin()
    return dict(sorted(_TYPES.items()))
