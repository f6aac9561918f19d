"""The command on kernel files: which kernel is meant, its arguments, and everything that can be wrong with it."""

from __future__ import annotations

import json

import pytest

import gtsim
from gtsim.kernel_file import factories, import_file, load_kernel, parse_pairs

pytest.importorskip("tilelang")

KERNEL = """
import tilelang.language as T

def {name}(M, N=512, block=64):
    if M < 0:
        raise ValueError("M must not be negative")
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float16"), Y: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(M, block), threads=128) as b:
            tile = T.alloc_fragment((block, N), "float16")
            T.copy(X[b * block, 0], tile)
            T.copy(tile, Y[b * block, 0])
    return kernel
"""


@pytest.fixture
def kernel_file(tmp_path):
    """Write a file with a kernel, or with something else."""

    def make(text: str = KERNEL.format(name="copy"), name: str = "my_kernel.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def one_line_error(outcome, status: int, *words: str) -> None:
    assert outcome.status == status, outcome.err
    assert outcome.out == ""
    assert outcome.err.startswith("error: ") and outcome.err.count("\n") <= 2, outcome.err
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err


def test_predict_uses_the_only_factory_and_its_defaults(gtsim_command, kernel_file) -> None:
    done = gtsim_command("predict", kernel_file(), "--arg", "M=1024", "--json", "-")
    assert done.status == 0, done.err
    assert json.loads(done.out)["ctas"] == 16


def test_what_the_kernel_file_prints_does_not_spoil_json(gtsim_command, kernel_file) -> None:
    done = gtsim_command("predict", kernel_file("print('hello')" + KERNEL.format(name="copy")), "--arg", "M=64", "--json", "-")
    assert json.loads(done.out)["ctas"] == 1
    assert "hello" in done.err


def test_graph_then_simulate_is_predict(gtsim_command, kernel_file, tmp_path) -> None:
    file, saved = kernel_file(), tmp_path / "k.npz"
    assert gtsim_command("graph", f"{file}:copy", "--arg", "M=1024", "-o", saved, "--hw", "h200_sxm").status == 0
    simulated = json.loads(gtsim_command("simulate", saved, "--hw", "h200_sxm", "--json", "-").out)
    predicted = json.loads(gtsim_command("predict", file, "--arg", "M=1024", "--hw", "h200_sxm", "--json", "-").out)
    assert simulated["cycles"] == predicted["cycles"]
    assert simulated["hashes"] == predicted["hashes"]


def test_a_decorated_factory_brings_its_gpu_unless_told_otherwise(gtsim_command, kernel_file) -> None:
    text = KERNEL.format(name="copy").replace("def copy", "@gtsim.predict(hw='h200_sxm', clock_mhz=1500)\ndef copy")
    file = kernel_file("import gtsim" + text)
    own = json.loads(gtsim_command("predict", file, "--arg", "M=64", "--json", "-").out)
    assert (own["hardware"], own["clock_mhz"]) == ("h200_sxm", 1500)
    told = json.loads(gtsim_command("predict", file, "--arg", "M=64", "--hw", "h100_sxm", "--json", "-").out)
    assert (told["hardware"], told["clock_mhz"]) == ("h100_sxm", 1500)


def test_a_prim_func_in_the_file_will_do(gtsim_command, kernel_file) -> None:
    file = kernel_file(KERNEL.format(name="_copy") + "\nkernel = _copy(256)\n")
    assert gtsim_command("predict", file, "--no-report").status == 0
    one_line_error(gtsim_command("predict", file, "--arg", "M=3"), 2, "PrimFunc")


def test_helpers_are_not_taken_for_kernels(kernel_file) -> None:
    text = "from os.path import join\ndef helper(x): return x\ndef _hidden(): pass\n" + KERNEL.format(name="copy")
    assert list(factories(import_file(kernel_file(text, "with_helpers.py")))) == ["copy"]


def test_files_of_the_same_name_in_different_folders_do_not_mix(kernel_file, tmp_path) -> None:
    (tmp_path / "other").mkdir()
    first = kernel_file(KERNEL.format(name="one"), "same_name.py")
    second = kernel_file(KERNEL.format(name="two"), "other/same_name.py")
    assert [load_kernel(str(f))[0] for f in (first, second)] == ["one", "two"]


def test_a_file_may_import_its_neighbours(kernel_file) -> None:
    kernel_file("WIDTH = 7\n", "neighbour_of_kernel.py")
    module = import_file(kernel_file("from neighbour_of_kernel import WIDTH\n", "imports_neighbour.py"))
    assert module.WIDTH == 7


def test_arguments_are_python_literals_or_text() -> None:
    assert parse_pairs("--arg", ["a=4", "b=1e-6", "c=true", "d=float16", "e=(1, 2)", "f=None", "g='8'", "h="]) == {
        "a": 4, "b": 1e-6, "c": True, "d": "float16", "e": (1, 2), "f": None, "g": "8", "h": ""}


def test_several_kernels_must_be_told_apart(gtsim_command, kernel_file) -> None:
    file = kernel_file(KERNEL.format(name="copy") + KERNEL.format(name="paste"))
    one_line_error(gtsim_command("predict", file, "--arg", "M=64"), 2, "copy, paste", ":copy")
    one_line_error(gtsim_command("predict", f"{file}:past", "--arg", "M=64"), 2, "past", "Did you mean paste")
    one_line_error(gtsim_command("predict", f"{file}:T", "--arg", "M=64"), 2, "not a kernel")
    assert gtsim_command("predict", f"{file}:paste", "--arg", "M=64", "--no-report").status == 0


def test_a_file_without_a_kernel_is_a_usage_error(gtsim_command, kernel_file) -> None:
    one_line_error(gtsim_command("predict", kernel_file("x = 1\n")), 2, "defines no kernel")


@pytest.mark.parametrize(("arguments", "words"), [
    ([], ["--arg M=", "copy(M, N=512, block=64)"]),
    (["--arg", "M=64", "--arg", "blok=3"], ["'blok'", "Did you mean block", "copy(M, N=512, block=64)"]),
    (["--arg", "M=64", "--hw", "h99"], ["h99"]),
    (["--arg", "M=64", "--on-unknown", "ignore"], ["warn"]),
])  # fmt: skip
def test_wrong_arguments_exit_2(gtsim_command, kernel_file, arguments, words) -> None:
    one_line_error(gtsim_command("predict", kernel_file(), *arguments), 2, *words)


@pytest.mark.parametrize(("text", "words"), [
    ("import no_such_module_anywhere\n", ["my_kernel.py:1", "ModuleNotFoundError", "no_such_module_anywhere"]),
    ("x = 1\n\ndef f(:\n", ["my_kernel.py:3", "SyntaxError"]),
    ("x = 1\ny = x / 0\n", ["my_kernel.py:2", "ZeroDivisionError"]),
    ("import sys\nsys.exit(3)\n", ["my_kernel.py:2", "SystemExit"]),
])  # fmt: skip
def test_a_file_that_does_not_import_exits_1_and_names_the_line(gtsim_command, kernel_file, text, words) -> None:
    one_line_error(gtsim_command("predict", kernel_file(text)), 1, *words)


def test_a_factory_that_raises_exits_1_with_its_own_words(gtsim_command, kernel_file) -> None:
    one_line_error(gtsim_command("predict", kernel_file(), "--arg", "M=-1"), 1, "ValueError", "M must not be negative")


def test_a_factory_that_returns_something_else_exits_1(gtsim_command, kernel_file) -> None:
    one_line_error(gtsim_command("predict", kernel_file("def make(): return 42\n")), 1, "make", "int")


def test_a_hopper_kernel_on_ampere_exits_1(gtsim_command, examples, tmp_path) -> None:
    done = gtsim_command("graph", examples / "gemm_ws_manual.py", "--hw", "a100_sxm", "-o", tmp_path / "k.npz")
    one_line_error(done, 1, "sm_80")
    assert not (tmp_path / "k.npz").exists()


def test_a_tile_that_does_not_fit_exits_1(gtsim_command, examples, tmp_path) -> None:
    big = ("--arg", "block_K=256", "--arg", "num_stages=4")
    done = gtsim_command("predict", examples / "gemm.py", *big, "--json", tmp_path / "r.json")
    one_line_error(done, 1, "shared memory", "fewer stages")
    assert not (tmp_path / "r.json").exists()


def test_report_and_python_agree(gtsim_command, examples) -> None:
    done = gtsim_command("predict", examples / "gemm.py", "--arg", "M=512", "--arg", "N=512", "--arg", "K=256", "--json", "-")
    gemm = load_kernel(str(examples / "gemm.py"))[1]
    assert json.loads(done.out)["cycles"] == gtsim.predict(gemm)(512, 512, 256).cycles
