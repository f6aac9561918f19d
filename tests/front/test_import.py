"""What importing gtsim costs, and what it needs."""

from __future__ import annotations

import pytest

HEAVY = ("numpy", "pydantic", "rich", "typer", "networkx", "tilelang", "tvm", "torch")
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tilelang", "tvm", "torch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
from gtsim.cli import main
main(sys.argv[1:])
"""


def test_import_gtsim_loads_nothing_heavy(python) -> None:
    done = python(f"import sys, gtsim; print([m for m in {HEAVY} if m in sys.modules])")
    assert done.out.strip() == "[]", done.err


def test_simulating_loads_neither_tilelang_nor_torch(python, gemm_file) -> None:
    code = ("import sys, gtsim; gtsim.simulate(gtsim.load_graph(sys.argv[1])); "
            "print([m for m in ('tilelang', 'tvm', 'torch') if m in sys.modules])")
    assert python(code, gemm_file).out.strip() == "[]"


def test_a_saved_graph_simulates_where_tilelang_and_torch_are_missing(python, gemm_file) -> None:
    done = python(BLOCK, "simulate", gemm_file, "--hw", "h200_sxm")
    assert done.status == 0, done.err
    assert "gemm on h200_sxm" in done.out


def test_lowering_without_tilelang_says_what_to_install(python, examples) -> None:
    done = python(BLOCK, "predict", examples / "gemm.py")
    assert done.status == 1
    assert done.err.count("\n") == 1
    assert "gemm.py:" in done.err and "pip install 'gtsim[tilelang]'" in done.err


def test_the_checkout_folder_without_its_rooms_explains_itself(tmp_path, python) -> None:
    import gtsim

    folder = tmp_path / "gtsim"
    folder.mkdir()
    (folder / "__init__.py").write_text(open(gtsim.__file__, encoding="utf-8").read(), encoding="utf-8")
    # Editable installs find the rooms from anywhere, so look without their finder.
    done = python("import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in type(f).__module__ "
                  "and 'ScikitBuild' not in type(f).__name__]; sys.path.insert(0, sys.argv[1]); import gtsim", tmp_path)
    assert done.status != 0
    assert "pip install -e ." in done.err


@pytest.mark.parametrize("name", ["predict", "lower", "simulate", "load_hardware", "load_graph", "Prediction", "__version__",
                                  "graph"])
def test_public_names_are_reached_through_gtsim(name) -> None:
    import gtsim

    assert getattr(gtsim, name) is not None
    assert name in dir(gtsim)


def test_an_unknown_name_is_an_attribute_error() -> None:
    import gtsim

    with pytest.raises(AttributeError, match="nonsense"):
        _ = gtsim.nonsense
