"""What a run prints: a table of families a suite, targets, cases, and what could not be predicted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from .metrics import Scores
from .outcome import Outcome
from .registry import Suite
from .run import SuiteRun
from .scoring import CHOICE, Family, Verdict, verdicts


def percent(value: float | None, sign: bool = False) -> str:
    """A share as per cent; "" if there is none."""
    return "" if value is None else f"{100 * value:+.1f} %" if sign else f"{100 * value:.1f} %"


def tau(value: float | None) -> str:
    """Kendall's tau; "" if there is none."""
    return "" if value is None else f"{value:.2f}"


#: Column titles of the table of families.
FAMILY_COLUMNS = ("family", "GPU", "cases", "MAPE", "median", "p90", "worst", "bias", "tau", "clear tau", "floor MAPE",
                  "floor tau", "clock", "L2", "choices", "factor", "spread")


def family_row(f: Family) -> tuple[str, ...]:
    """The cells of a family in :data:`FAMILY_COLUMNS`."""
    s, floor = f.scores, f.floor
    count = f"{s.n if s else 0}" + (f" of {len(f.cases)}" if f.not_predicted else "")
    choices = f"{sum(loss <= CHOICE for loss in f.choices.values())} of {len(f.choices)}" if f.choices else ""
    factor = ", ".join(f"{x:.2f}" for x in f.factors.values()) if len(f.factors) <= 3 else f"{len(f.factors)} tables"
    return (f.name, f.gpu, count, *numbers(s), percent(floor.mape if floor else None), tau(floor.tau if floor else None), f.clock,
            re.split("[:,]", f.cache)[0], choices, factor, percent(f.spread))


def numbers(s: Scores | None) -> tuple[str, ...]:
    """MAPE, median, p90, worst, bias, tau, tau of clear pairs."""
    if s is None:
        return ("",) * 7
    return (percent(s.mape), percent(s.median), percent(s.p90), percent(s.worst), percent(s.bias, sign=True), tau(s.tau),
            tau(s.tau_clear))


def target_text(v: Verdict) -> str:
    """What was asked for and what came out, in a line."""
    rank = v.target.metric == "tau"
    limit = f"at {'least' if v.target.at_least else 'most'} " + (f"{v.target.limit:g}" if rank else f"{100 * v.target.limit:g} %")
    if v.value is None:
        return f"{v.target.what}: {limit}; nothing to judge"
    value = f"{v.value:.2f}" if rank else percent(v.value)
    return f"{v.target.what}: {limit}; {value} ({v.family}): {'met' if v.met else 'not met'}"


def suite_report(run: SuiteRun, show_cases: bool) -> RenderableType:
    """Everything about one suite."""
    found = run.families
    parts: list[RenderableType] = [Rule(Text(f"{run.suite.name}: {run.suite.title}", "bold"), align="left"), about(run.suite)]
    if show_cases:
        parts += [_case_table(f) for f in found if f.scores]
    parts.append(_family_table(found))
    parts += [Text(f"target: {target_text(v)}", "green" if v.met else "red" if v.met is False else "dim")
              for v in verdicts(run.suite, found)]
    missing = [c for c in run.outcomes if not c.is_predicted]
    if missing:
        parts.append(Text(f"not predicted: {len(missing)} of {len(run.outcomes)}", "yellow"))
        parts += [Padding(Text(f"{c.id}: {c.reason}"), (0, 0, 0, 2)) for c in missing]
    if run.interrupted:
        parts.append(Text(f"interrupted: {len(run.outcomes)} of {run.chosen} cases are done; the same command goes on from there",
                          "bold yellow"))
    return Group(*parts, Text(""))


def about(suite: Suite) -> RenderableType:
    """How it was measured and what stands for it."""
    return Text(" ".join(filter(None, (suite.truth, suite.stands_for))), "dim")


def _family_table(found: Sequence[Family]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in FAMILY_COLUMNS:
        table.add_column(title, justify="left" if title in ("family", "GPU", "clock", "L2") else "right")
    for f in found:
        table.add_row(*family_row(f))
    return table


def _case_table(f: Family) -> RenderableType:
    known = all(c.clock_mhz is not None for c in f.cases)
    unit = "cycles" if known else "us"
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title=Text(f.name, "bold"), title_justify="left")
    for title in ("case", f"measured, {unit}", f"predicted, {unit}", "ratio", "what the time goes to"):
        table.add_column(title, justify="left" if title in ("case", "what the time goes to") else "right")
    for c in f.cases:
        if c.is_predicted:
            table.add_row(c.id, *case_numbers(c, known), path_text(c))
    return Group(table, Text(""))


def case_numbers(c: Outcome, in_cycles: bool) -> tuple[str, str, str]:
    """Measured, predicted, ratio."""
    measured, predicted = (c.measured_cycles, c.predicted_cycles) if in_cycles else (c.measured_us, c.scaled_us)
    form = "{:,.0f}" if in_cycles else "{:,.2f}"
    return form.format(measured), form.format(predicted), f"{c.ratio:.3f}"


def path_text(c: Outcome) -> str:
    """The top of the critical path, and the configuration that was best."""
    top = ", ".join(f"{e['what']} {e['share']:.0%}" for e in c.critical_path[:2])
    return f"{top} [{c.configuration}, {c.tried} of {c.candidates}]" if c.tuned or c.configuration else top
