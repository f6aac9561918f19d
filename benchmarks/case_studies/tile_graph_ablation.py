#!/usr/bin/env python3
"""What the edges of a tile graph are worth: a persistent fp8 GEMM with some of them dropped.

    python benchmarks/case_studies/tile_graph_ablation.py        # needs gtsim[tilelang]; the table, and tile_graph_ablation.svg

Each kernel is lowered from TileLang once and simulated on `h100_sxm` with its whole graph and with `gtsim.graph.ablate.without`:

- `no order`: the operations of a warp between two synchronising ones are not in order, so that the loads of a stage, scalar
  control code and the epilogue overlap.
- `no synchronisation`: no mbarrier waits and arrivals (a load does not wait for its ring slot), block barriers, fences or groups.
  Warps keep their program order, and products still wait for the tiles they read.
- `data only`: neither.

The error is the deviation of the cycles from those of the whole graph. "L2 busy" is of the whole graph, "merged" what SMs got
without a read of the L2, of all they read, in the whole graph and its variants.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from figures import bars  # noqa: E402
from gtsim.graph.ablate import without  # noqa: E402

import gtsim  # noqa: E402

SHAPES = ((2048, 2048, 1024), (2048, 2048, 2048), (4096, 4096, 1024), (4096, 4096, 2048), (4096, 4096, 4096), (8192, 8192, 1024))
VARIANTS: Mapping[str, Mapping[str, bool]] = {"no order": {"order": True}, "no synchronisation": {"synchronisation": True},
                                              "data only": {"order": True, "synchronisation": True}}


def results(m: int, n: int, k: int, **overrides: Any) -> dict[str, gtsim.Result]:
    """The whole graph ("whole") and each variant, simulated. `overrides` are laid over the hardware."""
    from persistent_gemm import persistent_gemm

    sizes = {"M": m, "N": n, "K": k, "block_N": 256, "block_K": 128, "dtype": "float8_e4m3fn"}
    graph = gtsim.lower(persistent_gemm, (), sizes, hw="h100_sxm")
    graphs = {"whole": graph, **{name: without(graph, **dropped) for name, dropped in VARIANTS.items()}}
    return {name: gtsim.simulate(g, "h100_sxm", overrides=overrides).result for name, g in graphs.items()}


def deviations(found: Mapping[str, gtsim.Result]) -> dict[str, float]:
    """Variant -> deviation of its cycles from those of the whole graph, %."""
    return {name: 100 * (found[name].cycles / found["whole"].cycles - 1) for name in VARIANTS}


def errors(m: int, n: int, k: int, **overrides: Any) -> tuple[float, dict[str, float]]:
    """Cycles of the whole graph, and the deviation of each variant from them, %. `overrides` are laid over the hardware."""
    found = results(m, n, k, **overrides)
    return found["whole"].cycles, deviations(found)


def merged(result: gtsim.Result) -> float:
    """Bytes that SMs got without a read of the L2, % of all that they read."""
    t = result.traffic
    return 100 * t.l2_coalesced_bytes / (t.l2_read_bytes + t.l2_coalesced_bytes)


def main() -> None:
    """Print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", default="tile_graph_ablation.svg", help="SVG file to write")
    parser.add_argument("--coalescer", choices=("on", "off"), default="on", help="requests of SM pairs merge, or not")
    args = parser.parse_args()
    print("| M × N × K | cycles, whole graph | L2 busy | merged | " + " | ".join(VARIANTS) + " |")
    print("|---" * (4 + len(VARIANTS)) + "|")
    found: dict[str, dict[str, float]] = {}
    for shape in SHAPES:
        runs = results(*shape, **{"l2.coalescer": args.coalescer == "on"})
        whole, off = runs["whole"], deviations(runs)
        shares = sorted(map(merged, runs.values()))
        share = " to ".join(dict.fromkeys(f"{s:.1f}" for s in (shares[0], shares[-1])))
        found["{} × {}\n× {}".format(*shape)] = {name: abs(e) for name, e in off.items()}
        print(f"| {' × '.join(map(str, shape))} | {whole.cycles:,.0f} | {100 * whole.utilization['l2']:.0f} % | "
              f"{share} % | " + " | ".join(f"{e:+.1f} %" for e in off.values()) + " |")
    mean = {name: sum(row[name] for row in found.values()) / len(found) for name in VARIANTS}
    print("| mean error | | | | " + " | ".join(f"{e:.1f} %" for e in mean.values()) + " |")
    bars(args.figure, "Error against the whole graph, persistent fp8 GEMM", "%", {**found, "mean": mean}, list(VARIANTS))
    print(f"\nfigure: {args.figure}")


if __name__ == "__main__":
    main()
