"""What gtsim computes by rule against what TileLang's own passes decide, for every kernel we have on both architectures."""

import collections
import dataclasses
import functools
import importlib.util
import pathlib

import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent
SMALL = {"M": 512, "N": 512, "K": 512}
ATTENTION = {"batch": 1, "heads": 2, "kv_heads": 2, "seq_q": 512, "seq_kv": 512}
DECODE = {"batch": 2, "heads": 8, "kv_heads": 2, "seq_kv": 1024, "splits": 2}
NO_ROLES = {"tl.disable_warp_specialized": True}
BOTH, HOPPER = ("sm_90a", "sm_80"), ("sm_90a",)

#: Facts that cannot agree; docs/deviations.md says why.
BETWEEN_ROLES = ["added barriers of the block outside of loops: by rule 1, by the compiler 2"]

#: (kernel, architectures, arguments, pass configs, known differences)
KERNELS = [
    ("../../../examples/elementwise.add_relu", BOTH, {"M": 512, "N": 512}, {}, []),
    ("../../../examples/elementwise.add_relu", BOTH, {"M": 512, "N": 512, "staged": True}, {}, []),
    ("../../../examples/flash_attention.flash_attention", BOTH, ATTENTION, {}, []),
    ("../../../examples/flash_attention.flash_attention", BOTH, {**ATTENTION, "causal": True}, {}, []),
    ("../../../examples/gemm.gemm", BOTH, SMALL, {}, []),
    ("../../../examples/gemm.gemm", HOPPER, SMALL, NO_ROLES, []),
    ("../../../examples/gemm.gemm", HOPPER, SMALL, {"tl.disable_tma_lower": True}, []),
    ("../../../examples/gemm.gemm", BOTH, {**SMALL, "num_stages": 0}, {}, []),
    ("../../../examples/gemm.gemm", HOPPER, {**SMALL, "threads": 128}, {}, []),
    ("../../../examples/gemm_cluster.gemm_cluster", HOPPER, SMALL, {},
     ["added barriers of the block outside of loops: by rule 0, by the compiler 1"]),
    ("../../../examples/gemm_fp8.gemm_fp8", HOPPER, SMALL, {}, []),
    ("../../../examples/gemm_fp8.gemm_fp8", HOPPER, {**SMALL, "promote_every": 2}, {}, []),
    ("../../../examples/gemm_silu.gemm_silu", BOTH, SMALL, {}, []),
    ("../../../examples/gemm_ws_manual.gemm_ws_manual", HOPPER, SMALL, {}, BETWEEN_ROLES),
    ("../../../examples/gemm_ws_manual.gemm_ws_manual", HOPPER, SMALL, {"tl.disable_thread_storage_sync": True}, []),
    ("../../../examples/moe_grouped_gemm.moe_gemm", BOTH, {"tokens": 64}, {}, []),
    ("../../../examples/rmsnorm.rmsnorm", BOTH, {"M": 64, "N": 4096}, {}, []),
    ("../../../examples/rmsnorm.rmsnorm", BOTH, {"M": 64, "N": 4096, "chunk": 1024}, {}, []),
    ("pointwise.staged_by_tma", HOPPER, {}, {}, []),
    ("pointwise.staged_by_tma", HOPPER, {"width": 512}, {}, []),
    ("gemm_dequant_int4.make", BOTH, SMALL, {}, []),
    ("gemm_manual_ws.make", HOPPER, SMALL, {}, BETWEEN_ROLES),
    ("gemm_persistent.make", BOTH, {"M": 1024, "N": 1024, "K": 256, "workers": 24}, {}, []),
    ("gemm_persistent.make", HOPPER, {"M": 1024, "N": 1024, "K": 256, "workers": 24, "use_primitive": True}, {}, []),
    ("gemm_splitk.make", BOTH, {"M": 256, "N": 256, "K": 2048}, {}, []),
    ("gemm_streamk.make", BOTH, {"M": 256, "N": 512, "K": 1024, "workers": 12}, {}, []),
    ("gqa_decode_split.make", BOTH, DECODE, {}, []),
    ("gqa_decode_split.make", HOPPER, {**DECODE, "varlen": True}, {}, []),
    ("gqa_decode_split.make_combine", BOTH, {"batch": 2}, {}, []),
    ("grouped_gemm.make", BOTH, {"tokens": 256, "experts": 2, "N": 512, "K": 512}, {}, []),
    ("mla_decode.make", HOPPER, {"batch": 2, "seq_kv": 512}, {}, []),
]
CASES = [pytest.param(path, arch, kwargs, configs, known, id="-".join([path.split("/")[-1], arch, *kwargs, *configs]))
         for path, arches, kwargs, configs, known in KERNELS for arch in arches]


def metadata_of(path, kwargs, module):
    if path.startswith("grouped_gemm"):
        tiles = kwargs["tokens"] // 128 + kwargs["experts"]
        return {"tile_expert": np.arange(tiles, dtype=np.int32) % kwargs["experts"], "tile_row": np.zeros(tiles, dtype=np.int32),
                "tile_rows": np.full(tiles, 128, dtype=np.int32)}
    if "moe" in path:
        return module.tiles_of(module.routing(kwargs["tokens"]))
    return {"cache_len": np.array([1024, 700], dtype=np.int32)} if "varlen" in kwargs else {}


@functools.cache
def module_of(name):
    spec = importlib.util.spec_from_file_location(f"exact_{pathlib.Path(name).name}", HERE / "kernels" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def nodes_of(graph):
    """How often each node type with its attributes occurs in each template."""
    def name(node):
        return node.type, node.source, repr(sorted(node.attrs.items()))

    return [collections.Counter(map(name, graph.nodes_of(t))) for t in graph.templates]


@pytest.mark.parametrize("path,arch,kwargs,configs,known", CASES)
def test_rules_say_what_the_compiler_decides(monkeypatch, path, arch, kwargs, configs, known):
    pytest.importorskip("tilelang")
    from gtsim.frontend import capture, lower_captured

    monkeypatch.setenv("GTSIM_NVCC", "none")
    name, factory = path.rsplit(".", 1)
    module = module_of(name)
    metadata = metadata_of(path.split("/")[-1], kwargs, module)
    captured = capture(lambda: getattr(module, factory)(**kwargs), arch, configs, detail="exact", cache=False)
    exact = lower_captured(captured, metadata=metadata, check=False)
    fast = lower_captured(dataclasses.replace(captured, exact=None), metadata=metadata, check=False)

    assert exact.meta["facts_differ"] == known
    assert set(exact.meta["facts_unknown"]) <= {"registers"}
    facts = captured.exact.kernels[0]
    assert exact.meta["facts_compared"] >= 1 + len([o for o in facts.operations if o.tensor_core or o.tma])
    # The graphs are the same, so the comparison left nothing out that the graph takes from the facts.
    assert exact.launch == fast.launch
    assert exact.buffers == fast.buffers
    assert nodes_of(exact) == nodes_of(fast)
    assert (exact.meta["detail"], fast.meta["detail"]) == ("exact", "fast")
