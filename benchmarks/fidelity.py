#!/usr/bin/env python3
"""How far `bulk` fidelity is from `line`: cycles, L2 bytes read and events, on kernels where they agree and where they do not.

    python benchmarks/fidelity.py

Takes about two minutes, most of it for `line` on the grouped GEMM.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gtsim

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))


def cases() -> Iterator[tuple[str, str, gtsim.KernelGraph]]:
    """Name, GPU and graph of each case."""
    from gemm import gemm
    from moe_grouped_gemm import moe_gemm, routing, tiles_of
    from rmsnorm import rmsnorm

    shapes: list[tuple[str, Any, dict[str, int]]] = [
        *(("gemm", gemm, {"M": n, "N": n, "K": n}) for n in (1024, 1000, 1016, 2000)),
        ("gemm", gemm, {"M": 1024, "N": 1024, "K": 1000}),
        ("gemm", gemm, {"M": 1000, "N": 4096, "K": 4096}),
        ("rmsnorm", rmsnorm, {"M": 1000, "N": 5000}),
        ("rmsnorm", rmsnorm, {"M": 1024, "N": 8192}),
    ]
    for hw in ("h100_sxm", "a100_sxm"):
        for name, kernel, arguments in shapes:
            yield f"{name} {arguments}", hw, gtsim.lower(kernel, (), arguments, hw=hw)
    for skew in (0.0, 0.5):
        metadata = tiles_of(routing(1024, skew))
        yield f"moe_gemm skew {skew}", "h100_sxm", gtsim.lower(moe_gemm, (), {"tokens": 1024}, hw="h100_sxm", metadata=metadata)


def main() -> None:
    """Print one line a case."""
    print(f"{'case':44} {'GPU':9} {'bulk':>9} {'line':>9} {'cycles':>7} {'L2 read':>8} {'events':>21}")
    for name, hw, graph in cases():
        bulk, line = (gtsim.simulate(graph, hw, fidelity=f) for f in ("bulk", "line"))
        cycles = bulk.cycles / line.cycles - 1
        read = bulk.traffic.l2_read_bytes / line.traffic.l2_read_bytes - 1
        events = f"{bulk.result.events:,} {line.result.events:,}"
        print(f"{name:44} {hw:9} {bulk.cycles:9d} {line.cycles:9d} {cycles:+7.1%} {read:+8.2%} {events:>21}", flush=True)


if __name__ == "__main__":
    main()
