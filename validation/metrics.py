"""The numbers of a family. Each takes ratios predicted / measured, or the two lists, and is computed as its name says."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

#: Measured times closer than this are the same for :attr:`Scores.tau_clear`: what two runs of one kernel in one source differ by
#: (Gluon's tutorial 07 times its pipelined kernel at K = 16384 as 3264 us in one table and 3364 us in the next).
CLEAR = 0.03


@dataclass(frozen=True)
class Scores:
    """How far predictions are off. Errors are |predicted / measured - 1|, as shares (0.04 is 4 %).

    Attributes:
        n: cases.
        mape: mean error.
        median: median error.
        p90: error that nine of ten cases stay within (linear between cases).
        worst: largest error.
        bias: mean of predicted / measured - 1; below zero means predicted too fast.
        tau: Kendall's tau-b of predicted and measured times; None for fewer than two cases, or if all are equal.
        tau_clear: the same over pairs whose measured times are more than :data:`CLEAR` apart.
    """

    n: int
    mape: float
    median: float
    p90: float
    worst: float
    bias: float
    tau: float | None
    tau_clear: float | None

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain data."""
        return asdict(self)


def scores(predicted: Sequence[float], measured: Sequence[float]) -> Scores:
    """All numbers for pairs of times above zero. There must be at least one."""
    signed = [p / m - 1 for p, m in zip(predicted, measured, strict=True)]
    errors = sorted(map(abs, signed))
    return Scores(len(errors), statistics.fmean(errors), statistics.median(errors), percentile(errors, 0.9), errors[-1],
                  statistics.fmean(signed), kendall_tau(predicted, measured), kendall_tau(predicted, measured, CLEAR))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value at `share` of the way through an ordered list, linear between neighbours."""
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def kendall_tau(a: Sequence[float], b: Sequence[float], apart: float = 0.0) -> float | None:
    """Kendall's tau-b: (pairs in the same order - pairs in opposite order) over the geometric mean of the pairs that are not tied
    in `a` and those that are not tied in `b`. None if there are none. If `apart` is not 0, pairs are left out whose values in `b`
    differ by no more than that share of the smaller one."""
    agree = free_a = free_b = 0
    for i in range(len(a)):
        for j in range(i):
            if apart and abs(b[i] - b[j]) <= apart * min(b[i], b[j]):
                continue
            x, y = (a[i] > a[j]) - (a[i] < a[j]), (b[i] > b[j]) - (b[i] < b[j])
            agree += x * y
            free_a += x != 0
            free_b += y != 0
    return agree / math.sqrt(free_a * free_b) if free_a and free_b else None


def best_factor(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """The factor for all of `predicted` that gives the least mean of |factor * predicted / measured - 1|: a weighted median of
    measured / predicted."""
    pairs = sorted((m / p, p / m) for p, m in zip(predicted, measured, strict=True))
    half, below = sum(w for _, w in pairs) / 2, 0.0
    for factor, weight in pairs:
        below += weight
        if below >= half:
            return factor
    return pairs[-1][0]
