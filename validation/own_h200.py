#!/usr/bin/env python3
"""Compare examples/gemm_ws_manual.py, a kernel of the same structure, with TileOPs' measured dense GEMM (no checkout needed).

    python validation/own_h200.py

Rows whose B is stored [N, K], as the example has it; H200 at a locked 1500 MHz, L2 cold.
"""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import gtsim
from gtsim.kernel_file import load_kernel

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Print one line a row and the error over all rows."""
    _, kernel = load_kernel(str(HERE.parent / "examples" / "gemm_ws_manual.py"))
    errors = []
    print(f"{'case':36} {'measured':>9} {'predicted':>9} {'ratio':>6}  bound by")
    with (HERE / "measured" / "gemm_h200_tileops_1500mhz.csv").open(newline="") as f:
        for row in csv.DictReader(f):
            if row["trans_b"] != "1":
                continue
            graph = gtsim.lower(
                kernel, kwargs={"M": int(row["m"]), "N": int(row["n"]), "K": int(row["k"]), "dtype": row["dtype"]}, hw="h200_sxm"
            )
            overrides = {"l2.dirty_at_start": 0.5}  # each row was taken behind a flush by writing
            p = gtsim.simulate(graph, "h200_sxm", clock_mhz=float(row["clock_mhz"]), overrides=overrides)
            errors.append(p.cycles / int(row["cycles"]) - 1)
            print(f"{row['case']:36} {row['cycles']:>9} {p.cycles:9d} {1 + errors[-1]:6.3f}  {p.bound_by}")
    print(
        f"{len(errors)} rows: MAPE {100 * statistics.fmean(map(abs, errors)):.1f} %, "
        f"worst {100 * max(map(abs, errors)):.1f} %, bias {100 * statistics.fmean(errors):+.1f} %"
    )


if __name__ == "__main__":
    main()
