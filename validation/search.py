"""Stated search spaces: configurations of a kernel of ours, of which the best stands for a tuned kernel."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from .cases import Launch, Plan, Trial
from .inputs import spread
from .kernels import kernel

#: Parameter -> values, as in `gtsim tune --space`.
Space = Mapping[str, Sequence[Any]]


def grid(space: Space) -> list[dict[str, Any]]:
    """Every combination of the values, in the order of the space, the last parameter fastest."""
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]


def searched(choices: Sequence[tuple[str, Mapping[str, Any]]], limit: int, **arguments: Any) -> Plan:
    """A plan of the best of `choices`, each the name of a kernel of ours and a point of its space.

    Args:
        limit: at most so many of them, evenly spread; 0 for all.
        arguments: of every kernel.
    """

    def trial(name: str, point: Mapping[str, Any]) -> Trial:
        label = " ".join((name, *(f"{k}={v}" for k, v in point.items())))
        return Trial(label, lambda: (Launch(kernel(name), {**arguments, **point}),))

    return Plan([trial(*choice) for choice in spread(choices, limit)], len(choices), tuned=False)
