"""docs/accuracy.md, written by the command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .outcome import Outcome
from .registry import Suite, all_suites
from .run import SuiteRun
from .scoring import Family, verdicts
from .tables import FAMILY_COLUMNS, case_numbers, family_row, path_text, target_text

HEAD = """# Accuracy

Written by `gtsim validate --write-docs docs/accuracy.md`, not by hand. Run it again to check; `gtsim validate --help` has the
ways to choose suites and cases, and `--measured DIR` takes other measurements of the same names and columns.

- Errors are |predicted / measured − 1|. MAPE is their mean, p90 what nine of ten cases stay within, bias the mean of
  predicted / measured − 1 (below zero: predicted too fast), tau Kendall's rank correlation of predicted and measured times;
  clear tau leaves out pairs whose measured times are within 3 % of each other, which is what one kernel timed twice differs by.
- The floor is a roofline (FLOPs at the tensor peak or compulsory bytes at the DRAM peak, whichever takes longer), multiplied by
  the one factor a family (a table, where there are several) that gives it the least MAPE. A model must beat it.
- Where the clock of a measurement is not known, predictions are multiplied by one factor a table, chosen in the same way: only
  ratios and rankings count.
- Choices: of how many problems that were measured in several configurations the predicted best takes at most 3 % longer than the
  measured best.
- Spread is the median of (p90 − p10) / measured, where it was published.
- Families that end in `-tuned`: the measured program chose the best of many configurations by measuring, and which is not
  recorded. The best of ours counts; behind it stands of how many.
- Cases that could not be predicted are listed with the reason, and are in no average.
"""


def page(runs: Sequence[SuiteRun], left_out: Sequence[tuple[Suite, str]], made: Mapping[str, Any]) -> str:
    """The page. `made` is the record of the same run."""
    parts = [HEAD, _provenance(made)]
    for run in runs:
        parts += [_suite(run)]
    named = {run.suite.name for run in runs} | {suite.name for suite, _ in left_out}
    left_out = [*left_out, *((s, "not part of this run") for s in all_suites().values() if s.name not in named)]
    if left_out:
        parts.append("## Left out\n\n" + "\n".join(f"- `{s.name}` ({s.title}): {reason}" for s, reason in left_out) + "\n")
    return "\n".join(parts).rstrip() + "\n"


def _provenance(made: Mapping[str, Any]) -> str:
    versions, settings = made["versions"], made["settings"]
    rows = [("date", made["date"]), *versions.items(), ("state of gtsim's files", f"`{made['hashes']['gtsim']}`"),
            *((f"hardware file {name}", f"`{value}`") for name, value in made["hashes"]["hardware"].items()),
            ("fidelity", settings["fidelity"]), ("configurations tried where the best counts", settings["candidates"] or "all"),
            ("cases a family in sampled suites", settings["sample"] or "all")]
    return _table(("of this run", ""), rows)


def _suite(run: SuiteRun) -> str:
    found = run.families
    title = run.suite.title[0].upper() + run.suite.title[1:]
    parts = [f"## {run.suite.name}", f"{title}. {run.suite.truth} {run.suite.stands_for}".strip()]
    if run.interrupted:
        parts.append(f"Interrupted: {len(run.outcomes)} of {run.chosen} cases are done.")
    parts.append(_table(FAMILY_COLUMNS, (family_row(f) for f in found)).rstrip())
    judged = verdicts(run.suite, found)
    if judged:
        parts.append("Targets:\n\n" + "\n".join(f"- {target_text(v)}" for v in judged))
    notes = [f"- `{f.name}`: {run.suite.family_notes[f.name]}" for f in found if f.name in run.suite.family_notes]
    if notes:
        parts.append("Where our kernels differ:\n\n" + "\n".join(notes))
    parts += [_cases(f) for f in found if f.scores]
    missing = [c for c in run.outcomes if not c.is_predicted]
    if missing:
        parts.append(f"### Not predicted in {run.suite.name}\n\n{len(missing)} of {len(run.outcomes)} cases.\n\n"
                     + _table(("case", "reason"), ((c.id, c.reason) for c in missing)).rstrip())
    return "\n\n".join(parts) + "\n"


def _cases(f: Family) -> str:
    done = [c for c in f.cases if c.is_predicted]
    known = all(c.clock_mhz is not None for c in done)
    unit = "cycles" if known else "us"
    head = ("case", f"measured, {unit}", f"predicted, {unit}", "ratio", "what the time goes to")
    return f"### {f.name} on {f.gpu}\n\n" + _table(head, (_case(c, known) for c in done)).rstrip()


def _case(c: Outcome, known: bool) -> tuple[str, ...]:
    return c.id, *case_numbers(c, known), path_text(c)


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
