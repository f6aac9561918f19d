#!/usr/bin/env python3
"""Compare predictions with measured cycles of TileOPs kernels on an H200 locked at 1500 MHz, L2 cold (default: dense GEMM).

    python validation/tileops.py --cases tileops_cases.py --tileops DIR --measured gemm_h200_tileops_1500mhz.csv

`--cases` is the program that turns a checkout of tile-ai/TileOPs (commit 52dbc086) into kernels, `--measured` the CSV with
the measured cycles. The rows were taken right after a buffer of twice the L2 had been zeroed (benchmarks/timing.py of TileOPs),
so the L2 starts full of other lines, half of its places modified (docs/deviations.md): `l2.dirty_at_start` is 0.5 unless `--set`
says otherwise. Needs tilelang, torch, pytest and pyyaml. Building the cases patches torch and tilelang in this process.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def load_cases(path: Path) -> Any:
    """The module behind `--cases`."""
    spec = importlib.util.spec_from_file_location("tileops_cases", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"error: cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["tileops_cases"] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Print one line a row and the error over all rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--tileops", type=Path, required=True)
    parser.add_argument("--measured", type=Path, required=True)
    parser.add_argument("--op", default="GemmFwdOp", help="operations, a pattern")
    parser.add_argument("--per-op", type=int, default=1 << 30, metavar="N", help="at most N rows an operation, the first ones")
    parser.add_argument("--rows", type=int, default=1 << 30, metavar="N", help="stop after N rows")
    parser.add_argument("--hw", default="h200_sxm")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    args = parser.parse_args()

    from gtsim.backend import SimulationError, simulate
    from gtsim.frontend import FrontendError, lower
    from gtsim.graph import GraphError
    from gtsim.hwconfigs import parse_override

    overrides = {"l2.dirty_at_start": 0.5, **dict(parse_override(text) for text in args.set)}
    errors: list[float] = []
    seen: Counter[str] = Counter()
    print(f"{'case':46} {'measured':>9} {'predicted':>9} {'ratio':>6}  bound by")
    for case in load_cases(args.cases).cases([str(args.measured)], str(args.tileops), op=args.op):
        if len(errors) == args.rows:
            break
        if seen[case.op] == args.per_op:
            continue
        try:
            results = []
            for launch in case.build():
                symbols = {k: v for k, v in launch.symbols.items() if isinstance(v, int)}
                graph = lower(launch.prim_func, arch="sm_90a", symbols=symbols, metadata=launch.arrays,
                              pass_configs=launch.pass_configs)
                results.append(simulate(graph, args.hw, clock_mhz=case.clock_mhz, overrides=overrides))
        except (FrontendError, SimulationError, GraphError) as e:
            print(f"{case.case:46} not predicted: {e}", flush=True)
            continue
        seen[case.op] += 1
        cycles = sum(r.cycles for r in results)
        errors.append(cycles / case.cycles - 1)
        print(f"{case.case:46} {case.cycles:9d} {cycles:9d} {1 + errors[-1]:6.3f}  {results[0].bound_by}", flush=True)
    if not errors:
        raise SystemExit("error: no rows matched")
    print(
        f"{len(errors)} rows: MAPE {100 * statistics.fmean(map(abs, errors)):.1f} %, median "
        f"{100 * statistics.median(map(abs, errors)):.1f} %, worst {100 * max(map(abs, errors)):.1f} %, "
        f"bias {100 * statistics.fmean(errors):+.1f} %"
    )


if __name__ == "__main__":
    main()
