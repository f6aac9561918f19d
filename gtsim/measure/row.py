"""Which column holds what of a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import Measurement

#: Column -> names of a factory's argument that mean it.
_ARGUMENTS = {
    "m": ("M", "m"), "n": ("N", "n"), "k": ("K", "k"),
    "tile_m": ("block_M", "BLOCK_M", "tile_m"), "tile_n": ("block_N", "BLOCK_N", "tile_n"),
    "tile_k": ("block_K", "BLOCK_K", "tile_k"), "stages": ("num_stages", "stages"),
    "trans_a": ("trans_A", "trans_a"), "trans_b": ("trans_B", "trans_b"), "acc_dtype": ("accum_dtype", "acc_dtype"),
}  # fmt: skip


def row_of(measured: Measurement, op: str | None, case: str | None) -> dict[str, object]:
    """A row in `rows.COLUMNS`; what is unknown stays empty. `op` and `case` default to the factory and its arguments."""
    import gtsim

    from .run import today

    samples, clocks, values = measured.samples, measured.samples.clocks, measured.values
    tensors = [a for a in measured.arguments if a.shape is not None]
    row: dict[str, object] = {
        "gpu": measured.gpu.name,
        "kernel": "tilelang:gtsim-measure",
        "op": op or measured.name,
        "case": case or " ".join(f"{k}={v}" for k, v in values.items()) or measured.name,
        "dtype": tensors[0].dtype if tensors else "",
        "clock_mhz": number(measured.clock_mhz),
        "latency_us": number(measured.median_us),
        "cycles": measured.cycles,
        "p10_us": number(measured.quantile_us(0.1)),
        "p90_us": number(measured.quantile_us(0.9)),
        "n_kernels": samples.n_kernels or None,
        "n_samples": len(samples.times_us),
        "gbps": number(measured.nbytes / measured.median_us / 1000),
        "bytes": measured.nbytes,
        "shape": "{" + ",".join(f"{a.name}:[{','.join(map(str, a.shape or ()))}]" for a in tensors) + "}",
        "clock_before_mhz": number(clocks.before_mhz),
        "clock_after_mhz": number(clocks.after_mhz),
        "timer": samples.timer,
        "flush_bytes": samples.flush_bytes,
        "source": "; ".join([f"gtsim measure {gtsim.__version__}", *(f"{k} {v}" for k, v in measured.versions.items()),
                             *([f"driver {measured.gpu.driver}"] if measured.gpu.driver else []), today()]),
    }
    return row | argument_columns(values)


def argument_columns(values: Mapping[str, Any]) -> dict[str, object]:
    """The columns that arguments of a factory fill: sizes, tiles, stages, ..."""
    out: dict[str, object] = {}
    for column, names in _ARGUMENTS.items():
        found = [values[name] for name in names if name in values]
        if found:
            out[column] = int(found[0]) if isinstance(found[0], bool) else found[0]
    return out


def number(value: float | None) -> str | None:
    """A figure with six digits that count, without a tail of zeros."""
    return None if value is None else f"{value:.6g}"
