#!/usr/bin/env python3
"""Simulate a saved graph in a process of its own and print what it took, as JSON; the other benchmarks call this.

    python benchmarks/measure.py GRAPH.npz --hw h200_sxm --fidelity line --threads 2 --runs 3
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class Instructions:
    """Instructions of this process and its threads in user space, from the kernel's performance counters (perf_event_open(2)).
    `count` is None where a machine has none or forbids them."""

    _SYSCALLS = {"x86_64": 298, "aarch64": 241}
    _SIZE, _DISABLED, _INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 128, 1 << 0, 1 << 1, 1 << 5, 1 << 6

    def __init__(self) -> None:
        self.count: int | None = None
        number = self._SYSCALLS.get(os.uname().machine) if sys.platform == "linux" else None
        self._file = -1 if number is None else self._open(number)

    def _open(self, number: int) -> int:
        attributes = bytearray(self._SIZE)
        hardware, instructions = 0, 1  # PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS
        struct.pack_into("IIQ", attributes, 0, hardware, self._SIZE, instructions)
        struct.pack_into("Q", attributes, 40, self._INHERIT | self._NO_KERNEL | self._NO_HYPERVISOR)
        buffer = (ctypes.c_char * self._SIZE).from_buffer(attributes)
        return int(ctypes.CDLL(None).syscall(number, buffer, 0, -1, -1, 0))

    def _read(self) -> int:
        return int(struct.unpack("Q", os.read(self._file, 8))[0])

    def __enter__(self) -> Instructions:
        self._before = self._read() if self._file >= 0 else 0
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            self.count = self._read() - self._before


def peak_mb() -> float:
    """Most memory this process held, MB. Linux counts the parent's into ru_maxrss, so ask for that of the memory map."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def measure(path: str, hw: str, fidelity: str, threads: int, runs: int) -> dict[str, Any]:
    """Least seconds of `runs` simulations, by the clock and of processor time (of all threads, with what comes before and behind
    the engine), and what does not vary."""
    from gtsim.backend import simulate
    from gtsim.graph import load_graph

    graph = load_graph(path)
    before, best, processor, instructions = peak_mb(), float("inf"), float("inf"), []
    for _ in range(runs):
        with Instructions() as counted:
            started = time.process_time()
            result = simulate(graph, hw, fidelity=fidelity, threads=threads)
            processor = min(processor, time.process_time() - started)
        best = min(best, result.seconds["simulation"])
        instructions.append(counted.count)
    return {"cycles": result.cycles, "events": result.events, "nodes": result.graph["executed_nodes"], "seconds": best,
            "cpu_seconds": processor, "peak_mb": peak_mb(), "before_mb": before,
            "instructions": min(instructions) if None not in instructions else None}


def in_process(path: Path, hw: str, fidelity: str, *, threads: int = 1, runs: int = 1,
               root: Path | None = None) -> dict[str, Any]:
    """:func:`measure` in a fresh process, with the gtsim in the import root `root` if given.

    Raises:
        RuntimeError: what the process said on its way out.
    """
    command = [sys.executable, __file__, str(path), "--hw", hw, "--fidelity", fidelity, "--threads", str(threads),
               "--runs", str(runs)]
    env = {**os.environ, **({"PYTHONPATH": str(root)} if root else {})}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}")
    return dict(json.loads(done.stdout))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Simulate a saved graph and print what it took, as JSON.")
    parser.add_argument("graph")
    parser.add_argument("--hw", default="h100_sxm")
    parser.add_argument("--fidelity", default="bulk")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    args = parser.parse_args()
    print(json.dumps(measure(args.graph, args.hw, args.fidelity, args.threads, args.runs)))


if __name__ == "__main__":
    main()
