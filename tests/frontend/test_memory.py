"""Shared memory after the merge, by rule, against what the full compile allocates."""

import pytest
from gtsim.frontend.tilelang.memory import plan_memory
from gtsim.frontend.tilelang.program import Storage

CASES = [("dense.product", "sm_90a", {}), ("dense.product", "sm_80", {"threads": 128}), ("dense.ring", "sm_90a", {}),
         ("softmax.attention", "sm_90a", {"bq": 64, "threads": 128}), ("pointwise.row_norm", "sm_90a", {"threads": 256})]


def buffer(index, nbytes):
    return Storage(index, f"s{index}", "shared", "int8", (nbytes,))


def test_buffers_that_live_at_different_times_share_bytes():
    a, b, c = buffer(0, 4096), buffer(1, 2048), buffer(2, 4096)
    plan = plan_memory({a: [1, 5], b: [2, 9], c: [6, 9]})
    assert plan.nbytes == 6144 and plan.offsets[c] == plan.offsets[a]
    assert plan.aliases() == {a: [c], c: [a]}


@pytest.mark.parametrize("path,arch,kwargs", CASES)
def test_merged_size_equals_the_compilers(kernels, graph, path, arch, kwargs):
    import tilelang

    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": arch})
    with target, tilelang.transform.PassContext(opt_level=3):
        module = tilelang.lower(kernels(path)(**kwargs), target=target).device_mod
    exact = max(int(f.attrs.get("dyn_shared_memory_buf", 0)) for _, f in module.functions.items())
    g = graph(path, arch, **kwargs)
    assert g.launch.smem_bytes - -(-8 * g.launch.barriers // 16) * 16 == exact
