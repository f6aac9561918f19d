#!/usr/bin/env python3
"""How far `bulk` fidelity is from `line`: cycles, L2 bytes read and events, on kernels where they agree and where they do not.

    python benchmarks/fidelity.py             # about two minutes, most of it for `line` on the grouped GEMM
    python benchmarks/fidelity.py --fast      # `fast` against `bulk`, on larger grids
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


def large() -> Iterator[tuple[str, gtsim.KernelGraph]]:
    """Name and graph of grids of many waves, for h100_sxm."""
    from elementwise import add_relu
    from flash_attention import flash_attention
    from gemm import gemm
    from rmsnorm import rmsnorm

    shapes: list[tuple[str, Any, dict[str, Any]]] = [
        *(("gemm", gemm, {"M": n, "N": n, "K": n}) for n in (4096, 8192, 16384)),
        ("gemm", gemm, {"M": 8192, "N": 8192, "K": 1024}),
        ("gemm", gemm, {"M": 8192, "N": 8192, "K": 4096, "swizzle": 8}),
        ("attention", flash_attention, {"batch": 4, "heads": 32, "kv_heads": 32}),
        ("attention", flash_attention, {"batch": 1, "heads": 32, "kv_heads": 32, "seq_q": 8192, "seq_kv": 8192, "causal": True}),
        ("rmsnorm", rmsnorm, {"M": 65536, "N": 4096}),
        ("add_relu", add_relu, {"M": 16384, "N": 8192}),
    ]
    for name, kernel, arguments in shapes:
        yield f"{name} {arguments}", gtsim.lower(kernel, (), arguments, hw="h100_sxm")


def fast() -> None:
    """Print one line a large case."""
    for name, graph in large():
        short, whole = (gtsim.simulate(graph, "h100_sxm", fidelity=f).result for f in ("fast", "bulk"))
        print(f"{name}: fast {short.cycles:,} bulk {whole.cycles:,} cycles ({short.cycles / whole.cycles - 1:+.3%}, bound "
              f"{short.skipped['bound']:.3%}); {short.skipped['ctas']:,} of {short.ctas:,} CTAs left out; simulation "
              f"{short.seconds['simulation']:.2f} s, {whole.seconds['simulation']:.2f} s", flush=True)


def main() -> None:
    """Print one line a case."""
    if "--fast" in sys.argv[1:]:
        fast()
        return
    print(f"{'case':44} {'GPU':9} {'bulk':>9} {'line':>9} {'cycles':>7} {'L2 read':>8} {'events':>21}")
    for name, hw, graph in cases():
        bulk, line = (gtsim.simulate(graph, hw, fidelity=f) for f in ("bulk", "line"))
        cycles = bulk.cycles / line.cycles - 1
        read = bulk.traffic.l2_read_bytes / line.traffic.l2_read_bytes - 1
        events = f"{bulk.result.events:,} {line.result.events:,}"
        print(f"{name:44} {hw:9} {bulk.cycles:9d} {line.cycles:9d} {cycles:+7.1%} {read:+8.2%} {events:>21}", flush=True)


if __name__ == "__main__":
    main()
