"""The launches of a layer: how they hang together, which tiles they take, and how rows are routed."""

from __future__ import annotations

import numpy as np
import pytest
from gtsim.hwconfigs import load_hardware
from gtsim.models import Workload, head_calls, layer_calls, load_model, presets
from gtsim.models.routing import balanced, check_counts, places_of, tiles_of
from gtsim.models.tiles import decode, product

from gtsim.errors import UsageError

#: Parameters of the kernels that are written; all others are read.
OUTPUTS = {"Y", "Out", "Part", "Lse", "P"}


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("name", presets())
def test_every_input_is_a_weight_or_was_written_before(name: str, phase: str) -> None:
    model, work, hw = load_model(name), Workload(phase, 2, 256), load_hardware("h100_sxm")
    there = {"h", "-", "cos", "sin", "source", "place", "lm_head", "final.norm"}
    weights = {f"0.{w}" for w in ("norm1", "qkv", "o", "norm2", "gate_up", "down", "router", "k", "v")}
    for call in layer_calls(model, work, hw, 0) + head_calls(model, work, hw):
        outputs = OUTPUTS
        if call.kernel == "rope:rope":
            outputs = {"Q", "K", "V"}
        elif call.kernel == "routing:scatter":
            outputs = {"Y"}
        read = {tensor for parameter, tensor in call.tensors.items() if parameter not in outputs}
        assert read <= there | weights, call.name
        there |= {tensor for parameter, tensor in call.tensors.items() if parameter in outputs}
    assert {"h", "logits"} <= there


def test_layers_share_activations_and_no_weights() -> None:
    model, work, hw = load_model("llama3-8b"), Workload("decode", 1, 256), load_hardware("h100_sxm")
    first, second = ({t for c in layer_calls(model, work, hw, n) for t in c.tensors.values()} for n in (0, 1))
    assert {t for t in first & second if t[0].isdigit()} == set()
    assert {"h", "x", "qkv", "a", "f"} <= first & second


@pytest.mark.parametrize("hw", ["a100_sxm", "h100_sxm"])
@pytest.mark.parametrize("rows", [1, 3, 16, 17, 64, 65, 128, 2048, 16384])
@pytest.mark.parametrize("matrices", [1, 2])
def test_tiles_fit_the_gpu_and_cover_the_rows(rows: int, matrices: int, hw: str) -> None:
    gpu = load_hardware(hw)
    for columns, depth in ((6144, 4096), (1024, 1024), (53248, 16384), (8, 4096), (192, 64)):
        t = product(rows, columns, depth, gpu, matrices=matrices)
        stages = (t["block_M"] + matrices * t["block_N"]) * t["block_K"] * 2 * t["num_stages"]
        assert stages <= gpu.sm.smem_per_cta_max_bytes
        assert t["block_M"] >= min(rows, 64)
        assert t["block_N"] * matrices >= 32


def test_a_low_product_gives_every_sm_a_tile_where_it_can() -> None:
    gpu = load_hardware("h100_sxm")
    assert product(1, 128 * 1024, 4096, gpu)["block_N"] == 128
    assert -(-6144 // product(1, 6144, 4096, gpu)["block_N"]) >= 132


@pytest.mark.parametrize(("batch", "kv"), [(1, 64), (1, 1024), (1, 8192), (4, 2048), (8, 1024), (64, 512)])
def test_no_split_of_the_cache_leaves_one_sm_fewer_tiles(batch: int, kv: int) -> None:
    gpu, heads, tiles = load_hardware("h100_sxm"), 8, -(-kv // 64)

    def longest(splits: int) -> int:
        return -(-batch * heads * splits // gpu.chip.sm_count) * (-(-tiles // splits) + 1)

    chosen = decode(gpu, batch, heads, 4, kv, 128)["splits"]
    assert longest(chosen) == min(longest(s) for s in range(1, min(tiles, 64) + 1))


@pytest.mark.parametrize(("tokens", "top_k", "experts"), [(1, 2, 8), (7, 3, 5), (512, 8, 128)])
def test_balanced_routing_gives_each_token_distinct_experts(tokens: int, top_k: int, experts: int) -> None:
    counts = balanced(tokens, top_k, experts)
    assert sum(counts) == tokens * top_k and max(counts) - min(counts) <= 1
    source, place = places_of(counts, tokens, top_k)
    expert = np.repeat(np.arange(experts), counts)
    assert sorted(place.reshape(-1).tolist()) == list(range(tokens * top_k))
    for token in range(tokens):
        assert (source[place[token]] == token).all()
        assert len(set(expert[place[token]].tolist())) == top_k


def test_row_tiles_belong_to_one_expert_and_cover_its_rows() -> None:
    tiles = tiles_of([5, 0, 17, 16], 16)
    assert tiles["tile_expert"].tolist() == [0, 2, 2, 3]
    assert tiles["tile_start"].tolist() == [0, 5, 21, 22]
    assert tiles["tile_rows"].tolist() == [5, 16, 1, 16]


@pytest.mark.parametrize(("counts", "said"), [([1, 1], "2 counts"), ([2, 2, 2], "make 4"), ([4, 0, 0], "gives 4 rows")])
def test_a_routing_that_cannot_be_is_refused(counts: list[int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_counts(counts, tokens=2, top_k=2, experts=3)


@pytest.mark.parametrize(("changes", "said"), [({"phase": "train"}, "prefill or decode"), ({"batch": 0}, "batch=0"),
                                               ({"kv": 0}, "kv=0"), ({"dtype": "fp8"}, "bfloat16")])  # fmt: skip
def test_bad_workloads_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Workload(**{"phase": "decode", "batch": 1, "kv": 64, **changes})  # type: ignore[arg-type]
