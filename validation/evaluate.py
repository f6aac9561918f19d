"""From a case to an outcome: build it, lower it, simulate it, and keep what matters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..backend import Result, simulate
from ..backend.summary import critical_role
from ..errors import USER_ERRORS
from ..frontend import lower_program
from ..graph import KernelGraph
from ..hwconfigs import Hardware, load_hardware
from .best_of import best_of
from .cases import Case, Launch, NotBuilt, Trial
from .floors import roofline_us
from .outcome import Outcome

#: Entries of a case's critical path that are kept.
PATH_ENTRIES = 5


@dataclass(frozen=True)
class Settings:
    """How to predict, the same for all cases of a run.

    Attributes:
        hw: a hardware file for all cases, instead of their own.
        overrides: laid over the hardware file and over what a case asks for.
        fidelity: as for `gtsim.simulate`. Where the best of several configurations counts, "fast" finds it.
    """

    hw: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    fidelity: str = "bulk"

    def hardware(self, case: Case) -> Hardware:
        """The GPU of a case. Raises HardwareError."""
        return load_hardware(self.hw or case.hw, {**case.overrides, **self.overrides})


def evaluate(suite: str, case: Case, settings: Settings) -> Outcome:
    """Predict a case. What cannot be built or predicted becomes an outcome with the reason."""
    started = time.perf_counter()
    outcome, tuned = Outcome.of(suite, case), False
    try:
        hw = settings.hardware(case)
        clock = case.measured.clock_mhz or hw.chip.clock_mhz
        plan = case.build()
        tuned = plan.tuned
        quick = settings.fidelity if len(plan.trials) == 1 else "fast"
        best = best_of(plan.trials, lambda trial: _run(trial, hw, clock, quick, plan.kernels),
                       lambda results: sum(r.cycles for r in results), (NotBuilt, *USER_ERRORS))
        results = best.result
        if quick != settings.fidelity and any(r.skipped for r in results):
            results = _run(best.candidate, hw, clock, settings.fidelity, plan.kernels)
    except (NotBuilt, *USER_ERRORS) as error:
        return outcome.failed(" ".join(str(error).split()), time.perf_counter() - started, tuned=tuned)
    return outcome.predicted(
        cycles=sum(r.cycles for r in results),
        clock_mhz=clock,
        bound_by=" + ".join(dict.fromkeys(r.bound_by for r in results)),
        critical_path=critical_path(results),
        configuration=best.candidate.label,
        tried=best.tried,
        candidates=plan.candidates,
        tuned=plan.tuned,
        kernels=len(results),
        floor_us=roofline_us(case.work, hw, clock) if case.work else None,
        hashes={"hardware": results[0].hashes["hardware"]},
        seconds=time.perf_counter() - started,
    )


def _run(trial: Trial, hw: Hardware, clock_mhz: float, fidelity: str, kernels: int | None) -> list[Result]:
    """Every kernel of the trial, each with the L2 as the hardware file has it at the start. Raises NotBuilt if they are not as
    many as were measured."""
    graphs = [graph for launch in trial.launches() for graph in _graphs(launch, hw)]
    if kernels is not None and len(graphs) != kernels:
        raise NotBuilt(f"the row sums {kernels} kernels, but {len(graphs)} of ours are launched")
    return [simulate(graph, hw, fidelity=fidelity, clock_mhz=clock_mhz) for graph in graphs]


def _graphs(launch: Launch, hw: Hardware) -> Sequence[KernelGraph]:
    if isinstance(launch.kernel, KernelGraph):
        return (launch.kernel,)
    return lower_program(launch.kernel, (), dict(launch.kwargs), arch=hw.chip.arch, symbols=dict(launch.symbols) or None,
                         metadata=dict(launch.metadata) or None, pass_configs=dict(launch.pass_configs) or None)


def critical_path(results: Sequence[Result]) -> list[dict[str, Any]]:
    """What the time goes to, by the role that waits least for others: `what`, and its share of the whole; largest first.

    Of several kernels each counts by its cycles, and `what` begins with its name.
    """
    total = sum(r.cycles for r in results)
    entries: list[dict[str, Any]] = []
    for r in results:
        role = critical_role(r.roles)
        if role is None:
            continue
        name = f"{r.kernel}, {role.role}" if len(results) > 1 else role.role
        for what, share in {"executing": role.working, **role.waits}.items():
            entries.append({"what": f"{name}: {what}", "share": round(share * r.cycles / total, 4)})
    return sorted(entries, key=lambda e: -e["share"])[:PATH_ENTRIES]
