"""From outcomes to families: one clock factor a table where the clock is unknown, metrics, and the floor's metrics."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from .metrics import Scores, best_factor, scores
from .outcome import Outcome
from .registry import Suite, Target

#: A choice is good if it takes at most this share longer than the measured best.
CHOICE = 0.03


@dataclass(frozen=True)
class Family:
    """The cases of one family and their numbers.

    Attributes:
        gpu: hardware file.
        clock: of the measurements, in words.
        cache: state of the L2, in words.
        spread: median of (p90 - p10) / measured; None if not published.
        factors: table -> the clock factor that its predictions were multiplied by.
        scores: of our predictions; None if no case was predicted.
        floor: of the roofline after scaling; None if the work is not known.
        floor_factors: table -> the roofline's factor.
        choices: contest -> how much longer its predicted best takes than its measured best, as a share of the latter; for
            contests of two cases or more.
        not_predicted: cases without a prediction.
    """

    name: str
    gpu: str
    clock: str
    cache: str
    spread: float | None
    cases: tuple[Outcome, ...]
    scores: Scores | None
    floor: Scores | None
    factors: dict[str, float]
    floor_factors: dict[str, float]
    choices: dict[str, float]

    @property
    def not_predicted(self) -> int:
        """How many cases have no prediction."""
        return sum(not c.is_predicted for c in self.cases)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `n` and the other metrics are keys of the family itself."""
        empty = {"n": 0, **dict.fromkeys(("mape", "median", "p90", "worst", "bias", "tau", "tau_clear"))}
        return {**(self.scores.to_dict() if self.scores else empty), "not_predicted": self.not_predicted, "gpu": self.gpu,
                "clock": self.clock, "cache": self.cache, "spread": self.spread, "clock_factors": self.factors,
                "choices": self.choices, "floor": self.floor.to_dict() if self.floor else None,
                "floor_factors": self.floor_factors}


def families(outcomes: Iterable[Outcome]) -> list[Family]:
    """The outcomes of one suite by family, in the order in which families first appear."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.family].append(outcome)
    return [_family(name, group) for name, group in groups.items()]


def _family(name: str, group: Sequence[Outcome]) -> Family:
    done = [c for c in group if c.is_predicted]
    factors = _factors([c for c in done if c.clock_mhz is None], [c.predicted_us or 0.0 for c in done if c.clock_mhz is None])
    scaled = {c.id: (c.predicted_us or 0.0) * (factors[c.table] if c.clock_mhz is None else 1.0) for c in done}
    with_floor = [c for c in done if c.floor_us]
    floor_factors = _factors(with_floor, [c.floor_us or 0.0 for c in with_floor])
    floors = {c.id: (c.floor_us or 0.0) * floor_factors[c.table] for c in with_floor}
    cases = tuple(replace(c, scaled_us=scaled[c.id], ratio=scaled[c.id] / c.measured_us,
                          floor_ratio=floors[c.id] / c.measured_us if c.id in floors else None) if c.is_predicted else c
                  for c in group)
    spreads = [c.spread for c in group if c.spread is not None]
    clocks = sorted({c.clock_mhz or 0.0 for c in group})
    return Family(
        name, group[0].gpu, ", ".join(f"{clock:g} MHz" if clock else "unknown" for clock in clocks),
        ", ".join(sorted({c.cache for c in group})), statistics.median(spreads) if spreads else None, cases,
        scores([scaled[c.id] for c in done], [c.measured_us for c in done]) if done else None,
        scores([floors[c.id] for c in with_floor], [c.measured_us for c in with_floor]) if with_floor else None,
        factors, floor_factors, _choices(done))


def _choices(done: Sequence[Outcome]) -> dict[str, float]:
    contests: dict[str, list[Outcome]] = defaultdict(list)
    for case in done:
        if case.contest:
            contests[case.contest].append(case)
    return {name: min(cases, key=lambda c: c.predicted_us or 0.0).measured_us / min(c.measured_us for c in cases) - 1
            for name, cases in contests.items() if len(cases) > 1}


def _factors(cases: Sequence[Outcome], times: Sequence[float]) -> dict[str, float]:
    """One factor a table."""
    tables: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for case, us in zip(cases, times, strict=True):
        tables[case.table].append((us, case.measured_us))
    return {table: best_factor(*zip(*pairs, strict=True)) for table, pairs in tables.items()}


@dataclass(frozen=True)
class Verdict:
    """A target, and what became of it: the worst family it covers. `value` is None if none was predicted."""

    target: Target
    family: str
    value: float | None

    @property
    def met(self) -> bool | None:
        """Whether it is reached; None if there is nothing to judge."""
        if self.value is None:
            return None
        return self.value >= self.target.limit if self.target.at_least else self.value <= self.target.limit


def verdicts(suite: Suite, found: Sequence[Family]) -> list[Verdict]:
    """Every target of the suite."""
    out = []
    for target in suite.targets:
        if target.metric == "choice":
            losses = [loss for f in found if any(fnmatchcase(f.name, p) for p in target.families) for loss in f.choices.values()]
            share = sum(loss <= CHOICE for loss in losses) / len(losses) if losses else None
            out.append(Verdict(target, f"{len(losses)} choices", share))
            continue
        known = [(float(value), f.name) for f in found if f.scores and any(fnmatchcase(f.name, p) for p in target.families)
                 and (value := getattr(f.scores, target.metric)) is not None]
        value, name = (min if target.at_least else max)(known, default=(None, ""))
        out.append(Verdict(target, name, value))
    return out
