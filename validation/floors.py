"""What any model must beat: a roofline, scaled by the one factor that suits it best."""

from __future__ import annotations

from ..backend.demands.tensor import rate_class
from ..hwconfigs import Hardware
from .cases import Work


def roofline_us(work: Work, hw: Hardware, clock_mhz: float) -> float:
    """The larger of the time that the tensor cores need for the FLOPs at their peak, and DRAM for the bytes at its peak.

    Types without tensor cores, and vector work, count by their bytes alone.
    """
    peaks = hw.tensor.rate_vs_16bit
    rate = peaks.get(rate_class(work.dtype), 0.0) if "tensor" in hw.resources else 0.0
    per_us = hw.resources["tensor"].rate_per_cycle * rate * hw.sm.subpartitions * hw.chip.sm_count * clock_mhz if rate else 0.0
    return max(work.flops / per_us if per_us else 0.0, work.bytes / (hw.dram.peak_gbs * 1e3))
