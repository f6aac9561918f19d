"""Hints: short advice, each derived from numbers that it states. A rule is a function registered with :func:`hint`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from .facts import Facts
from .style import titled

MOST = 4


@dataclass(frozen=True)
class Hint:
    """What to try, the numbers that suggest it, and roughly the share of the run at stake (hints are ordered by it)."""

    advice: str
    evidence: str
    stake: float


Rule = Callable[[Facts], Hint | None]
_RULES: list[Rule] = []


def hint(rule: Rule) -> Rule:
    """Decorator that registers a rule: from facts to a hint, or None where it does not apply."""
    _RULES.append(rule)
    return rule


def advice(facts: Facts) -> list[Hint]:
    """All hints that apply, the most promising first."""
    from . import rules  # noqa: F401  registers the built-in rules

    found: Iterable[Hint | None] = (rule(facts) for rule in _RULES)
    return sorted((h for h in found if h is not None), key=lambda h: -h.stake)


def section(facts: Facts) -> RenderableType | None:
    """The first few hints; nothing if no rule applies."""
    shown = advice(facts)[:MOST]
    if not shown:
        return None
    grid = Table.grid(padding=(0, 1, 0, 0))
    for number, h in enumerate(shown, 1):
        grid.add_row(f"{number}.", Text.assemble((h.advice, "bold"), " ", (f"[{h.evidence}]", "dim")))
    return titled("Hints", grid)
