#!/usr/bin/env python3
"""Compare today's predictions with the golden file, point by point, or take the new ones in.

    python validation/golden.py                                  # prints what moved; exit status 1 if any by more than 0.5 %
    python validation/golden.py --update "TMA boxes share a port"  # writes what moved, with that reason

`golden.csv` has a line a point: kernel file and factory (from the root of the checkout), its arguments, the integer tensors it
reads (an expression over the names of that file), GPU, fidelity, cycles, and why that value is what it is.
tests/validation/test_golden.py runs it in CI. The values are predictions, not measurements: they say nothing about accuracy,
only that a change moved something. Needs tilelang.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = Path(__file__).with_suffix(".csv")
#: A prediction may move by this share before someone must say why.
TOLERANCE = 0.005


@dataclass(frozen=True)
class Point:
    """One kernel on one GPU. `cycles` is 0 for a point that was never run; `reason` says why the value last changed."""

    kernel: str
    args: str
    metadata: str
    hw: str
    fidelity: str
    cycles: int
    reason: str

    @property
    def name(self) -> str:
        return " ".join(part for part in (self.kernel, self.args, self.metadata, self.hw, self.fidelity) if part)

    def change(self, cycles: int) -> float:
        """Relative change from the golden value to `cycles`."""
        return cycles / self.cycles - 1 if self.cycles else float("inf")


def read(file: Path = FILE) -> list[Point]:
    """The points of the golden file. Raises SystemExit, naming the line, if one is malformed."""
    names = [f.name for f in fields(Point)]
    with file.open(newline="") as stream:
        reader = csv.DictReader(stream)
        if reader.fieldnames != names:
            raise SystemExit(f"{file.name}: the columns are {reader.fieldnames}, expected {names}")
        points = []
        for number, row in enumerate(reader, 2):
            if None in row or None in row.values() or not row["cycles"].isdigit():
                raise SystemExit(f"{file.name}:{number}: expected {', '.join(names)}, cycles a whole number")
            points.append(Point(row["kernel"], row["args"], row["metadata"], row["hw"], row["fidelity"], int(row["cycles"]),
                                row["reason"]))
    return points


def write(points: list[Point], file: Path = FILE) -> None:
    """Replace the golden file."""
    fresh = file.with_suffix(".new")
    with fresh.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([f.name for f in fields(Point)])
        writer.writerows([getattr(p, f.name) for f in fields(Point)] for p in points)
    fresh.replace(file)


class Predictions:
    """Predicts points; kernels of one architecture are lowered once."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[str, str, str, str], Any] = {}

    def __call__(self, point: Point) -> int:
        """Cycles of the kernel. Raises what gtsim raises if it cannot be predicted."""
        from gtsim import load_hardware, lower, simulate
        from gtsim.kernel_file import load_kernel, parse_pairs

        key = (point.kernel, point.args, point.metadata, load_hardware(point.hw).chip.arch)
        if key not in self._graphs:
            _, kernel = load_kernel(str(ROOT / point.kernel))
            metadata = eval(point.metadata, dict(kernel.__globals__)) if point.metadata else None
            self._graphs[key] = lower(kernel, kwargs=parse_pairs("args", point.args.split()), hw=point.hw, metadata=metadata)
        return int(simulate(self._graphs[key], point.hw, fidelity=point.fidelity).cycles)


def compare(points: list[Point]) -> Iterator[tuple[Point, int]]:
    """Every point with what is predicted now."""
    predict = Predictions()
    for point in points:
        yield point, predict(point)


def main() -> None:
    """Print the points that moved."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--update", metavar="REASON", help="write what moved into the golden file, with this reason")
    reason = parser.parse_args().update
    if reason is not None and not reason.strip():
        parser.error("--update needs a reason: what changed, and why the new value is right")
    points, moved = [], 0
    for point, cycles in compare(read()):
        change = point.change(cycles)
        if cycles != point.cycles and (reason or abs(change) > TOLERANCE):
            moved += 1
            print(f"{point.name}: {point.cycles:,} -> {cycles:,} ({'new' if not point.cycles else f'{change:+.2%}'})", flush=True)
        points.append(replace(point, cycles=cycles, reason=reason) if reason and cycles != point.cycles else point)
    print(f"{len(points)} points, {moved} moved" + ("" if reason else f" by more than {TOLERANCE:.1%}"))
    if reason:
        write(points)
    sys.exit(1 if moved and not reason else 0)


if __name__ == "__main__":
    main()
