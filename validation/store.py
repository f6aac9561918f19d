"""Predictions on disk, so that a run that was stopped goes on where it ended. They hold for one state of gtsim's files only."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..frontend.tilelang.exact.cache import cache_folder
from ..graph.files import write_whole
from .cases import Case
from .evaluate import Settings
from .inputs import Inputs
from .outcome import Outcome

_ROOMS = ("backend", "frontend", "graph", "hwconfigs", "validation")
#: Files of this room that come after a prediction, or only hand it on.
_AFTERWARDS = {"document.py", "metrics.py", "pool.py", "record.py", "registry.py", "run.py", "scoring.py", "store.py",
               "tables.py"}
_MEASUREMENT = ("id", "suite", "gpu", "table", "clock_mhz", "cache", "measured_us", "measured_cycles", "p10_us", "p90_us", "note",
                "contest")


class Store:
    """Outcomes of one suite under one way to predict, a file each in the user's cache folder (`GTSIM_CACHE_DIR`)."""

    def __init__(self, suite: str, source: str, inputs: Inputs, settings: Settings, folder: Path | None = None) -> None:
        self.folder = (folder or cache_folder()) / "validate"
        own = _digest([Path(source)]) if source.endswith(".py") else ""
        self._state = [code_digest(), tilelang_version(), own, suite, asdict(settings), inputs.candidates,
                       _tree_digest(str(inputs.tileops)) if inputs.tileops else "",
                       Path(settings.hw).read_text() if settings.hw and settings.hw.endswith(".toml") else ""]

    def path(self, case: Case) -> Path:
        """The file of a case: its name depends on all that the prediction depends on, if its id and `given`
        name what `build` depends on."""
        work = asdict(case.work) if case.work else None
        facts: list[Any] = [*self._state, case.id, case.hw, case.measured.clock_mhz, dict(case.overrides), work, dict(case.given)]
        key = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
        return self.folder / key[:2] / f"{key}.json"

    def load(self, suite: str, case: Case) -> Outcome | None:
        """The outcome of a case with the measurement as it is now; None if there is none."""
        try:
            kept = Outcome.from_dict(json.loads(self.path(case).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        now = Outcome.of(suite, case)
        made = replace(kept, **{name: getattr(now, name) for name in _MEASUREMENT})
        return replace(made, ratio=(made.predicted_us or 0.0) / made.measured_us) if made.is_predicted else None

    def keep(self, case: Case, outcome: Outcome) -> None:
        """Write a prediction; a folder that cannot be written costs only the time of the next run."""
        if outcome.is_predicted:
            with suppress(OSError):
                path = self.path(case)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, json.dumps(outcome.to_dict()).encode())


@cache
def code_digest() -> str:
    """Changes with any file of gtsim that a prediction may depend on."""
    files: list[Path] = []
    for room in _ROOMS:
        for folder in importlib.import_module(f"gtsim.{room}").__path__:
            found = [p for p in Path(folder).rglob("*") if p.suffix in (".py", ".so", ".toml")]
            files += [p for p in found if room != "validation" or p.name not in _AFTERWARDS]
    return _digest(files)


@cache
def _tree_digest(folder: str) -> str:
    return _digest(p for part in ("src", "benchmarks") for p in (Path(folder) / part).rglob("*.py"))


def _digest(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in sorted(files):
        with suppress(OSError):
            total.update(f"{path.name}\0".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def tilelang_version() -> str:
    """Of the installed TileLang; empty if there is none."""
    try:
        return version("tilelang")
    except PackageNotFoundError:
        return ""
