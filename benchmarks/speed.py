#!/usr/bin/env python3
"""How fast gtsim is on this machine; run by hand, prints every figure that README and docs quote about speed.

    python benchmarks/speed.py            # needs gtsim[tilelang]

Machines are shared and noisy: times are the best of a few runs; events and bytes do not vary.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GEMM = Path(__file__).resolve().parents[1] / "examples" / "gemm.py"


def timed(*command: str) -> float:
    """Wall seconds of a Python command line in a fresh process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def peak_mb() -> float:
    """Most memory this process held, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def warm(size: int) -> None:
    """A square GEMM several times in this process."""
    import gtsim
    from gtsim.kernel_file import load_kernel

    _, gemm = load_kernel(str(GEMM))
    matmul = gtsim.predict(hw="h100_sxm")(gemm)
    runs = []
    for _ in range(6):
        start = time.perf_counter()
        p = matmul(size, size, size)
        runs.append((time.perf_counter() - start, p))
    total, p = min(runs, key=lambda run: run[0])
    seconds, graph = p.result.seconds, p.result.graph
    print(f"{size}^3 fp16 GEMM on h100_sxm, bulk, warm process: {total:.3f} s in all")
    print("    " + ", ".join(f"{name} {value:.3f} s" for name, value in seconds.items()))
    print(f"    {p.cycles:,} cycles, {p.events:,} events, {p.events / seconds['simulation'] / 1e6:.1f} M events/s")
    print(f"    graph {graph['bytes'] / 1e6:.3f} MB, instance table {graph['instance_bytes'] / 1e6:.3f} MB")


def saved(path: str) -> None:
    """A saved graph, without TileLang."""
    from gtsim.graph import load_graph

    import gtsim

    before = peak_mb()
    p = gtsim.simulate(load_graph(path), "h100_sxm")
    print(
        f"    simulate the saved graph in a process without TileLang: peak {peak_mb():.0f} MB ({before:.0f} MB before), "
        f"simulation {p.result.seconds['simulation']:.3f} s"
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warm", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--saved", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.warm:
        return warm(args.warm)
    if args.saved:
        return saved(args.saved)
    empty = min(timed("-c", "pass") for _ in range(5))
    print(f"import gtsim: {min(timed('-c', 'import gtsim') for _ in range(5)) - empty:.3f} s")
    print(
        f"gtsim predict examples/gemm.py, cold process: {min(timed('-m', 'gtsim', 'predict', str(GEMM)) for _ in range(3)):.2f} s"
    )
    with tempfile.TemporaryDirectory() as folder:
        for size in (4096, 8192):
            path = str(Path(folder) / f"{size}.npz")
            sizes = [part for name in "MNK" for part in ("--arg", f"{name}={size}")]
            timed("-m", "gtsim", "graph", str(GEMM), *sizes, "-o", path)
            subprocess.run([sys.executable, __file__, "--warm", str(size)], check=True)
            subprocess.run([sys.executable, __file__, "--saved", path], check=True)


if __name__ == "__main__":
    main()
