"""A run as JSON."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..hwconfigs import load_hardware
from .evaluate import Settings
from .inputs import MEASURED, Inputs
from .registry import Suite
from .run import SuiteRun
from .scoring import verdicts
from .store import code_digest, tilelang_version

#: Grows by one whenever a field changes its meaning or goes away.
SCHEMA = 1


def record(runs: Sequence[SuiteRun], left_out: Sequence[tuple[Suite, str]], inputs: Inputs, settings: Settings) -> dict[str, Any]:
    """Plain data: docs/accuracy.md describes it. Metrics are shares from 0 to 1."""
    found = {run.suite.name: run.families for run in runs}
    return {
        "schema": SCHEMA,
        "date": today(),
        "versions": versions(),
        "hashes": {"gtsim": code_digest(), "hardware": hardware_hashes(runs, settings)},
        "settings": {**asdict(settings), "overrides": dict(settings.overrides), "candidates": inputs.candidates,
                     "sample": inputs.sample, "measured": "own copies" if inputs.measured == MEASURED else str(inputs.measured)},
        "units": "times in us, metrics as shares (0.04 is 4 %)",
        "suites": {
            run.suite.name: {
                "title": run.suite.title,
                "truth": run.suite.truth,
                "chosen": run.chosen,
                "done": len(run.outcomes),
                "interrupted": run.interrupted,
                "families": {f.name: f.to_dict() for f in found[run.suite.name]},
                "targets": [{"what": v.target.what, "metric": v.target.metric, "limit": v.target.limit, "family": v.family,
                             "value": v.value, "met": v.met} for v in verdicts(run.suite, found[run.suite.name])],
            }
            for run in runs
        },
        "left_out": {suite.name: reason for suite, reason in left_out},
        "cases": [c.to_dict() for families in found.values() for f in families for c in f.cases],
    }


def today() -> str:
    """The date, ISO, UTC."""
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()


def versions() -> dict[str, str]:
    """Of what predictions depend on."""
    from .. import __version__

    return {"gtsim": str(__version__), "tilelang": tilelang_version(), "python": platform.python_version()}


def hardware_hashes(runs: Sequence[SuiteRun], settings: Settings) -> dict[str, str]:
    """Hardware file -> hash of its numbers, without what cases and the command line lay over them."""
    names = {settings.hw or c.gpu for run in runs for c in run.outcomes}
    return {name: load_hardware(name).hash for name in sorted(names)}
