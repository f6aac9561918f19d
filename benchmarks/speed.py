#!/usr/bin/env python3
"""How fast gtsim is on this machine; run by hand, prints every figure that README and docs quote about speed.

    python benchmarks/speed.py                       # needs gtsim[tilelang]
    python benchmarks/speed.py --against HEAD~1      # ratios to that commit, whose engine is built for it: cmake, ninja, nanobind

Machines are shared and noisy: times are the best of a few runs; events and bytes do not vary. Two commits are measured in turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measure import in_process
from old_commit import import_root

GEMM = Path(__file__).resolve().parents[1] / "examples" / "gemm.py"
HW = "h100_sxm"
#: Name -> (graph in `workloads`, its arguments, fidelity).
CASES: dict[str, tuple[str, tuple[int, ...], str]] = {
    "gemm 4096^3": ("gemm", (4096,), "bulk"),
    "gemm 8192^3": ("gemm", (8192,), "bulk"),
    "gemm 16384^3": ("gemm", (16384,), "fast"),
    "attention 16K causal, 32 heads": ("attention", (16384, 32), "bulk"),
    "gemm 2048^3, by line": ("gemm", (2048,), "line"),
    "gemm 8192^3, by line": ("gemm", (8192,), "line"),
}


def timed(*command: str) -> float:
    """Wall seconds of a Python command line in a fresh process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def best(runs: int, once: Callable[[], float]) -> float:
    """The least of a few times."""
    return min(once() for _ in range(runs))


def start_up() -> None:
    """What comes before the first prediction."""
    empty = best(5, lambda: timed("-c", "pass"))
    print(f"import gtsim: {best(5, lambda: timed('-c', 'import gtsim')) - empty:.3f} s")
    cold = best(3, lambda: timed("-m", "gtsim", "predict", str(GEMM)))
    print(f"gtsim predict examples/gemm.py, cold process: {cold:.2f} s")


def warm(size: int) -> None:
    """A square GEMM several times in one process, from source to result."""
    import gtsim
    from gtsim.kernel_file import load_kernel

    _, gemm = load_kernel(str(GEMM))
    matmul = gtsim.predict(hw=HW)(gemm)
    runs = []
    for _ in range(6):
        start = time.perf_counter()
        p = matmul(size, size, size)
        runs.append((time.perf_counter() - start, p))
    total, p = min(runs, key=lambda run: run[0])
    seconds, graph = p.result.seconds, p.result.graph
    print(f"{size}^3 fp16 GEMM on {HW}, bulk, warm process: {total:.3f} s in all")
    print("    " + ", ".join(f"{name} {value:.3f} s" for name, value in seconds.items()))
    print(f"    {p.cycles:,} cycles; graph {graph['bytes'] / 1e6:.3f} MB, instance table {graph['instance_bytes'] / 1e6:.3f} MB")


def graph_of(name: str, folder: Path) -> Path:
    """The saved graph of a case, written by a process of its own."""
    make, arguments, _ = CASES[name]
    path = folder / f"{make}{'x'.join(map(str, arguments))}.npz"
    if not path.exists():
        code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import workloads; "
        code += f"from gtsim.graph import save_graph; save_graph(workloads.{make}(*{arguments}, hw={HW!r}), {str(path)!r})"
        subprocess.run([sys.executable, "-c", code], check=True)
    return path


def table(names: list[str], runs: int, threads: int) -> None:
    """A line for each saved graph, simulated in a process without TileLang."""
    print(f"\n{HW}, simulation of saved graphs, {threads} thread{'s' * (threads > 1)}")
    print(f"{'case':31} {'fidelity':8} {'cycles':>12} {'events':>13} {'seconds':>8} {'CPU s':>8} {'M events/s':>10} "
          f"{'ns an event':>11} {'peak MB':>8} {'before':>7} {'G instructions':>14} {'an event':>8}")
    counted = False
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            fidelity = CASES[name][2]
            got = in_process(graph_of(name, Path(folder)), HW, fidelity, threads=threads, runs=runs)
            seconds, events, instructions = got["seconds"], got["events"], got["instructions"]
            tail = f" {instructions / 1e9:14.2f} {instructions / events:8.0f}" if instructions else ""
            counted |= bool(instructions)
            print(f"{name:31} {fidelity:8} {got['cycles']:12,} {events:13,} {seconds:8.3f} {got['cpu_seconds']:8.3f} "
                  f"{events / seconds / 1e6:10.2f} {seconds / events * 1e9:11.1f} {got['peak_mb']:8.0f} "
                  f"{got['before_mb']:7.0f}{tail}", flush=True)
    if not counted:
        print("no instructions: this machine has no counter for them, or does not let us read it (perf_event_open)")


def against(commit: str, names: list[str], runs: int, threads: int) -> None:
    """Ratios of this checkout to `commit`, both measured in turn."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        root = import_root(commit, folder / "old")
        print(f"\n{HW}, this checkout against {commit}: above 1 is faster now")
        print(f"{'case':31} {'fidelity':8} {'seconds':>8} {'before':>8} {'time':>6} {'CPU':>6} {'events':>13} {'before':>13} "
              f"{'events/s':>8} {'MB':>5} {'before':>6} {'cycles':>9}")
        for name in names:
            path, fidelity = graph_of(name, folder), CASES[name][2]
            new, old = [], []
            try:
                for _ in range(runs):
                    old.append(in_process(path, HW, fidelity, root=root))
                    new.append(in_process(path, HW, fidelity, threads=threads))
            except RuntimeError as error:
                print(f"{name:31} {fidelity:8} {error}")
                continue
            a, b = (min(r["seconds"] for r in found) for found in (new, old))
            c, d = (min(r["cpu_seconds"] for r in found) for found in (new, old))
            events, before = new[0]["events"], old[0]["events"]
            cycles = new[0]["cycles"] / old[0]["cycles"] - 1
            memory = f"{new[0]['peak_mb']:5.0f} {old[0]['peak_mb']:6.0f}"
            print(f"{name:31} {fidelity:8} {a:8.3f} {b:8.3f} {b / a:6.2f} {d / c:6.2f} {events:13,} {before:13,} "
                  f"{events / a / (before / b):8.2f} {memory} {cycles:+9.3%}", flush=True)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="How fast gtsim is on this machine.")
    parser.add_argument("--against", metavar="COMMIT", help="compare with the engine of this commit")
    parser.add_argument("--cases", nargs="+", choices=sorted(CASES), default=list(CASES), help="only these graphs")
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the fastest counts")
    parser.add_argument("--threads", type=int, default=1, help="host threads")
    parser.add_argument("--warm", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.warm:
        return warm(args.warm)
    if args.against:
        return against(args.against, args.cases, args.runs, args.threads)
    start_up()
    for size in (4096, 8192):
        subprocess.run([sys.executable, __file__, "--warm", str(size)], check=True)
    table(args.cases, args.runs, args.threads)


if __name__ == "__main__":
    main()
