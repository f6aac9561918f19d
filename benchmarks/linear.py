#!/usr/bin/env python3
"""Whether the cost of a simulation grows in step with what is simulated: a GEMM of growing size.

    python benchmarks/linear.py                      # bulk, up to 16384^3; needs gtsim[tilelang]
    python benchmarks/linear.py --fidelity line --sizes 1024 2048 4096
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from gtsim.graph import save_graph
from measure import in_process
from workloads import HW, gemm


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description="Cost of a simulation over the size of a GEMM.")
    parser.add_argument("--fidelity", default="bulk")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2048, 4096, 6144, 8192, 12288, 16384])
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the fastest counts")
    args = parser.parse_args()
    print(f"GEMM, {HW}, {args.fidelity}")
    print(f"{'size':>7} {'operations':>12} {'events':>13} {'a node':>6} {'seconds':>8} {'CPU s':>8} {'M events/s':>10} "
          f"{'ns an event':>11} {'ns an operation':>15} {'peak MB':>8}")
    # From processor time, which what else runs on the machine changes least.
    with tempfile.TemporaryDirectory() as folder:
        for size in args.sizes:
            path = Path(folder) / f"{size}.npz"
            save_graph(gemm(size), path)
            got = in_process(path, HW, args.fidelity, runs=args.runs)
            seconds, events, nodes = got["cpu_seconds"], got["events"], got["nodes"]
            print(f"{size:6}^3 {nodes:12,} {events:13,} {events / nodes:6.2f} {got['seconds']:8.3f} {seconds:8.3f} "
                  f"{events / seconds / 1e6:10.2f} {seconds / events * 1e9:11.1f} {seconds / nodes * 1e9:15.1f} "
                  f"{got['peak_mb']:8.0f}", flush=True)


if __name__ == "__main__":
    main()
