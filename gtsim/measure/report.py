"""The measurement beside the prediction, as text."""

from __future__ import annotations

from .run import DRIFT, Measurement, Predicted


def report(measured: Measurement, predicted: Predicted) -> str:
    """A few lines: what was measured, what was predicted, their ratio, and what makes either doubtful."""
    samples, gpu = measured.samples, measured.gpu
    state = f"cold L2 ({samples.flush_bytes / 2**20:.0f} MiB written before each run)" if samples.flush_bytes else "warm L2"
    timer = "time of the kernels (CUPTI)" if samples.timer == "kernel" else "CUDA events around the call, launch included"
    kernels = f", {samples.n_kernels} kernels a run" if samples.n_kernels > 1 else ""
    driver = f", driver {gpu.driver}" if gpu.driver else ""
    lines = [
        f"{measured.name} on {gpu.name} ({gpu.arch}, {gpu.sm_count} SMs{driver})",
        f"measured   {_figures(measured.median_us, measured.cycles)}  median of {len(samples.times_us)}; "
        f"p10 {measured.quantile_us(0.1):,.2f}, p90 {measured.quantile_us(0.9):,.2f} us, spread {measured.spread:.1%}",
    ]
    if predicted.time_us is None:
        lines.append(f"not predicted: {predicted.reason}")
    else:
        bound = f", bound by {predicted.bound_by}" if predicted.bound_by else ""
        where = f"{predicted.hw} at {predicted.clock_mhz:g} MHz{bound}"
        lines.append(f"predicted  {_figures(predicted.time_us, predicted.cycles)}  {where}")
        lines.append(f"ratio      {predicted.time_us / measured.median_us:.3f} (predicted / measured)")
    lines.append(f"timed      {timer}, {state}{kernels}")
    lines.append(f"clock      {_clock(measured)}")
    lines += [f"note: {text}" for text in (*samples.notes, *measured.notes)]
    return "\n".join(lines)


def warnings(measured: Measurement) -> list[str]:
    """What makes cycles of this measurement unreliable, and what to do."""
    clocks = measured.samples.clocks
    lock = "lock it: sudo nvidia-smi -lgc MHZ,MHZ (undo: nvidia-smi -rgc)"
    out = []
    if clocks.before_mhz is None or clocks.after_mhz is None:
        so = "there are no cycles. Give --clock-mhz." if measured.clock_mhz is None else "cycles rest on --clock-mhz alone."
        out.append(f"the SM clock cannot be read (NVML and nvidia-smi both fail): {so}")
    elif measured.drift > DRIFT:
        moved = f"the SM clock went from {clocks.before_mhz:g} to {clocks.after_mhz:g} MHz ({measured.drift:.1%}) during the runs"
        out.append(f"{moved}: cycles are unreliable; {lock}")
    else:
        out.append(f"nothing tells whether the SM clock is locked; if it is not, cycles are unreliable; {lock}")
    if clocks.limits:
        out.append(f"the driver held the clock down ({', '.join(clocks.limits)}): time and cycles depend on it")
    return out


def _figures(time_us: float, cycles: int | None) -> str:
    return f"{time_us:>12,.2f} us {cycles:>14,} cycles" if cycles is not None else f"{time_us:>12,.2f} us {'':>21}"


def _clock(measured: Measurement) -> str:
    clocks = measured.samples.clocks
    if clocks.before_mhz is None or clocks.after_mhz is None:
        return "unknown" if measured.clock_mhz is None else f"{measured.clock_mhz:g} MHz, as given"
    read = f"{clocks.before_mhz:g} MHz before the runs, {clocks.after_mhz:g} MHz after"
    means = (clocks.before_mhz + clocks.after_mhz) / 2
    return read if measured.clock_mhz == means else f"{read}; {measured.clock_mhz:g} MHz, as given, for cycles"
