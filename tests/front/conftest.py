"""What the tests of the front door share: a hand-built graph, and the command `gtsim` run in this process or another."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from gtsim.graph import KernelGraph, TileGraphBuilder, save_graph

from gtsim.cli import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str


@pytest.fixture
def gtsim_command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command in this process."""

    def command(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return command


@pytest.fixture
def python() -> Callable[..., Outcome]:
    """Run Python code in a process of its own."""

    def execute(code: str, *arguments: object) -> Outcome:
        done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              check=False, cwd=Path(sys.prefix))
        return Outcome(done.returncode, done.stdout, done.stderr)

    return execute


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of example kernels."""
    return EXAMPLES


@pytest.fixture(scope="session")
def make_gemm() -> Callable[..., KernelGraph]:
    """The hand-built GEMM."""
    return gemm_graph


@pytest.fixture(scope="session")
def gemm_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved graph of it."""
    path = tmp_path_factory.mktemp("graphs") / "gemm.npz"
    save_graph(gemm_graph(), path)
    return path


def gemm_graph(tiles_m: int = 16, tiles_n: int = 16, steps: int = 8, stages: int = 3, tile: tuple[int, int, int] = (128, 128, 64),
               wait: str = "full", arch: str = "sm_90a", smem_bytes: int | None = None, loop_ops: int = 0) -> KernelGraph:
    """A warp-specialised Hopper GEMM: warp 0 loads, warps 4..7 multiply. `wait` names the barrier that guards the loads."""
    bm, bn, bk = tile
    b = TileGraphBuilder("gemm", grid=(tiles_n, tiles_m, 1), threads=256, registers_per_thread=168, arch=arch,
                         smem_bytes=smem_bytes)
    m, n, k = tiles_m * bm, tiles_n * bn, steps * bk
    a, w, c = b.tensor("A", (m, k), "float16"), b.tensor("B", (n, k), "float16"), b.tensor("C", (m, n), "float16")
    a_s = [b.buffer(f"a_s{s}", (bm, bk), "float16", scope="shared", swizzle_bytes=128) for s in range(stages)]
    b_s = [b.buffer(f"b_s{s}", (bn, bk), "float16", scope="shared", swizzle_bytes=128) for s in range(stages)]
    acc = b.buffer("acc", (bm, bn), "float32", scope="fragment")
    full, empty = b.barrier(wait, [1] * stages), b.barrier("empty", [128] * stages)
    t = b.template()
    m0, n0 = t.column("m0"), t.column("n0")
    loader, math = (0,), range(4, 8)
    t.node("fill", math, writes=[acc.tile()], attrs={"elements": bm * bn, "alu": 1.0}, source="clear(acc)", role="consumer")
    for step in range(steps):
        s, phase, loop = step % stages, step // stages, f"kt={step}"
        t.node("barrier_wait", loader, wait=(empty[s], (phase & 1) ^ 1), attrs={"barrier": f"empty[{s}]"}, source="wait(empty)",
               role="producer", loop=loop)
        for tensor, at, buffer, rows in ((a, m0, a_s, bm), (w, n0, b_s, bn)):
            t.node("tma_load", loader, reads=[tensor.tile((at, step * bk), (rows, bk))], writes=[buffer[s].tile()], tx=full[s],
                   attrs={"tensor_map": True, "box": (rows, bk)}, source=f"copy({tensor.info.name})", role="producer", loop=loop,
                   arrive=[(full[s], 1)] if tensor is w else [])
        t.node("barrier_wait", math, wait=(full[s], phase & 1), attrs={"barrier": f"{wait}[{s}]"}, source=f"wait({wait})",
               role="consumer", loop=loop)
        if loop_ops:
            t.node("control", math, attrs={"int_ops": loop_ops, "branches": 1, "reason": "loop kt"}, source="loop kt",
                   role="consumer", loop=loop)
        t.node("wgmma", math, reads=[a_s[s].tile(), b_s[s].tile(), acc.tile()], writes=[acc.tile()], blocking=True,
               attrs={"m": bm, "n": bn, "k": bk, "dtype": "float16", "instruction": f"m64n{bn}k16",
                      "instructions": bm // 64 * bk // 16}, source="gemm(a_s, b_s -> acc)", role="consumer", loop=loop)
        t.node("barrier_arrive", math, arrive=[(empty[s], 128)], attrs={"barrier": f"empty[{s}]", "count": 128},
               source="arrive(empty)", role="consumer", loop=loop)
    t.node("global_store", math, reads=[acc.tile()], writes=[c.tile((m0, n0), (bm, bn))],
           attrs={"access_bytes": 4, "row_bytes": 16}, source="copy(acc -> C)", role="consumer")
    blocks = [(x, y, 0) for y in range(tiles_m) for x in range(tiles_n)]
    b.add_instances(t, blocks, {"m0": [y * bm for _, y, _ in blocks], "n0": [x * bn for x, _, _ in blocks]})
    b.meta.update({"kernel": "gemm", "flops": 2 * m * n * k, "warnings": []})
    return b.build()
