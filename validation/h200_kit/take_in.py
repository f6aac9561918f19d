#!/usr/bin/env python3
"""Take in what run.sh measured: constants beside the hardware file's, kernels beside their predictions.

    python validation/h200_kit/take_in.py kit.csv [--hw h200_sxm] [--write validation/calibration.toml] [--adopt]

Prints each measured constant that a key of the hardware file can take, its present value, and the `--set` options that would
adopt them all; then each kernel measured and predicted at the measured clock. `--adopt` predicts with the measured constants
besides.
`--write` keeps them in a calibration file as candidates; the hardware files stay as they are.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gtsim.hwconfigs import Hardware, load_hardware

from gtsim.errors import USER_ERRORS, UsageError
from gtsim.measure.calibration import Measured, add_measured
from gtsim.measure.kit_cases import load_cases
from gtsim.measure.run import DIRTY_AFTER_FLUSH, DRIFT
from gtsim.predictor import Options, run

Row = dict[str, str]
CASES = Path(__file__).resolve().parent / "cases.toml"


def read_rows(path: Path) -> list[Row]:
    """The rows of a kit's CSV. Raises UsageError naming the line and what is wrong."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            there = reader.fieldnames or ()
            missing = [name for name in ("kind", "case", "constant", "key", "value", "floor_us") if name not in there]
            if missing:
                raise UsageError(f"{path} is no CSV of this kit: it has no column {missing[0]}")
            rows = list(reader)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    if not rows:
        raise UsageError(f"{path} has no rows")
    return rows


def figure(row: Row, column: str, path: Path) -> float:
    """A number of a row. Raises UsageError."""
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{path}: {row.get('constant') or row.get('case')}: {column} is {row.get(column)!r}, not a number")
    return value


def constants(rows: Sequence[Row], hw: Hardware, path: Path) -> list[Measured]:
    """The measured constants that a key of the hardware file can take. Raises UsageError for an unknown key."""
    known = hw.flat()
    out = []
    for row in rows:
        if row["kind"] != "constant" or not row["key"]:
            continue
        if row["key"] not in known:
            raise UsageError(f"{path}: {row['constant']}: the hardware file has no key {row['key']}")
        value = figure(row, "value", path)
        spread, samples = abs(figure(row, "p90", path) - figure(row, "p10", path)), int(figure(row, "n_samples", path))
        out.append(Measured(key=row["key"], constant=row["constant"], value=value, unit=row["unit"], spread=spread,
                            samples=samples, gpu=row["gpu"], clock_mhz=figure(row, "clock_mhz", path), source=row["source"]))
    return out


def usable(found: Sequence[Measured]) -> dict[str, float]:
    """Key -> value of those that a hardware file may hold: a latency is not negative."""
    return {m.key: round(m.value, 3) for m in found if m.value >= 0}


def drifted(rows: Sequence[Row], path: Path) -> list[str]:
    """Names of the rows during which the clock moved."""
    out = []
    for row in rows:
        before, after = figure(row, "clock_before_mhz", path), figure(row, "clock_after_mhz", path)
        if abs(after / before - 1) > DRIFT:
            out.append(f"{row['constant'] or row['case']}: {before:.0f} to {after:.0f} MHz")
    return out


def predicted_us(row: Row, hw: str, overrides: dict[str, Any], path: Path) -> float:
    """Prediction of a kernel at its measured clock and with the L2 that its flush leaves."""
    cases = load_cases(CASES)
    if row["case"] not in cases:
        raise UsageError(f"{path}: there is no case {row['case']} in cases.toml")
    case = cases[row["case"]]
    _, kernel, metadata = case.load()
    options = Options(hw=hw, clock_mhz=figure(row, "clock_mhz", path), metadata=metadata)
    options = replace(options, overrides={"l2.dirty_at_start": DIRTY_AFTER_FLUSH, **overrides})
    return float(run(kernel, (), case.args, options).time_us)


def kernel_us(row: Row, launch_us: float, path: Path) -> float:
    """Event time of a kernel, less that of an empty one, plus what the model takes for an empty one: as a prediction counts."""
    return figure(row, "latency_us", path) - figure(row, "floor_us", path) + launch_us


def main() -> None:
    """Print both comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("csv", type=Path)
    parser.add_argument("--hw", default="h200_sxm")
    parser.add_argument("--write", type=Path, metavar="calibration.toml")
    parser.add_argument("--adopt", action="store_true", help="predict with the measured constants too")
    args = parser.parse_args()
    try:
        take_in(args.csv, args.hw, args.write, args.adopt)
    except USER_ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def take_in(path: Path, hw: str, write: Path | None, adopt: bool) -> None:
    """See the head of the file. Raises what the user can mend."""
    rows, gpu = read_rows(path), load_hardware(hw)
    found = constants(rows, gpu, path)
    now = gpu.flat()
    for text in drifted(rows, path):
        print(f"warning: the clock moved during {text}; lock it: nvidia-smi -lgc", file=sys.stderr)
    print(f"{'constant':30} {'key':36} {'measured':>10} {'spread':>8} {'now':>8}")
    for m in found:
        print(f"{m.constant:30} {m.key:36} {m.value:10.4g} {m.spread:8.3g} {now[m.key]:8.4g}")
    settings = usable(found)
    for m in found:
        if m.key not in settings:
            print(f"not usable: {m.constant} is negative ({m.value:.3g})")
    print("\n" + " ".join(f"--set {key}={value:g}" for key, value in settings.items()))
    if write is not None:
        add_measured(write, found)
        print(f"{write}: {len(found)} measured constants", file=sys.stderr)
    kernels = [row for row in rows if row["kind"] == "kernel"]
    if not kernels:
        return
    ways: dict[str, dict[str, Any]] = {"predicted": {}} | ({"adopted": dict(settings)} if adopt else {})
    print(f"\n{'case':36} {'us':>10} {'MHz':>6}" + "".join(f" {way:>10} {'ratio':>6}" for way in ways))
    errors: dict[str, list[float]] = {way: [] for way in ways}
    for row in kernels:
        line = f"{row['case']:36} {kernel_us(row, now['launch.kernel_us'], path):10.2f} {figure(row, 'clock_mhz', path):6.0f}"
        for way, overrides in ways.items():
            launch_us = float(overrides.get("launch.kernel_us", now["launch.kernel_us"]))
            time_us = predicted_us(row, hw, overrides, path)
            ratio = time_us / kernel_us(row, launch_us, path)
            errors[way].append(ratio - 1)
            line += f" {time_us:10.2f} {ratio:6.3f}"
        print(line, flush=True)
    for way, errs in errors.items():
        print(f"{way}: {len(errs)} kernels, MAPE {100 * statistics.fmean(map(abs, errs)):.1f} %, "
              f"worst {100 * max(map(abs, errs)):.1f} %, bias {100 * statistics.fmean(errs):+.1f} %")


if __name__ == "__main__":
    main()
