#!/usr/bin/env python3
"""What clusters are worth to the attention block of one decoded token, and what the network between SMs does to them.

    python benchmarks/case_studies/cluster_fusion.py              # about two minutes; tables, and two SVG files
    python benchmarks/case_studies/cluster_fusion.py --tilelang   # also the kernel as TileLang has it; needs gtsim[tilelang]

1. The block as one kernel whose CTAs exchange results over shared memory of the cluster, against the same through memory
   (`fused_decode.py` says in which ways). One GPC of 16 SMs, all of them in use, and eight such GPCs with the 32 heads of a model
   of 7 billion parameters.
2. How long requests are in the network: a crossbar against a 4 x 4 mesh of the same average latency and bandwidth, and where the
   ranks of a cluster are put in the mesh.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from figures import bars  # noqa: E402
from fused_decode import Shape, graphs  # noqa: E402
from gtsim.backend import SimulationError, mesh_like_crossbar  # noqa: E402

import gtsim  # noqa: E402

HARDWARE = "h100_sxm"
SIZES, LENGTHS = (2, 4, 8, 16), (1024, 4096, 16384)
CHIPS: Mapping[str, Mapping[str, Any]] = {
    "one GPC of 16 SMs": {"chip.sm_count": 16, "chip.gpc_sms": [16]},
    "8 GPCs of 16 SMs, 32 heads": {"chip.sm_count": 128, "chip.gpc_sms": [16] * 8},
}
#: Column -> way of exchange. The first is what the others are compared with; "late" loads nothing before it can be used.
WAYS: Mapping[str, tuple[str, bool]] = {
    "DSMEM": ("mbarrier", True),
    "DSMEM, late": ("mbarrier", False),
    "DSMEM, cluster barrier": ("dsmem", True),
    "memory, cluster barrier": ("memory", True),
    "memory, grid barrier": ("grid", True),
    "five kernels": ("kernels", True),
}
PLACEMENTS = ("order", "naive", "topology")


def cycles(shape: Shape, way: tuple[str, bool], chip: Mapping[str, Any]) -> float | None:
    """Cycles of the block, gaps between its kernels included; None if a grid barrier holds more CTAs than run at once."""
    hw = gtsim.load_hardware(HARDWARE, chip)
    exchange, ahead = way
    try:
        found = [gtsim.simulate(g, hw).cycles for g in graphs(shape, exchange, ahead=ahead)]
    except SimulationError as error:
        if exchange == "grid" and "resident at once" in str(error):
            return None
        raise
    return sum(found) + (len(found) - 1) * hw.launch.gap_us * hw.chip.clock_mhz


def fusion(chip: str, sizes: Iterable[int] = SIZES, lengths: Iterable[int] = LENGTHS) -> dict[tuple[int, int], dict[str, float]]:
    """(cluster size, tokens) -> column of :data:`WAYS` -> cycles."""
    out: dict[tuple[int, int], dict[str, float]] = {}
    for size in sizes:
        for seq in lengths:
            heads = 16 // size if chip.startswith("one") else 32
            row = {name: cycles(Shape(size, seq, heads), way, CHIPS[chip]) for name, way in WAYS.items()}
            out[size, seq] = {name: c for name, c in row.items() if c is not None}
    return out


def print_fusion(chip: str, rows: Mapping[tuple[int, int], Mapping[str, float]]) -> None:
    """Cycles of the first column, and how much longer the others take."""
    base, *others = WAYS
    print(f"\n{chip}: cycles with {base}, and the time of others over it\n")
    print(f"| CTAs a cluster | tokens | {base} | " + " | ".join(others) + " |\n|" + "---|" * (len(WAYS) + 2))
    for (size, seq), row in rows.items():
        ratios = (f"{row[name] / row[base]:.2f}" if name in row else "-" for name in others)
        print(f"| {size} | {seq} | {row[base]:,.0f} | " + " | ".join(ratios) + " |")
    for what, of in (("mean", lambda r: sum(r) / len(r)), ("most", max)):
        columns = ([row[n] / row[base] for row in rows.values() if n in row] for n in others)
        print(f"| {what} | | | " + " | ".join(f"{of(c):.2f}" if c else "-" for c in columns) + " |")


def network(size: int, exchange: str, seq: int = 4096) -> dict[str, gtsim.Result]:
    """A full chip of eight GPCs: crossbar, and the mesh like it with each placement."""
    chip = CHIPS["8 GPCs of 16 SMs, 32 heads"]
    (graph,) = graphs(Shape(size, seq, 128 // size), exchange, ahead=True)
    mesh = mesh_like_crossbar(gtsim.load_hardware(HARDWARE), 4, 4)
    variants = {"crossbar": {}, **{p: {**mesh, "cluster.placement": p} for p in PLACEMENTS}}
    return {name: gtsim.simulate(graph, HARDWARE, overrides={**chip, **changes}).result for name, changes in variants.items()}


def print_network(exchange: str, rows: Mapping[int, Mapping[str, gtsim.Result]]) -> None:
    """Residence of requests, hops, and cycles."""
    print(f"\nexchange by {exchange}: cycles that a request is in the network, mean hops, and cycles of the kernel\n")
    print("| CTAs a cluster | crossbar | mesh, order | mesh, naive | mesh, topology | naive / topology | hops naive, topology | "
          "cycles crossbar, naive, topology |\n|" + "---|" * 8)
    gains = []
    for size, found in rows.items():
        r = {name: result.network for name, result in found.items()}
        gains.append(r["naive"].residence_cycles / r["topology"].residence_cycles)
        print(f"| {size} | " + " | ".join(f"{r[n].residence_cycles:.1f}" for n in ("crossbar", *PLACEMENTS))
              + f" | {gains[-1]:.2f} | {r['naive'].mean_hops:.2f}, {r['topology'].mean_hops:.2f} | "
              + ", ".join(f"{found[n].cycles:,}" for n in ("crossbar", "naive", "topology")) + " |")
    print(f"\nnaive over topology: mean {sum(gains) / len(gains):.2f}, most {max(gains):.2f}")


def tilelang(sizes: Iterable[int] = SIZES, seq: int = 4096) -> None:
    """The kernel as TileLang 0.1.15 can write it: a block stores to one other block at a time."""
    from fused_decode_tilelang import fused_decode

    print("\nTileLang, one GPC: cycles with DSMEM and through memory, both with the cluster barrier\n")
    print("| CTAs a cluster | DSMEM | memory | memory / DSMEM |\n|---|---|---|---|")
    for size in sizes:
        found = []
        for exchange in ("dsmem", "memory"):
            arguments = {"size": size, "seq": seq, "heads": 16 // size, "exchange": exchange}
            # Warp specialisation would apply to one of the three loops only.
            graph = gtsim.lower(fused_decode, (), arguments, hw=HARDWARE, pass_configs={"tl.disable_warp_specialized": True})
            found.append(gtsim.simulate(graph, HARDWARE, overrides=CHIPS["one GPC of 16 SMs"]).cycles)
        print(f"| {size} | {found[0]:,} | {found[1]:,} | {found[1] / found[0]:.2f} |")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables and draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilelang", action="store_true", help="also the kernel that TileLang can express")
    parser.add_argument("--figures", default=".", help="folder of the SVG files")
    args = parser.parse_args(arguments)
    folder = Path(args.figures)
    for chip in CHIPS:
        rows = fusion(chip)
        print_fusion(chip, rows)
        if chip.startswith("one"):
            ratios = {f"{size} CTAs\n{seq // 1024}K": {n: row[n] / row["DSMEM"] for n in list(WAYS)[3:] if n in row}
                      for (size, seq), row in rows.items()}  # fmt: skip
            bars(folder / "cluster_fusion.svg", f"Time through memory over DSMEM, {chip}", "ratio", ratios, list(WAYS)[3:])
    for exchange in ("mbarrier", "tree"):
        found = {size: network(size, exchange) for size in SIZES}
        print_network(exchange, found)
        if exchange == "mbarrier":
            residence: dict[str, dict[str, float | None]] = {
                f"{size} CTAs": {n: r.network.residence_cycles for n, r in row.items()} for size, row in found.items()}
            bars(folder / "cluster_network.svg", "Time of a request in the network", "cycles", residence,
                 ["crossbar", *PLACEMENTS])  # fmt: skip
    if args.tilelang:
        tilelang()


if __name__ == "__main__":
    main()
