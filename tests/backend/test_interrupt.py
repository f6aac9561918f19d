"""Ctrl-C ends a simulation within a second, whatever the fidelity and the number of host threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: Hours of simulation: 1e9 loads. CTAs differ in their trip counts, so that "fast" finds nothing to leave out.
CHILD = """
import sys
from gtsim.backend import simulate
from gtsim.graph import TileGraphBuilder

b = TileGraphBuilder("endless", grid=(50000, 1, 1), threads=128, registers_per_thread=255, smem_bytes=200000)
x, f = b.tensor("x", (1 << 20, 64), "float16"), b.buffer("f", (16, 64), "float16", scope="fragment")
t = b.template()
segment = t.repeat(t.column("times"))
for part in range(2):
    t.segment = segment + part
    t.node("global_load", range(4), reads=[x.tile((16 * part, 0), (16, 64))], writes=[f.tile()])
b.add_instances(t, [(i, 0, 0) for i in range(50000)], {"times": [20000 + i * 7919 % 1000 for i in range(50000)]})
try:
    simulate(b.build(check=False), "h100_sxm", fidelity=sys.argv[1], threads=int(sys.argv[2]),
             progress=lambda done: print("running", flush=True) if done >= 0 else None)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("fidelity", ["fast", "bulk", "line"])
def test_within_a_second(tmp_path: Path, fidelity: str, threads: int) -> None:
    command = [sys.executable, "-c", CHILD, fidelity, str(threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None and process.stdout.readline() == b"running\n"
        time.sleep(0.2)
        asked = time.perf_counter()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        code = process.wait(timeout=20)
    assert code == 130
    assert time.perf_counter() - asked < 1 + 4 * ("ASAN_OPTIONS" in os.environ)  # it takes some hundredths
