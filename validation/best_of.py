"""The best of a stated set of configurations, as an autotuner would find it if it measured with this model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

C = TypeVar("C")
R = TypeVar("R")


@dataclass(frozen=True)
class Best(Generic[C, R]):
    """What came out.

    Attributes:
        candidate: the cheapest.
        result: what trying it gave.
        cost: its cost.
        tried: how many could be tried.
        failed: for each of the others why it could not, in order.
    """

    candidate: C
    result: R
    cost: float
    tried: int
    failed: tuple[str, ...]


def best_of(candidates: Iterable[C], attempt: Callable[[C], R], cost: Callable[[R], float],
            expected: tuple[type[Exception], ...]) -> Best[C, R]:
    """Try each candidate; the cheapest wins, the earlier one if two cost the same.

    Args:
        candidates: at least one.
        attempt: tries one.
        cost: what its result costs.
        expected: errors of a candidate that cannot be tried (it does not fit, it does not compile). They are kept, and the
            next is tried.

    Raises:
        The error of the first candidate, if none can be tried.
    """
    best: tuple[C, R, float] | None = None
    tried, errors = 0, []
    for candidate in candidates:
        try:
            result = attempt(candidate)
        except expected as error:
            errors.append(error)
            continue
        tried += 1
        price = cost(result)
        if best is None or price < best[2]:
            best = candidate, result, price
    if best is None:
        raise errors[0] if errors else ValueError("best_of was given no candidates")
    return Best(*best, tried, tuple(" ".join(str(e).split())[:300] for e in errors))
