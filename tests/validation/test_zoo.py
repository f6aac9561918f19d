"""The survey of TileLang's examples, on a checkout of our own."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gtsim

pytest.importorskip("tilelang")
ZOO = Path(__file__).resolve().parents[2] / "validation" / "zoo.py"

SCALE = '''
    import flash_attn  # compares itself with a package that is not there
    import tilelang, torch
    import tilelang.language as T


    def scale(n, threads):
        @T.prim_func
        def scale_kernel(X: T.Tensor((n, 256), "float32"), used: T.Tensor((4,), "int32"), Y: T.Tensor((n, 256), "float32")):
            with T.Kernel(4, threads=threads) as b:
                for i in T.serial(used[b]):
                    for j in T.Parallel(256):
                        Y[b * 16 + i, j] = X[b * 16 + i, j] * 2.0
        return scale_kernel


    def main():
        n = T.dynamic("n")
        kernel = tilelang.compile(scale(n, 128), out_idx=[-1])
        kernel(torch.randn(64, 256, device="cuda"), torch.tensor([1, 2, 3, 4], dtype=torch.int32, device="cuda"))
        flash_attn.compare(kernel)
        tilelang.compile(scale(64, 128), out_idx=[-1])
'''

STEERED = '''
    import tilelang
    import tilelang.language as T


    @T.prim_func
    def steered_kernel(X: T.Tensor((8,), "float32"), Y: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128) as _:
            for k in T.serial(T.cast(X[0], "int32")):
                T.sync_threads()
            for j in T.Parallel(128):
                Y[j] = X[0]


    def main():
        tilelang.compile(steered_kernel)
'''

HUGE = '''
    import tilelang
    import tilelang.language as T


    @T.prim_func
    def huge_kernel(X: T.Tensor((256, 256), "float32"), Y: T.Tensor((256, 256), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_shared((256, 256), "float32")
            T.copy(X, x)
            T.copy(x, Y)


    def main():
        tilelang.compile(huge_kernel)
'''


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    """Rows and output of one run, and of the run after it."""
    root = tmp_path_factory.mktemp("zoo")
    for name, text in (("scale", SCALE), ("steered", STEERED), ("huge", HUGE)):
        path = root / "checkout" / "examples" / name / f"example_{name}.py"
        path.parent.mkdir(parents=True)
        path.write_text(textwrap.dedent(text))
    entry = os.pathsep.join([str(Path(gtsim.__path__[0]).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(ZOO), "--tilelang", str(root / "checkout"), "--arch", "sm_90a", "--cache", str(root / "cache"),
               "--json", str(root / "rows.json")]

    def run():
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": entry}, cwd=root, capture_output=True, text=True,
                              timeout=600)
        assert done.returncode == 0, done.stderr
        return json.loads((root / "rows.json").read_text()), done

    return run(), run()


def row(rows, kernel):
    return [r for r in rows if r["kernel"] == kernel]


def test_sizes_and_constant_tensors_are_the_examples_own(survey):
    (rows, _), _ = survey
    bound, free = sorted(row(rows, "scale_kernel"), key=lambda r: r["notes"])
    assert (bound["notes"], bound["templates"]) == ([], 4)  # 1, 2, 3 and 4 rows
    assert bound["cycles"] > 0 and bound["nodes"] > 0
    assert free["notes"] == ["used assumed"]  # compiled and never called


def test_a_failure_names_the_statement(survey):
    (rows, _), _ = survey
    (failed,) = row(rows, "steered_kernel")
    assert failed["lowers"] and "cycles" not in failed and "X[0]" in failed["error"]


def test_what_the_gpu_cannot_hold_is_counted_and_told_apart(survey):
    (rows, done), _ = survey
    (failed,) = row(rows, "huge_kernel")
    assert failed["error"].startswith("CheckError: overflow")
    assert "TileLang lowers 4, ok 2 (50.0 %; 66.7 % without 1 that h100_sxm cannot run)" in done.stdout


def test_the_next_run_goes_on_from_what_is_kept(survey):
    (rows, _), (again, done) = survey
    assert again == rows and " of " not in done.stderr  # nothing left to do, nothing to count
