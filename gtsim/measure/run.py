"""One measurement from kernel to result: declare inputs, compile, time, and predict at the clock that was measured."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import USER_ERRORS, DeviceError
from ..kernels import parameters
from ..predictor import Options
from ..sequence import SequencePrediction
from .device import Device, Gpu, Samples, Timer
from .hardware_of import hardware_of
from .inputs import Argument, declared, notes_on

#: A clock that moved by more than this share between its two readings makes cycles unreliable.
DRIFT = 0.02
#: Share of the L2's places that hold modified lines behind a flush that writes twice the L2 (docs/deviations.md).
DIRTY_AFTER_FLUSH = 0.5


@dataclass(frozen=True)
class Measurement:
    """What a kernel took on a GPU.

    Attributes:
        name: of the factory or PrimFunc.
        gpu, samples: where, and what was timed.
        arguments: the kernel's inputs.
        values: arguments of the factory, defaults included.
        versions: of what compiled and timed.
        clock_mhz: the clock that turns time into cycles: the mean of both readings, or what the user says; None if unknown.
        notes: about the inputs.
    """

    name: str
    gpu: Gpu
    samples: Samples
    arguments: Sequence[Argument]
    values: Mapping[str, Any]
    versions: Mapping[str, str]
    clock_mhz: float | None
    notes: Sequence[str] = ()

    @property
    def median_us(self) -> float:
        """Median of the runs."""
        return statistics.median(self.samples.times_us)

    def quantile_us(self, share: float) -> float:
        """The time that `share` of the runs do not exceed (nearest rank)."""
        ranked = sorted(self.samples.times_us)
        return ranked[max(math.ceil(share * len(ranked)), 1) - 1]

    @property
    def spread(self) -> float:
        """From the 10th to the 90th percentile, as a share of the median."""
        return (self.quantile_us(0.9) - self.quantile_us(0.1)) / self.median_us

    @property
    def cycles(self) -> int | None:
        """SM cycles of the median run; None if the clock is unknown."""
        return None if self.clock_mhz is None else round(self.median_us * self.clock_mhz)

    @property
    def drift(self) -> float:
        """How far the clock moved between its readings, as a share of the first; 0 if unknown."""
        clocks = self.samples.clocks
        return abs(clocks.after_mhz / clocks.before_mhz - 1) if clocks.before_mhz and clocks.after_mhz else 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, each once."""
        return sum(a.nbytes for a in self.arguments)

    def row(self, *, op: str | None = None, case: str | None = None) -> dict[str, object]:
        """The measurement in the columns of `rows.COLUMNS`."""
        from .row import row_of

        return row_of(self, op, case)


def measure(kernel: Any, name: str, arguments: Mapping[str, Any], options: Options, device: Device, *, warmup: int = 10,
            repeats: int = 100, cold: bool = True, timer: Timer = "kernel", seed: int = 0,
            step: Callable[[str], None] = lambda _: None) -> Measurement:
    """Compile and time a kernel on `device`.

    Args:
        kernel, name, arguments: as `gtsim predict` takes them.
        options: symbols, metadata, pass configs and, if the user says so, the clock.
        device: the GPU.
        warmup, repeats, cold, timer: as `Kernel.run`.
        seed: of the inputs.
        step: told what is going on.

    Raises:
        DeviceError: the kernel does not compile or run there.
        FrontendError, UsageError: the kernel cannot be built or its inputs not made up.
    """
    from ..frontend import capture
    from ..frontend.tilelang.resolve import resolve

    step("lowering")
    prim_func, configs, _ = resolve(kernel, (), dict(arguments), device.gpu.arch, options.pass_configs)
    declares = declared(capture(prim_func, device.gpu.arch, configs), options.symbols, options.metadata)
    step("compiling")
    compiled = device.compile(prim_func, declares, configs, seed)
    step(f"running {warmup} + {repeats} times")
    samples = compiled.run(warmup=warmup, repeats=repeats, cold=cold, timer=timer)
    if not samples.times_us or min(samples.times_us) <= 0:
        raise DeviceError(f"{name}: the GPU reports no time for it.")
    read = [mhz for mhz in (samples.clocks.before_mhz, samples.clocks.after_mhz) if mhz]
    clock = options.clock_mhz if options.clock_mhz is not None else statistics.fmean(read) if read else None
    values = factory_values(kernel, arguments)
    return Measurement(name, device.gpu, samples, declares, values, device.versions, clock, notes_on(declares))


@dataclass(frozen=True)
class Predicted:
    """The prediction to compare with, or why there is none.

    Attributes:
        hw: name of the hardware file.
        cycles, time_us, clock_mhz: as predicted; None without a prediction.
        bound_by: what limits it.
        reason: why there is no prediction.
    """

    hw: str = ""
    cycles: int | None = None
    time_us: float | None = None
    clock_mhz: float | None = None
    bound_by: str = ""
    reason: str = ""


def predict_beside(measured: Measurement, kernel: Any, arguments: Mapping[str, Any], options: Options, *, hw_given: bool,
                   progress: Callable[[float], None] | None = None) -> Predicted:
    """Predict the kernel for the GPU that was measured, at its clock and in the same state of the L2. Never raises a user error:
    a measurement is worth showing alone."""
    from ..predictor import run

    if not hw_given:
        name, why = hardware_of(measured.gpu)
        if name is None:
            return Predicted(reason=f"{why}; --hw NAME predicts it for another GPU (gtsim hw list)")
        options = replace(options, hw=name)
    overrides = dict(options.overrides)
    if measured.samples.flush_bytes:
        overrides.setdefault("l2.dirty_at_start", DIRTY_AFTER_FLUSH)
    options = replace(options, clock_mhz=measured.clock_mhz, overrides=overrides)
    try:
        made = run(kernel, (), dict(arguments), options, progress)
    except USER_ERRORS as error:
        return Predicted(reason=str(error))
    if not isinstance(made, SequencePrediction):
        return Predicted(made.hw.name, made.cycles, made.time_us, made.clock_mhz, made.bound_by)
    clock, hw = made.kernels[0].clock_mhz, made.kernels[0].hw.name
    if measured.samples.timer == "kernel":  # the gaps between them were not timed either
        time_us = sum(k.time_us for k in made.kernels)
        return Predicted(hw, round(time_us * clock), time_us, clock)
    return Predicted(hw, made.cycles, made.time_us, clock)


def factory_values(kernel: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the factory with the defaults of those not given."""
    signature = parameters(kernel)
    defaults = {n: p.default for n, p in signature.parameters.items() if p.default is not p.empty} if signature else {}
    return {**defaults, **given}


def today() -> str:
    """The date, for the source of a row."""
    return time.strftime("%Y-%m-%d")
