"""A whole run: which suites and cases, in which order, with what kept on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from ..errors import UsageError
from .cases import Case
from .evaluate import Settings
from .inputs import Inputs
from .outcome import Outcome
from .pool import CASE_SECONDS, Pool, cores
from .registry import Suite, all_suites, find
from .scoring import Family, families
from .store import Store

#: Called with the suite, how many of its cases are done, and how many there are.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Choice:
    """Which cases of a suite to run: all patterns must fit (`*` and `?`), and numbers count in the order of the suite.

    Attributes:
        case: pattern of the case's id.
        family: pattern of its family.
        per_group: at most so many of each operator (what stands before `--` in an id).
        limit: at most so many.
    """

    case: str = "*"
    family: str = "*"
    per_group: int | None = None
    limit: int | None = None

    def of(self, cases: Sequence[Case]) -> list[Case]:
        """The chosen ones."""
        seen: Counter[str] = Counter()
        out: list[Case] = []
        for case in cases:
            group = case.id.partition("--")[0]
            if not (fnmatchcase(case.id, self.case) and fnmatchcase(case.family, self.family)):
                continue
            if self.limit is not None and len(out) >= self.limit:
                break
            if self.per_group is None or seen[group] < self.per_group:
                seen[group] += 1
                out.append(case)
        return out


@dataclass
class SuiteRun:
    """What came out of a suite. `interrupted`: not all of the chosen cases are done."""

    suite: Suite
    outcomes: list[Outcome] = field(default_factory=list)
    chosen: int = 0
    interrupted: bool = False

    @property
    def families(self) -> list[Family]:
        """By family, with their numbers."""
        return families(self.outcomes)


def select(names: Sequence[str], inputs: Inputs) -> tuple[list[tuple[str, Suite]], list[tuple[Suite, str]]]:
    """The suites to run, each with what names it for a worker, and those left out with the reason. Raises UsageError."""
    if inputs.tileops is not None and not (inputs.tileops / "benchmarks" / "ops").is_dir():
        raise UsageError(f"{inputs.tileops} is no checkout of TileOPs: it has no folder benchmarks/ops. "
                         "git clone https://github.com/tile-ai/TileOPs, then git checkout 52dbc086.")
    if not inputs.measured.is_dir():
        raise UsageError(f"{inputs.measured}: no such folder. --measured takes a folder of CSV files.")
    chosen = [(name, s) for name in names for s in find(name)] if names else [(s.name, s) for s in all_suites().values()]
    run, left_out = [], []
    for source, suite in dict((s.name, (source, s)) for source, s in chosen).values():
        if suite.needs == "tileops" and inputs.tileops is None:
            reason = "it needs a checkout of tile-ai/TileOPs at 52dbc086: --tileops DIR"
            if names:
                raise UsageError(f"the suite {suite.name} cannot run: {reason}.")
            left_out.append((suite, reason))
        else:
            run.append((str(Path(source).resolve()) if source.endswith(".py") else source, suite))
    return run, left_out


def listed(suite: Suite, inputs: Inputs) -> list[Case]:
    """The cases of a suite. Raises UsageError if two have the same id."""
    cases = list(suite.cases(inputs))
    twice = [name for name, n in Counter(case.id for case in cases).items() if n > 1]
    if twice:
        raise UsageError(f"the suite {suite.name} has two cases called {twice[0]!r}.")
    return cases


def run_suite(source: str, suite: Suite, cases: Sequence[Case], inputs: Inputs, settings: Settings, *, jobs: int | None = None,
              log: str, keep: bool = True, seconds: float = CASE_SECONDS, progress: Progress | None = None) -> SuiteRun:
    """Predict `cases`, in any order; the outcomes stand in the order of the suite. Ctrl-C ends it with what is finished.

    Args:
        source: name of the suite, or the file that registers it.
        jobs: worker processes; as many as there are cores if None.
        log: file that takes what compilers print.
        keep: take predictions from the user's cache folder, and leave them there.
        seconds: that one case may take.
    """
    order = {case.id: i for i, case in enumerate(cases)}
    made = SuiteRun(suite, chosen=len(cases))
    store = Store(suite.name, source, inputs, settings) if keep else None
    waiting = []

    def done(outcome: Outcome) -> None:
        made.outcomes.append(outcome)
        if progress is not None:
            progress(suite.name, len(made.outcomes), len(cases))

    try:
        for case in cases:
            if store is not None and (kept := store.load(suite.name, case)) is not None:
                done(kept)
            else:
                waiting.append(case)
        pool = Pool(source, suite.name, inputs, settings, jobs=jobs or cores(), log=log, seconds=seconds)
        for outcome in pool.run(waiting):
            if store is not None:
                store.keep(cases[order[outcome.id]], outcome)
            done(outcome)
    except KeyboardInterrupt:
        made.interrupted = True
    made.outcomes.sort(key=lambda o: order[o.id])
    return made
