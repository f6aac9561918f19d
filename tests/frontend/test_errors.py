"""Bad input: one message that names the place and the remedy."""

import subprocess
import sys

import numpy as np
import pytest
from gtsim.frontend import FrontendError, UnknownStatement, lower


def test_importing_the_frontend_does_not_import_tilelang():
    code = "import sys, gtsim.frontend; assert not {'tilelang', 'tvm', 'torch'} & set(sys.modules)"
    env = {"PYTHONPATH": ":".join(p for p in sys.path if p), "PATH": "/usr/bin:/bin"}
    assert subprocess.run([sys.executable, "-c", code], env=env, cwd="/").returncode == 0


def test_a_missing_argument_is_named_with_the_signature(kernels):
    def factory(M, N, K=64):
        return kernels("dense.product")(M, N, K)

    with pytest.raises(FrontendError, match=r"missing argument 'N'.*factory\(M, N, K=64\)"):
        lower(factory, args=(128,), arch="sm_90a")


def test_an_unknown_argument_is_named(kernels):
    with pytest.raises(FrontendError, match=r"unknown argument 'block'"):
        lower(kernels("dense.product"), kwargs={"block": 3}, arch="sm_90a")


def test_what_a_factory_raises_is_kept():
    def factory():
        raise KeyError("tile")

    with pytest.raises(FrontendError, match="factory raised KeyError") as caught:
        lower(factory, arch="sm_90a")
    assert isinstance(caught.value.__cause__, KeyError)


def test_something_that_is_no_kernel():
    with pytest.raises(FrontendError, match="returned int, not a PrimFunc"):
        lower(lambda: 3, arch="sm_90a")


def test_an_unknown_architecture(kernels):
    with pytest.raises(FrontendError, match="unknown architecture 'hopper'"):
        lower(kernels("dense.product"), arch="hopper")


def test_an_unbound_symbolic_size_is_named_and_binding_it_works(kernels):
    import tilelang.language as T

    def dynamic():
        return kernels("dense.product")(M=T.dynamic("rows"))

    with pytest.raises(FrontendError, match=r"symbolic size 'rows'.*symbols=\{'rows': 4096\}"):
        lower(dynamic, arch="sm_90a")
    assert lower(dynamic, arch="sm_90a", symbols={"rows": 1000}).launch.grid == (4, 8, 1)


def test_an_unsupported_construct_names_itself_or_becomes_a_visible_node(kernels):
    with pytest.raises(UnknownStatement, match=r"clc_try_cancel.*not supported"):
        lower(kernels("pointwise.cancelling"), arch="sm_90a")
    g = lower(kernels("pointwise.cancelling"), arch="sm_90a", on_unknown="warn")
    assert any("clc_try_cancel" in w for w in g.meta["warnings"])
    assert "opaque" in [n.type for n in g.nodes_of(g.templates[0])]


def test_missing_metadata_names_tensor_shape_and_expression(kernels):
    with pytest.raises(FrontendError, match=r"owner\[by\].*tensor 'owner', shape \[4\]|used.*shape \[4\]"):
        lower(kernels("dense.experts"), arch="sm_90a")


def test_metadata_steers_the_classes_and_the_tiles(kernels):
    data = {"owner": np.array([0, 0, 2, 3], dtype=np.int32), "used": np.array([128, 128, 0, 64], dtype=np.int32)}
    g = lower(kernels("dense.experts"), arch="sm_90a", metadata=data)
    assert sorted(g.instance_counts()) == [2, 6]  # two columns of blocks: one idle row, three busy ones
    busy = int(np.argmax(g.instance_counts()))
    loads = [n for n in g.nodes_of(g.templates[busy]) if n.type == "tma_load" and n.reads[0].buffer.name == "W"]
    column = g.instances.columns[g.instances.template == busy][:, loads[0].reads[0].column[0]] + loads[0].reads[0].offset[0]
    assert set(column.tolist()) == {0, 3}


@pytest.mark.parametrize("wrong", [np.zeros(5, dtype=np.int32), np.zeros(4, dtype=np.float32)])
def test_metadata_of_the_wrong_shape_or_type(kernels, wrong):
    with pytest.raises(FrontendError, match="metadata 'owner'"):
        lower(kernels("dense.experts"), arch="sm_90a", metadata={"owner": wrong, "used": np.ones(4, dtype=np.int32)})


def test_errors_of_the_walk_name_the_statement_too(kernels):
    with pytest.raises(FrontendError, match=r"T.copy\(.*differs between threads|k in range|T.serial.*differs between threads"):
        lower(kernels("pointwise.uneven"), arch="sm_90a")
