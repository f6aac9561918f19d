"""What became of a case, as plain data: it crosses process borders, lies in the store, and goes into the JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from .cases import Case

#: Ends the family name of cases whose configuration the measured program chose by measuring.
TUNED = "-tuned"


@dataclass(frozen=True)
class Outcome:
    """A case with its prediction, or the reason why there is none. Times are microseconds of the device.

    Attributes:
        suite, id, gpu, table, contest: of the case; `gpu` is the hardware file.
        family: of the case; ends in "-tuned" if the measured program chose the best of many configurations by measuring.
        clock_mhz: SM clock of the measurement, None if unknown.
        cache: state of the L2 when the kernel began.
        measured_us, p10_us, p90_us: the truth and its spread.
        measured_cycles: the same in cycles; None if the clock is not known.
        predicted_cycles: sum over the kernels; None if not predicted.
        predicted_us: at `simulated_clock_mhz`.
        scaled_us: `predicted_us` times the factor of the table; the same where the clock is known.
        ratio: `scaled_us` over `measured_us`.
        bound_by: of each kernel, as in the result.
        critical_path: what the time goes to, largest first: `what`, `share`.
        configuration: which of the trials was best.
        tried, candidates: how many configurations could be tried, of how many the measured program chose from.
        kernels: launches summed.
        floor_us: the roofline's time; `floor_ratio` is scaled by its one factor, over the measured time.
        note: where our kernel differs from the one measured.
        reason: why there is no prediction; empty if there is one.
        hashes: `hardware` changes with any number of the hardware, overrides included.
        seconds: what it took here.
    """

    suite: str
    id: str
    family: str
    gpu: str
    table: str
    clock_mhz: float | None
    cache: str
    measured_us: float
    measured_cycles: int | None
    p10_us: float | None
    p90_us: float | None
    note: str = ""
    contest: str = ""
    predicted_cycles: int | None = None
    predicted_us: float | None = None
    simulated_clock_mhz: float | None = None
    scaled_us: float | None = None
    ratio: float | None = None
    bound_by: str = ""
    critical_path: list[dict[str, Any]] = field(default_factory=list)
    configuration: str = ""
    tried: int = 0
    candidates: int = 0
    tuned: bool = False
    kernels: int = 0
    floor_us: float | None = None
    floor_ratio: float | None = None
    reason: str = ""
    hashes: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def of(cls, suite: str, case: Case) -> Outcome:
        """The measured half."""
        m = case.measured
        return cls(suite, case.id, case.family, case.hw, case.table, m.clock_mhz, m.cache, m.time_us, m.cycles, m.p10_us,
                   m.p90_us, case.note, case.contest)

    def failed(self, reason: str, seconds: float = 0.0, tuned: bool = False) -> Outcome:
        """The same case, not predicted."""
        return replace(self, reason=reason or "no reason given", tuned=tuned, family=self.family + (TUNED if tuned else ""),
                       seconds=round(seconds, 3))

    def predicted(self, *, cycles: int, clock_mhz: float, tuned: bool, seconds: float, **found: Any) -> Outcome:
        """The same case, predicted."""
        us = cycles / clock_mhz
        return replace(self, predicted_cycles=cycles, predicted_us=us, simulated_clock_mhz=clock_mhz, scaled_us=us,
                       ratio=us / self.measured_us, tuned=tuned, family=self.family + (TUNED if tuned else ""),
                       seconds=round(seconds, 3), **found)

    @property
    def is_predicted(self) -> bool:
        """Whether there is a prediction."""
        return self.predicted_us is not None

    @property
    def spread(self) -> float | None:
        """(p90 - p10) / measured; None if it was not published."""
        return None if self.p10_us is None or self.p90_us is None else (self.p90_us - self.p10_us) / self.measured_us

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Outcome:
        """The inverse of :meth:`to_dict`. Raises TypeError if a field is missing."""
        return cls(**{f.name: data[f.name] for f in fields(cls) if f.name in data})
