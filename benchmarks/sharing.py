#!/usr/bin/env python3
"""How long TileLang's output takes to become a graph, and how large the graph is, where many CTAs differ in their loops.

    python benchmarks/sharing.py          # needs gtsim[tilelang]

Prints processor time, best of a few: what lies behind lowering (`graph`), the check included. Nodes and bytes do not vary.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
RUNS = 5


def show(title: str, make: Callable[..., Any], sizes: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
    """Lower a kernel several times and print one line."""
    from gtsim.frontend import capture, lower_captured

    captured = capture(lambda: make(**sizes), "sm_90a")
    best = 1e9
    for _ in range(RUNS):
        start = time.process_time()
        graph = lower_captured(captured, metadata=metadata)
        best = min(best, time.process_time() - start)
    nodes = sum(t.nodes for t in graph.templates)
    print(f"{title}: {best:.3f} s; {len(graph.templates)} templates of {nodes:,} nodes, {graph.nbytes / 1e6:.2f} MB and "
          f"{graph.instances.nbytes / 1e6:.2f} MB instances")
    print(f"    {len(graph.instances):,} CTAs execute {graph.total_nodes:,} operations")


def main() -> None:
    """All cases."""
    from flash_attention import flash_attention
    from gemm_persistent import gemm_persistent
    from moe_grouped_gemm import moe_gemm, routing, tiles_of

    show("causal attention, 32768 tokens x 32 heads", flash_attention,
         {"batch": 1, "heads": 32, "kv_heads": 32, "seq_q": 32768, "seq_kv": 32768, "causal": True})
    show("persistent GEMM 8192^3", gemm_persistent, {"M": 8192, "N": 8192, "K": 8192})
    show("grouped GEMM, 256 experts", moe_gemm, {"tokens": 8192, "experts": 256, "top_k": 8},
         metadata=tiles_of(routing(8192, 0.2, 256, 8)))


if __name__ == "__main__":
    main()
