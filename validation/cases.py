"""What a suite is made of: a measured kernel, and how to build what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Measured:
    """What a machine took.

    Attributes:
        time_us: microseconds on the device, the median where several runs were taken.
        clock_mhz: SM clock during the run; None if it is not known, and then only ratios within a table count.
        p10_us, p90_us: spread of the runs; None if it was not published.
        cache: state of the L2 when the kernel began, in words.
    """

    time_us: float
    clock_mhz: float | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    cache: str = "unknown"

    @property
    def cycles(self) -> int | None:
        """The same in SM cycles; None if the clock is not known."""
        return None if self.clock_mhz is None else round(self.time_us * self.clock_mhz)


@dataclass(frozen=True)
class Work:
    """What the kernel has to do at least: for the roofline that any model must beat.

    Attributes:
        flops: of matrix products and whatever else the source counts; a multiply-add is two.
        bytes: compulsory traffic, each tensor once.
        dtype: operand type of the products, as TileLang names it.
    """

    flops: float
    bytes: float
    dtype: str = "float16"


@dataclass(frozen=True)
class Launch:
    """One program to lower; arguments as for `gtsim.lower`. It may launch several kernels itself. A KernelGraph is taken as it
    is."""

    kernel: Any
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    symbols: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pass_configs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One configuration: `launches` builds it, in stream order."""

    label: str
    launches: Callable[[], Sequence[Launch]]


@dataclass(frozen=True)
class Plan:
    """What to predict for a case: one configuration, or several of which the best counts.

    Attributes:
        trials: the configurations, the default one first.
        candidates: how many the measured program chose from; more than `trials` if some are left out.
        tuned: the measured program chose the best by measuring, and which it was is not recorded.
        kernels: how many kernels the measured time is the sum of; None if that is not known.
    """

    trials: Sequence[Trial]
    candidates: int = 1
    tuned: bool = False
    kernels: int | None = None

    @classmethod
    def fixed(cls, kernel: Any, **arguments: Any) -> Plan:
        """A plan of one kernel of one configuration, which is made when it is called for."""
        return cls((Trial("", lambda: (Launch(kernel, arguments),)),))


class NotBuilt(Exception):
    """A case cannot be built; the message says why. It is listed and counted, not scored."""


@dataclass(frozen=True)
class Case:
    """One measured kernel.

    Attributes:
        id: unique in its suite, the same whatever the measured values are.
        family: what it is counted with. Each family is on one GPU.
        hw: the hardware file.
        measured: the truth.
        work: for the floor; None if it is not known.
        build: makes the plan, in a worker process. Raises NotBuilt.
        table: rows of one table share one clock factor; empty where the clock is known.
        contest: cases of one contest are configurations of one problem: choosing the one predicted best should lose little.
        overrides: hardware settings that belong to how it was measured, such as what the L2 holds at the start.
        note: where our kernel differs from the one that was measured.

        given: what `build` reads from the row besides.

    The id and `given` name everything that `build` depends on: predictions are kept under them.
    """

    id: str
    family: str
    hw: str
    measured: Measured
    work: Work | None
    build: Callable[[], Plan]
    table: str = ""
    contest: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)


def numbered(cases: Iterable[Case]) -> Iterator[Case]:
    """The cases, each that has the id of one before it with a number: what was measured more than once counts each time."""
    seen: Counter[str] = Counter()
    for case in cases:
        seen[case.id] += 1
        yield case if seen[case.id] == 1 else replace(case, id=f"{case.id}-again{seen[case.id] - 1}")
