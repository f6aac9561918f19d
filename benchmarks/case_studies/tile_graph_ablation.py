#!/usr/bin/env python3
"""What the edges of a tile graph are worth: a persistent fp8 GEMM with some of them dropped.

    python benchmarks/case_studies/tile_graph_ablation.py        # needs gtsim[tilelang]; the table, and tile_graph_ablation.svg

Each kernel is lowered from TileLang once and simulated on `h100_sxm` with its whole graph and with `gtsim.graph.ablate.without`:

- `no order`: the operations of a warp between two synchronising ones are not in order, so that the loads of a stage, scalar
  control code and the epilogue overlap.
- `no synchronisation`: no mbarrier waits and arrivals (a load does not wait for its ring slot), block barriers, fences or groups.
  Warps keep their program order, and products still wait for the tiles they read.
- `data only`: neither.

The error is the deviation of the cycles from those of the whole graph.
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


def errors(m: int, n: int, k: int, **overrides: Any) -> tuple[float, dict[str, float]]:
    """Cycles of the whole graph, and the deviation of each variant from them, %. `overrides` are laid over the hardware."""
    from persistent_gemm import persistent_gemm

    sizes = {"M": m, "N": n, "K": k, "block_N": 256, "block_K": 128, "dtype": "float8_e4m3fn"}
    graph = gtsim.lower(persistent_gemm, (), sizes, hw="h100_sxm")
    whole = gtsim.simulate(graph, "h100_sxm", overrides=overrides).cycles
    return whole, {name: 100 * (gtsim.simulate(without(graph, **dropped), "h100_sxm", overrides=overrides).cycles / whole - 1)
                   for name, dropped in VARIANTS.items()}


def main() -> None:
    """Print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", default="tile_graph_ablation.svg", help="SVG file to write")
    parser.add_argument("--coalescer", choices=("on", "off"), default="on", help="requests of SM pairs merge, or not")
    args = parser.parse_args()
    print("| M × N × K | cycles, whole graph | " + " | ".join(VARIANTS) + " |\n|---|---|" + "---|" * len(VARIANTS))
    found: dict[str, dict[str, float]] = {}
    for shape in SHAPES:
        whole, off = errors(*shape, **{"l2.coalescer": args.coalescer == "on"})
        found["x".join(map(str, shape))] = {name: abs(e) for name, e in off.items()}
        print(f"| {' × '.join(map(str, shape))} | {whole:,.0f} | " + " | ".join(f"{e:+.1f} %" for e in off.values()) + " |")
    mean = {name: sum(row[name] for row in found.values()) / len(found) for name in VARIANTS}
    print("| mean error | | " + " | ".join(f"{e:.1f} %" for e in mean.values()) + " |")
    bars(args.figure, "Error against the whole graph, persistent fp8 GEMM", "%", {**found, "mean": mean}, list(VARIANTS))
    print(f"\nfigure: {args.figure}")


if __name__ == "__main__":
    main()
