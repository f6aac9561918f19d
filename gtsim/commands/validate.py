"""`gtsim validate`: predictions against measurements."""

from __future__ import annotations

import json as _json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from ..files import check_writable, write_text
from . import _options as o
from ._app import app

if TYPE_CHECKING:
    from ..validation.evaluate import Settings
    from ..validation.inputs import Inputs
    from ..validation.registry import Suite
    from ..validation.run import Progress, SuiteRun

Suites = Annotated[
    list[str] | None,
    typer.Option("--suite", metavar="NAME|FILE.py", help="A suite, or a file that registers one. Repeatable; all by default."),
]
TileOps = Annotated[
    Path | None, typer.Option("--tileops", metavar="DIR", help="A checkout of tile-ai/TileOPs (commit 52dbc086).")
]
MeasuredFolder = Annotated[
    Path | None, typer.Option("--measured", metavar="DIR", help="Take the CSV files of this folder instead of our copies.")
]
CasePattern = Annotated[str, typer.Option("--case", metavar="PATTERN", help="Only cases whose id fits, such as 'GemmFwdOp--*'.")]
FamilyPattern = Annotated[str, typer.Option("--family", metavar="PATTERN", help="Only families whose name fits.")]
PerOp = Annotated[int | None, typer.Option("--per-op", metavar="N", min=1, help="At most N cases of each operator.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most N cases of each suite.")]
Candidates = Annotated[
    int, typer.Option("--candidates", metavar="N", min=0,
                      help="Configurations to try where the best of many counts, evenly spread; 0 for all.")
]
Sample = Annotated[
    int, typer.Option("--sample", metavar="N", min=0, help="Cases of each family in a sampled suite, evenly spread; 0 for all.")
]
Hw = Annotated[str | None, typer.Option("--hw", metavar="NAME|FILE.toml", show_default="that of each case",
                                        help="The GPU; see gtsim hw list.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Worker processes.", show_default="cores")]
CaseSeconds = Annotated[float, typer.Option("--case-seconds", metavar="S", min=1, help="Give up a case after that.")]
NoStore = Annotated[bool, typer.Option("--no-cache", help="Predict everything again, and keep nothing for the next run.")]
Log = Annotated[Path | None, typer.Option("--log", metavar="FILE", help="Where to put what TileLang and TileOPs print.")]
ShowCases = Annotated[bool, typer.Option("--cases/--no-cases", help="Print every case.")]
WriteDocs = Annotated[
    Path | None, typer.Option("--write-docs", metavar="FILE.md", help="Write the tables as a page, docs/accuracy.md.")
]
ListThem = Annotated[bool, typer.Option("--list", help="Print the suites, or the cases of the suites that are named, and stop.")]


@app.command()
def validate(
    suite: Suites = None,
    tileops: TileOps = None,
    measured: MeasuredFolder = None,
    json: o.Json = None,
    case: CasePattern = "*",
    family: FamilyPattern = "*",
    per_op: PerOp = None,
    limit: Limit = None,
    candidates: Candidates = 8,
    sample: Sample = 4,
    hw: Hw = None,
    changes: o.Set = None,
    fidelity: o.Fidelity = None,
    jobs: Jobs = None,
    case_seconds: CaseSeconds = 1200.0,
    no_cache: NoStore = False,
    log: Log = None,
    cases: ShowCases = True,
    write_docs: WriteDocs = None,
    list_them: ListThem = False,
) -> None:
    """Compare predictions with measurements, suite by suite."""
    from ..arguments import check_choice
    from ..backend import FIDELITIES
    from ..hwconfigs import load_hardware
    from ..interrupt import heeded_by_python
    from ..validation.evaluate import Settings
    from ..validation.inputs import MEASURED, Inputs
    from ..validation.run import Choice, listed, run_suite, select

    o.check_json(json)
    for target in (write_docs, log):
        if target is not None:
            check_writable(target)
    inputs = Inputs((measured or MEASURED).resolve(), tileops.resolve() if tileops else None, candidates, sample)
    settings = Settings(_path(hw), o.overrides(changes), fidelity or "bulk")
    check_choice("fidelity", settings.fidelity, FIDELITIES)
    if settings.hw is not None:
        load_hardware(settings.hw, settings.overrides)
    chosen, left_out = select(suite or (), inputs)
    choice = Choice(case, family, per_op, limit)
    if list_them and not suite:
        for one in [s for _, s in chosen] + [s for s, _ in left_out]:
            print(f"{one.name:16} {one.title}")
        return
    work = [(source, one, choice.of(listed(one, inputs))) for source, one in chosen]
    if list_them:
        for _, one, wanted in work:
            for c in wanted:
                print(f"{one.name}\t{c.family}\t{c.id}\t{c.measured.time_us:g}")
        return
    if not any(wanted for *_, wanted in work):
        raise UsageError("no case fits --case, --family and --limit; --list prints those there are.")
    for *_, wanted in work:
        for c in wanted:
            settings.hardware(c)  # a wrong --set is refused before anything runs
    runs: list[SuiteRun] = []
    with tempfile.TemporaryDirectory() as folder, heeded_by_python(), _bar() as progress:
        noise = str(log.resolve()) if log else str(Path(folder) / "log.txt")
        for source, one, wanted in work:
            if wanted:
                runs.append(run_suite(source, one, wanted, inputs, settings, jobs=jobs, log=noise, keep=not no_cache,
                                      seconds=case_seconds, progress=progress))
            if runs and runs[-1].interrupted:
                break
        _finish(runs, left_out, inputs, settings, json, cases, write_docs)
    if any(run.interrupted for run in runs):
        raise KeyboardInterrupt
    if not any(o.is_predicted for run in runs for o in run.outcomes):
        raise typer.Exit(1)


def _path(hw: str | None) -> str | None:
    return str(Path(hw).resolve()) if hw and hw.endswith(".toml") else hw


def _finish(runs: list[SuiteRun], left_out: list[tuple[Suite, str]], inputs: Inputs, settings: Settings, json: str | None,
            cases: bool, write_docs: Path | None) -> None:
    """Print and write what there is, all of the run or what was finished before Ctrl-C."""
    from rich.console import Console

    from ..validation.document import page
    from ..validation.record import record
    from ..validation.tables import suite_report

    made = record(runs, left_out, inputs, settings)
    if json == "-":
        sys.stdout.write(_json.dumps(made, indent=2) + "\n")
    else:
        if json is not None:
            write_text(Path(json), _json.dumps(made, indent=2) + "\n")
        console = Console()
        if not console.is_terminal:
            console = Console(width=200)
        for run in runs:
            console.print(suite_report(run, cases))
        for suite, reason in left_out:
            console.print(f"left out: {suite.name} ({suite.title}): {reason}", highlight=False)
    if write_docs is not None:
        write_text(write_docs, page(runs, left_out, made))


@contextmanager
def _bar() -> Iterator[Progress | None]:
    """A progress bar a suite on standard error; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    tasks: dict[str, int] = {}
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
                  console=Console(stderr=True), transient=True) as bar:

        def update(suite: str, done: int, of: int) -> None:
            if suite not in tasks:
                tasks[suite] = bar.add_task(suite, total=of)
            bar.update(tasks[suite], completed=done)  # type: ignore[arg-type]

        yield update
