"""What measuring asks of a GPU. The real one is `cuda_device.CudaDevice`; tests bring a fake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .inputs import Argument

#: "kernel": time of the kernels alone, as the profiler (CUPTI) has it, gaps between several kernels left out;
#: "events": distance of CUDA events around the call, launch included.
Timer = Literal["kernel", "events"]
TIMERS: tuple[Timer, ...] = ("kernel", "events")


@dataclass(frozen=True)
class Gpu:
    """One GPU as its driver describes it.

    Attributes:
        name: such as "NVIDIA H200".
        arch: such as "sm_90a".
        sm_count: SMs.
        l2_bytes: size of the L2 cache.
        driver: version of the driver; empty if unknown.
    """

    name: str
    arch: str
    sm_count: int
    l2_bytes: int
    driver: str = ""


@dataclass(frozen=True)
class Clocks:
    """SM clock at work, read before the runs that count and after them, MHz; None if it cannot be read.

    Attributes:
        limits: why the driver holds the clock down, in words ("power cap"); empty if it does not.
    """

    before_mhz: float | None
    after_mhz: float | None
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Samples:
    """What the runs took.

    Attributes:
        times_us: device time of each run, all its kernels added up.
        n_kernels: kernels that one run launches; 0 if unknown.
        timer: what was timed.
        clocks: SM clock around the runs.
        flush_bytes: written before each run to empty the L2; 0 if the runs were warm.
        notes: what the reader must know, such as that the timer asked for was not there.
    """

    times_us: Sequence[float]
    n_kernels: int
    timer: Timer
    clocks: Clocks
    flush_bytes: int
    notes: tuple[str, ...] = ()


class Kernel(Protocol):
    """A kernel compiled for the device, with its inputs in place."""

    def run(self, *, warmup: int, repeats: int, cold: bool, timer: Timer) -> Samples:
        """Run it `warmup` times, then `repeats` times that count. Raises DeviceError."""


class Device(Protocol):
    """A GPU that compiles and times."""

    gpu: Gpu
    versions: Mapping[str, str]  #: of what compiled and timed: {"tilelang": "0.1.15", ...}

    def compile(self, prim_func: Any, arguments: Sequence[Argument], pass_configs: Mapping[str, Any], seed: int) -> Kernel:
        """Compile a PrimFunc and make its inputs. Raises DeviceError."""
