"""The suite of TileOPs' kernels, on a checkout of our own that is built alike."""

import csv
import json
import textwrap

import pytest
from gtsim.validation.inputs import MEASURED
from gtsim.validation.suites.tileops_h200 import FILES

pytest.importorskip("tilelang")
pytest.importorskip("yaml")

CHECKOUT = {
    "pyproject.toml": '''
        [tool.pytest.ini_options]
        python_files = ["bench_*.py"]
    ''',
    "benchmarks/__init__.py": "",
    "benchmarks/baselines.py": "",
    "benchmarks/benchmark_base.py": '''
        class BenchmarkReport:
            pass


        class BenchmarkBase:
            def compare(self, functors, *inputs, record_as=None):
                raise RuntimeError("needs a GPU")
    ''',
    "benchmarks/ops/bench_scale.py": '''
        import pytest
        import torch
        from benchmarks.benchmark_base import BenchmarkBase
        from tileops.scale import ScaleFwdOp


        @pytest.mark.parametrize(("n", "tune", "twice", "copied"), [
            pytest.param(1 << 20, False, False, False, id="fixed-float16"),
            pytest.param(1 << 20, True, False, False, id="tuned-float16"),
            pytest.param(1 << 20, False, True, False, id="twice-float16"),
            pytest.param(1 << 20, False, False, True, id="copied-float16"),
        ])
        def test_scale(n, tune, twice, copied):
            assert torch.cuda.get_device_capability() == (9, 0)
            print("noise")
            x = torch.randn(n, device="cuda", dtype=torch.float16)
            op = ScaleFwdOp(tune, twice, copied)
            BenchmarkBase().compare({"tileops": op, "torch": lambda x: x * 2}, x, record_as=op)
    ''',
    "src/tileops/__init__.py": "",
    "src/tileops/kernels/__init__.py": "",
    "src/tileops/kernels/kernel_base.py": '''
        class Kernel:
            def __init__(self, tune):
                self.config = dict(self.default_config)
                if tune:
                    self.autotune()

            def autotune(self):
                raise RuntimeError("needs a GPU")
    ''',
    "src/tileops/scale.py": '''
        import tilelang
        import tilelang.language as T
        from tileops.kernels.kernel_base import Kernel


        @tilelang.jit(out_idx=[1])
        def scale_program(block, threads):
            n = T.dynamic("n")

            @T.prim_func
            def scale_kernel(X: T.Tensor((n,), "float16"), Y: T.Tensor((n,), "float16")):
                with T.Kernel(T.ceildiv(n, block), threads=threads) as b:
                    for i in T.Parallel(block):
                        Y[b * block + i] = X[b * block + i] * 2
            return scale_kernel


        class ScaleKernel(Kernel):
            default_config = {"block": 32, "threads": 32}
            autotune_configs = [{"block": 32, "threads": 32}, {"block": 2048, "threads": 256}, {"block": 64, "threads": 64}]

            def __call__(self, x):
                return scale_program(**self.config)(x)


        class ScaleFwdOp:
            def __init__(self, tune, twice, copied):
                self.kernel, self.twice, self.copied = ScaleKernel(tune), twice, copied

            def __call__(self, x):
                y = self.kernel(x.clone() if self.copied else x)
                return self.kernel(y) if self.twice else y
    ''',
}
ROWS = [("fixed-float16", 1), ("tuned-float16", 1), ("twice-float16", 2), ("copied-float16", 2), ("other-float16", 1),
        ("twice-float16", 3)]


@pytest.fixture(scope="module")
def run(tmp_path_factory, validate):
    root = tmp_path_factory.mktemp("tileops")
    for name, text in CHECKOUT.items():
        path = root / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    (root / "measured").mkdir()
    for name in FILES:
        with (MEASURED / name).open(newline="") as f:
            columns = csv.DictReader(f).fieldnames
        with (root / "measured" / name).open("w", newline="") as f:
            writer = csv.DictWriter(f, columns)
            writer.writeheader()
            if name.startswith("elementwise"):
                for op, (case, kernels) in enumerate(ROWS):
                    writer.writerow({"kernel": "tilelang:tileops", "op": "ScaleFwdOp" if op < 5 else "OtherFwdOp", "case": case,
                                     "dtype": "float16", "clock_mhz": 1500, "cycles": 4000, "p10_us": 2.6, "p90_us": 2.7,
                                     "n_kernels": kernels, "flops": 1 << 20, "bytes": 4 << 20})
                writer.writerow({"kernel": "torch", "op": "ScaleFwdOp", "case": "fixed-float16", "clock_mhz": 1500, "cycles": 1})
    done = validate("--suite", "tileops-h200", "--tileops", root / "checkout", "--measured", root / "measured", "--json",
                    root / "run.json", "--log", root / "log.txt")
    assert done.status == 0, done.err + done.out
    record = json.loads((root / "run.json").read_text())
    families = record["suites"]["tileops-h200"]["families"]
    return {c["id"]: c for c in record["cases"]}, families, done, (root / "log.txt").read_text()


def test_kernels_come_from_the_checkout(run):
    cases, families, _, _ = run
    fixed = cases["ScaleFwdOp--fixed-float16"]
    assert fixed["predicted_cycles"] > 500 and fixed["measured_cycles"] == 4000 and not fixed["tuned"]
    assert families["elementwise"]["n"] == 2 and families["elementwise"]["not_predicted"] == 3


def test_the_best_candidate_counts_in_a_family_of_its_own(run):
    cases, families, _, _ = run
    tuned, fixed = cases["ScaleFwdOp--tuned-float16"], cases["ScaleFwdOp--fixed-float16"]
    assert tuned["family"] == "elementwise-tuned" and families["elementwise-tuned"]["n"] == 1
    assert tuned["configuration"] == "block=2048 threads=256" and (tuned["tried"], tuned["candidates"]) == (3, 3)
    assert tuned["predicted_cycles"] < fixed["predicted_cycles"]


def test_launches_of_one_call_are_summed(run):
    cases, _, _, _ = run
    twice, fixed = cases["ScaleFwdOp--twice-float16"], cases["ScaleFwdOp--fixed-float16"]
    assert twice["kernels"] == 2 and twice["predicted_cycles"] == 2 * fixed["predicted_cycles"]


def test_rows_that_cannot_be_built_say_why(run):
    cases, _, done, _ = run
    assert "PyTorch's own (clone)" in cases["ScaleFwdOp--copied-float16"]["reason"]
    assert "no benchmark case" in cases["ScaleFwdOp--other-float16"]["reason"]
    assert "ScaleFwdOp" in cases["OtherFwdOp--twice-float16"]["reason"]
    assert "not predicted: 3 of 6" in done.out


def test_what_benchmarks_print_stays_off_the_terminal(run):
    _, _, done, log = run
    assert "noise" not in done.out + done.err and done.err == ""
    assert "== tileops-h200: ScaleFwdOp--fixed-float16" in log
