#!/usr/bin/env python3
"""How `line` simulations scale with host threads, on the four workloads of the parallel GPGPU-Sim study.

    python benchmarks/scaling.py                     # needs gtsim[tilelang]
    python benchmarks/scaling.py --threads 1 2       # as many as there are cores

Cycles must be the same for every number of threads; the study's scheme, 3.58 times as fast on 8 threads on average, changes them
a little. Machines are shared and noisy: times are the best of a few runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from math import prod
from pathlib import Path

from gtsim.graph import save_graph
from measure import in_process
from workloads import HW, SCALING


def main() -> None:
    """Print a line for each workload and number of threads."""
    parser = argparse.ArgumentParser(description="Scaling of `line` simulations with host threads.")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--runs", type=int, default=2, help="runs, of which the fastest counts")
    args = parser.parse_args()
    print(f"{HW}, line, {os.cpu_count()} cores")
    print(f"{'workload':18} {'threads':>7} {'seconds':>8} {'events':>13} {'M events/s':>10} {'speed-up':>8} {'peak MB':>8} "
          f"{'cycles':>12}")
    speedups: dict[int, list[float]] = {}
    refused: set[int] = set()
    wrong = False
    with tempfile.TemporaryDirectory() as folder:
        for name, make in SCALING.items():
            path = Path(folder) / "graph.npz"
            save_graph(make(), path)
            first = None
            for threads in (n for n in args.threads if n not in refused):
                try:
                    got = in_process(path, HW, "line", threads=threads, runs=args.runs)
                except RuntimeError as error:
                    if "threads" not in str(error):
                        raise
                    refused.add(threads)
                    continue
                first = first or got
                speedup = first["seconds"] / got["seconds"]
                speedups.setdefault(threads, []).append(speedup)
                same = got["cycles"] == first["cycles"]
                wrong |= not same
                rate = got["events"] / got["seconds"] / 1e6
                print(f"{name:18} {threads:7} {got['seconds']:8.2f} {got['events']:13,} {rate:10.2f} "
                      f"{speedup:8.2f} {got['peak_mb']:8.0f} {got['cycles']:12,}{'' if same else '  DIFFERS'}", flush=True)
    for threads, found in speedups.items():
        print(f"{threads} threads: {prod(found) ** (1 / len(found)):.2f} times as fast as {args.threads[0]} (geometric mean)")
    if refused:
        print(f"not run: the engine takes no {', '.join(map(str, sorted(refused)))} threads")
    if wrong:
        sys.exit("cycles depend on the number of threads")


if __name__ == "__main__":
    main()
