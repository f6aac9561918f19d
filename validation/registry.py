"""Suites announce themselves: a file in `suites/`, or any file that is given by path, calls :func:`suite`."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import UsageError
from .cases import Case
from .inputs import Inputs

Cases = Callable[[Inputs], Iterable[Case]]


@dataclass(frozen=True)
class Target:
    """What a family must reach: `metric` at most `limit` (at least, for `tau` and `choice`), and what was meant in words.

    Attributes:
        families: patterns of family names; the worst of them counts.
        metric: a key of the family's scores, or "choice": the share of the families' contests whose predicted best is good.
        limit: shares from 0 to 1 (0.04 is 4 %).
        what: as the target was worded.
    """

    families: tuple[str, ...]
    metric: str
    limit: float
    what: str

    @property
    def at_least(self) -> bool:
        """Whether more is better."""
        return self.metric in ("tau", "choice")


@dataclass(frozen=True)
class Suite:
    """A set of cases from one kind of source.

    Attributes:
        name: for `--suite`.
        title: one line.
        cases: yields the cases. Raises UsageError if a file or a column is missing.
        truth: how it was measured: clock, cache, spread, in a sentence.
        stands_for: what our kernels stand for, where they are not the ones that were measured.
        needs: "tileops" if a checkout is needed.
        targets: what it must reach.
        family_notes: family -> where our kernel differs from what was measured.
    """

    name: str
    title: str
    cases: Cases
    truth: str
    stands_for: str = ""
    needs: str = ""
    targets: tuple[Target, ...] = ()
    family_notes: Mapping[str, str] = field(default_factory=dict)


_SUITES: dict[str, Suite] = {}


def suite(name: str, title: str, *, truth: str, stands_for: str = "", needs: str = "", targets: Iterable[Target] = (),
          family_notes: Mapping[str, str] | None = None) -> Callable[[Cases], Cases]:
    """Register the decorated function, which yields cases, as the suite `name`; see :class:`Suite`."""

    def register(cases: Cases) -> Cases:
        if name in _SUITES and _SUITES[name].cases.__module__ != cases.__module__:
            other = _SUITES[name].cases.__module__
            raise UsageError(f"the suite {name!r} is defined twice: in {other} and in {cases.__module__}.")
        _SUITES[name] = Suite(name, title, cases, truth, stands_for, needs, tuple(targets), dict(family_notes or {}))
        return cases

    return register


def all_suites() -> dict[str, Suite]:
    """Every suite by name: those in the folder `suites`, and those that other code has registered."""
    from . import suites as folder

    for module in pkgutil.iter_modules(folder.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{folder.__name__}.{module.name}")
    return dict(sorted(_SUITES.items()))


def find(name: str) -> list[Suite]:
    """The suite `name`, or those that the file `name` (ending in .py) registers. Raises UsageError and KernelFileError."""
    known = all_suites()
    if name in known:
        return [known[name]]
    if name.endswith(".py"):
        from ..kernel_file import import_file

        module = import_file(Path(name))
        found = [s for s in all_suites().values() if s.cases.__module__ == module.__name__]
        if not found:
            raise UsageError(f"{name} registers no suite. Decorate a function that yields cases with gtsim.validation.suite.")
        return found
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}, or give a file that registers one."
    raise UsageError(f"there is no suite {name!r}. {hint}")
