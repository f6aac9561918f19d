"""What rules look at, and how they register."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..model import KernelGraph, Template
from .findings import Finding, Limits
from .order import topological
from .targets import Target, target_of

#: When a rule runs: on every graph; if races are asked for (those that need the order of a template's nodes apart); for a target;
#: if what costs time is asked for.
STAGES = ("structure", "race", "blocks", "target", "cost")


@dataclass(frozen=True)
class Subject:
    """A graph under check and the target it is for."""

    graph: KernelGraph
    limits: Limits

    @cached_property
    def arch(self) -> str:
        """Architecture the graph runs on."""
        return self.limits.arch or self.graph.launch.arch

    @cached_property
    def target(self) -> Target | None:
        """What that architecture can do; None if it is not known."""
        return target_of(self.arch)

    @cached_property
    def warps(self) -> int:
        """Warps of a CTA."""
        return -(-self.graph.launch.threads // 32)

    @cached_property
    def orders(self) -> list[tuple[list[int], list[int]]]:
        """For each template, its nodes in an order that respects every edge, and the nodes that wait in a circle."""
        return [topological(t) for t in self.graph.templates]

    def sites(self, *types: str) -> Iterable[tuple[Template, int]]:
        """The first node of each distinct operation (type, source, role, attributes) of these types, over all templates."""
        wanted = [i for i, name in enumerate(self.graph.type_names) if name in types or not types]
        seen: set[Any] = set()
        for t in self.graph.templates:
            for i in np.flatnonzero(np.isin(t.node_type, wanted)).tolist():
                key = (t.node_type[i], t.node_source[i], t.node_role[i], t.node_attrs[i])
                if key not in seen:
                    seen.add(key)
                    yield t, i


Rule = Callable[[Subject], Iterable[Finding]]
_RULES: dict[str, dict[str, Rule]] = {stage: {} for stage in STAGES}
_loaded = False


def rule(stage: str) -> Callable[[Rule], Rule]:
    """Register a check: a function from a :class:`Subject` to findings, run in `stage` (one of :data:`STAGES`)."""

    def register(function: Rule) -> Rule:
        _RULES[stage][f"{function.__module__}.{function.__name__}"] = function
        return function

    return register


def rules_of(stage: str) -> list[Rule]:
    """The checks of one stage; the built-in ones register when they are first asked for."""
    global _loaded
    if not _loaded:
        _loaded = True
        from . import rules as builtin

        for module in pkgutil.iter_modules(builtin.__path__):
            importlib.import_module(f"{builtin.__name__}.{module.name}")
    return list(_RULES[stage].values())
