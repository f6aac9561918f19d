#!/usr/bin/env python3
"""Four pipeline organisations of a persistent GEMM + SiLU on one Hopper SM: how busy each keeps the tensor cores.

    python benchmarks/case_studies/pipelines.py                    # the table, and pipelines.svg
    python benchmarks/case_studies/pipelines.py --sensitivity      # also: slots of the ring, form of SiLU
    python benchmarks/case_studies/pipelines.py --tilelang         # also: three of them in TileLang, needs gtsim[tilelang]

K = 1024, ten waves, one output tile a wave, against the utilisation that GPU-Tile-Sim reports. Two machines:

- `paper`: `h100_sxm` with what the paper says of its own model: TMA moves 100 B a cycle, an operation of several warpgroups is
  issued to the tensor cores as one, and these are a pipe with a rate and a latency, which shared memory does not slow.
- `h100_sxm`: the shipped file as it is. Each warpgroup has its wgmma, and these read their operands from shared memory.

Both let a CTA take more shared memory and registers than an SM has: the paper's large tile would not fit one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from figures import bars  # noqa: E402
from gemm_silu_graphs import ORGANISATIONS, SILU, Design  # noqa: E402

import gtsim  # noqa: E402

SMALL, LARGE = (128, 128, 64), (256, 256, 128)
#: Tensor-core utilisation, %, of the paper (section "Case study: software pipelining").
PUBLISHED = {(SMALL, "naive"): 57.7, (SMALL, "pingpong"): 52.4, (SMALL, "three_stage"): 65.0,
             (LARGE, "cooperative"): 84.5, (LARGE, "pingpong"): 94.7, (LARGE, "three_stage"): 93.7}
#: One SM without launch costs, large enough for every tile.
ONE_SM: Mapping[str, Any] = {"chip.sm_count": 1, "chip.gpc_sms": [1], "launch.kernel_us": 0.0, "sm.smem_bytes": 1 << 21,
                             "sm.smem_per_cta_max_bytes": (1 << 21) - 1024}
#: Machine -> what it changes on top, and whether products are collective.
MACHINES: Mapping[str, tuple[Mapping[str, Any], bool]] = {"paper": ({"resources.l2_to_sm.rate_per_cycle": 100}, True),
                                                          "h100_sxm": ({}, False)}


def utilisation(organisation: str, tile: tuple[int, int, int], machine: str = "paper", **design: Any) -> float:
    """Tensor-core utilisation, %, over the whole run."""
    changes, collective = MACHINES[machine]
    graph = Design(organisation, tile, collective=collective, **design).build()
    return 100 * gtsim.simulate(graph, "h100_sxm", overrides={**ONE_SM, **changes}).utilization["tensor"]


def study(machine: str, **design: Any) -> dict[tuple[tuple[int, int, int], str], float]:
    """Utilisation of every organisation and tile."""
    return {(tile, o): utilisation(o, tile, machine, **design) for tile in (SMALL, LARGE) for o in ORGANISATIONS}


def main() -> None:
    """Print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", default="pipelines.svg", help="SVG file to write")
    parser.add_argument("--sensitivity", action="store_true")
    parser.add_argument("--tilelang", action="store_true")
    args = parser.parse_args()
    results = {machine: study(machine) for machine in MACHINES}
    print("| tile | organisation | published | paper's machine | difference | h100_sxm |\n|---|---|---|---|---|---|")
    for (tile, organisation), value in results["paper"].items():
        known = PUBLISHED.get((tile, organisation))
        print(f"| {' × '.join(map(str, tile))} | {organisation} | {known or '-'} | {value:.1f} | "
              f"{f'{value - known:+.1f}' if known else ''} | {results['h100_sxm'][tile, organisation]:.1f} |")
    names = {"published": PUBLISHED, **results}
    bars(args.figure, "Tensor-core utilisation, one SM, 10 waves", "%",
         {f"{o}\n{'x'.join(map(str, tile))}": {n: values.get((tile, o)) for n, values in names.items()}
          for tile, o in results["paper"]}, list(names))
    print(f"\nfigure: {args.figure}")
    if args.sensitivity:
        _sensitivity()
    if args.tilelang:
        _tilelang()


def _sensitivity() -> None:
    """What the paper does not say: how many slots the ring has, and which form of SiLU is computed."""
    print("\n| paper's machine | " + " | ".join(f"{o} {tile[0]}" for tile, o in PUBLISHED) + " |")
    print("|---|" + "---|" * len(PUBLISHED))
    print("| published | " + " | ".join(map(str, PUBLISHED.values())) + " |")
    for stages in (2, 3, 4, 6):
        for silu in SILU:
            values = [utilisation(o, tile, stages=stages, silu=silu) for tile, o in PUBLISHED]
            print(f"| {stages} slots, {silu} | " + " | ".join(f"{v:.1f}" for v in values) + " |")


def tilelang_utilisation(organisation: str) -> float:
    """Utilisation, %, of the small tile as TileLang compiles it, on `h100_sxm`: the roles are automatic for cooperative, none for
    naive, and written by hand for pingpong."""
    from persistent_gemm import persistent_gemm
    from pingpong_gemm import pingpong_gemm

    sizes = {"M": 5 * SMALL[0], "N": 2 * SMALL[1], "K": 1024, "workers": 1, "num_stages": 4, "silu": True}
    switches = {"tl.disable_warp_specialized": organisation == "naive", "tl.enable_fast_math": True}
    kernel, arguments = (pingpong_gemm, {}) if organisation == "pingpong" else (persistent_gemm, sizes)
    graph = gtsim.lower(kernel, (), arguments, hw="h100_sxm", pass_configs=switches)
    return 100 * gtsim.simulate(graph, "h100_sxm", overrides=ONE_SM).utilization["tensor"]


def _tilelang() -> None:
    """The organisations that TileLang can express, beside their graphs, with four slots."""
    print("\n| 128 × 128 × 64, four slots, h100_sxm | TileLang | graph |\n|---|---|---|")
    for organisation in ("naive", "cooperative", "pingpong"):
        by_hand = utilisation(organisation, SMALL, "h100_sxm", stages=4)
        print(f"| {organisation} | {tilelang_utilisation(organisation):.1f} | {by_hand:.1f} |")


if __name__ == "__main__":
    main()
