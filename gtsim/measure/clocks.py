"""SM clock of a GPU: from NVML, and where its library cannot be loaded from nvidia-smi."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

_NVML_CLOCK_SM = 1
#: Bits of nvmlClocksEventReasons (nvml.h) that say that the clock is held down.
_LIMITS = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "temperature", 0x40: "temperature", 0x80: "power brake"}
_SMI_SECONDS = 20


@dataclass(frozen=True)
class Reading:
    """One look at the clock: MHz (None if it cannot be read), and why it is held down."""

    mhz: float | None = None
    limits: tuple[str, ...] = ()


ClockReader = Callable[[], Reading]


def clock_reader(uuid: str) -> ClockReader:
    """A function that reads the SM clock of the GPU with this UUID ("GPU-..."); it never raises."""
    return _nvml(uuid) or _nvidia_smi(uuid) or (lambda: Reading(None))


def _nvml(uuid: str) -> ClockReader | None:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        handle = ctypes.c_void_p()
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
            return None
    except (OSError, AttributeError):
        return None

    def read() -> Reading:
        clock, reasons = ctypes.c_uint(), ctypes.c_ulonglong()
        if nvml.nvmlDeviceGetClockInfo(handle, _NVML_CLOCK_SM, ctypes.byref(clock)):
            return Reading(None)
        if nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons)):
            reasons.value = 0
        return Reading(float(clock.value), limits_of(reasons.value))

    return read


def _nvidia_smi(uuid: str) -> ClockReader | None:
    path = shutil.which("nvidia-smi")
    if path is None:
        return None
    command = [path, "--query-gpu=clocks.sm,clocks_throttle_reasons.active", "--format=csv,noheader,nounits", "-i", uuid]

    def read() -> Reading:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError):
            return Reading(None)
        return parse_smi(done.stdout)

    return read


def parse_smi(text: str) -> Reading:
    """A line such as "1500, 0x0000000000000004" of nvidia-smi; a clock it does not tell is None."""
    clock, _, reasons = (part.strip() for part in text.strip().partition(","))
    try:
        return Reading(float(clock), limits_of(int(reasons, 16)))
    except ValueError:
        try:
            return Reading(float(clock))
        except ValueError:
            return Reading(None)


def limits_of(bits: int) -> tuple[str, ...]:
    """The reasons in words, each once."""
    return tuple(dict.fromkeys(word for bit, word in _LIMITS.items() if bits & bit))
