"""The ways to hand a kernel over: factories, PrimFuncs, lazy, eager and autotuned objects."""

import pytest
from gtsim.frontend import capture, lower, lower_captured


@pytest.fixture(scope="module")
def factory(kernels):
    product = kernels("dense.product")

    def factory(M, N, K, bm=128):
        return product(M, N, K, bm=bm)

    return factory


def test_a_lazy_object_equals_its_factory(factory):
    import tilelang

    lazy = tilelang.jit(out_idx=[-1])(factory)
    assert lower(lazy, (512, 512, 256), arch="sm_90a").total_nodes == lower(factory, (512, 512, 256), arch="sm_90a").total_nodes


def test_pass_configs_of_the_object_apply_and_given_ones_win(factory):
    import tilelang

    quiet = tilelang.jit(pass_configs={"tl.disable_warp_specialized": True})(factory)
    assert lower(quiet, (512, 512, 256), arch="sm_90a").meta["roles"] == ["all"]
    loud = lower(quiet, (512, 512, 256), arch="sm_90a", pass_configs={"tl.disable_warp_specialized": False})
    assert "producer" in loud.meta["roles"]


def test_an_autotuned_object_uses_its_first_configuration_unless_one_is_given(factory):
    import tilelang

    tuned = tilelang.autotune(configs=[{"bm": 64}, {"bm": 128}])(tilelang.jit(factory))
    assert lower(tuned, (512, 512, 256), arch="sm_90a").launch.grid == (4, 8, 1)
    assert lower(tuned, (512, 512, 256), {"bm": 128}, arch="sm_90a").launch.grid == (4, 4, 1)


def test_capture_and_graph_can_be_timed_apart(factory):
    captured = capture(lambda: factory(512, 512, 256), "sm_90")
    g = lower_captured(captured, name="mine")
    assert (captured.arch, g.launch.arch, g.name) == ("sm_90a", "sm_90a", "mine")
    assert set(g.meta["seconds"]) == {"capture", "graph"} and g.meta["seconds"]["graph"] > 0
    assert g.meta["tilelang"] == captured.version


def test_lowering_is_repeatable(factory):
    from gtsim.graph import graph_hash

    captured = capture(lambda: factory(512, 512, 256), "sm_90a")
    a, b = lower_captured(captured), lower_captured(captured)
    a.meta["seconds"] = b.meta["seconds"] = {}
    assert graph_hash(a) == graph_hash(b)
