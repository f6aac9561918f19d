"""A whole pass of small models: what adds up, what is read, and what stays in the L2 from launch to launch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from gtsim.models import ModelPrediction, Predictor, Workload, compulsory_bytes, load_model, memory_bytes, presets, shares
from gtsim.models.report import warnings_of

from gtsim.predictor import Options

SMALL = load_model({"name": "small", "hidden_size": 1024, "num_hidden_layers": 10, "num_attention_heads": 8,
                    "num_key_value_heads": 2, "intermediate_size": 2048, "vocab_size": 8192})  # fmt: skip
EXPERTS = load_model({"name": "experts", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "num_experts": 8,
                      "num_experts_per_tok": 2, "moe_intermediate_size": 256, "intermediate_size": 512,
                      "vocab_size": 4096})  # fmt: skip


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(Options(hw="h100_sxm"))


@pytest.fixture(scope="module")
def decoded(predictor: Predictor) -> ModelPrediction:
    return predictor.predict(SMALL, Workload("decode", 2, 512))


def by_name(made: ModelPrediction) -> dict[str, ModelPrediction]:
    return {step.name: step.result for step in (*made.layer, *made.head)}


def test_the_pass_is_its_layers_gaps_and_head(decoded: ModelPrediction) -> None:
    launches = [s.result.time_us for s in decoded.layer]
    assert decoded.layer_us == pytest.approx(sum(launches) + 9 * decoded.gap_us)
    assert decoded.time_us == pytest.approx(10 * decoded.layer_us + decoded.head_us)
    assert sum(shares(decoded).values()) == pytest.approx(decoded.time_us)
    assert decoded.tokens_per_s == pytest.approx(2e6 / decoded.time_us)
    assert len(decoded.layer) == 9 and len(decoded.head) == 2


def test_no_pass_is_faster_than_reading_the_weights(decoded: ModelPrediction) -> None:
    """2 bytes a weight: QKV 1024 x 1536, output, two and one of 1024 x 2048, a head of 8192 tokens, and the cache of 2 x 512."""
    layer = 1024 * 1536 + 1024 * 1024 + 3 * 1024 * 2048 + 2 * 1024
    cache = 2 * 2 * 512 * 2 * 128
    assert compulsory_bytes(SMALL, decoded.work) == 2 * (10 * (layer + cache) + 1024 * 8193)
    assert decoded.time_us > decoded.floor_us == pytest.approx(compulsory_bytes(SMALL, decoded.work) / 3350e3)


def test_a_layer_finds_activations_in_the_l2_and_no_weights(decoded: ModelPrediction) -> None:
    r = by_name(decoded)
    weights = {"QKV projection": 1024 * 1536, "output projection": 1024 * 1024, "gate, up, SiLU": 2 * 1024 * 2048,
               "down projection": 1024 * 2048, "LM head": 1024 * 8192}  # fmt: skip
    for name, count in weights.items():
        assert r[name].traffic.dram_read_bytes == pytest.approx(2 * count, rel=0.01), name
    assert r["RMSNorm, attention"].traffic.dram_read_bytes == 2 * 1024  # its own weights
    assert r["attention, join"].traffic.dram_read_bytes == 0
    assert r["attention"].traffic.dram_read_bytes <= 2 * 2 * 2 * 512 * 2 * 128


def test_without_carried_contents_every_launch_starts_cold(decoded: ModelPrediction) -> None:
    cold = Predictor(Options(hw="h100_sxm", overrides={"l2.carried": False})).predict(SMALL, decoded.work)
    assert by_name(cold)["RMSNorm, attention"].traffic.dram_read_bytes > 2 * 1024
    assert cold.time_us > decoded.time_us


def test_launches_of_one_shape_are_lowered_once(predictor: Predictor, decoded: ModelPrediction) -> None:
    before, simulated = len(predictor._graphs), len(predictor._results)
    assert predictor.predict(SMALL, decoded.work).time_us == decoded.time_us
    assert len(predictor._results) == simulated
    predictor.predict(SMALL, replace(decoded.work, kv=1024))
    assert len(predictor._graphs) - before <= 3  # RoPE, attention and, if it splits in another way, the join


@pytest.mark.parametrize(("hw", "phase"), [("h100_sxm", "prefill"), ("a100_sxm", "prefill"), ("a100_sxm", "decode")])
def test_both_architectures_run_both_phases(hw: str, phase: str) -> None:
    made = Predictor(Options(hw=hw)).predict(SMALL, Workload(phase, 1, 320, dtype="float16"))
    r, rows = by_name(made), 320 if phase == "prefill" else 1
    assert made.time_us > made.floor_us
    assert r["QKV projection"].flops >= 2 * rows * 1024 * 1536
    assert made.work.rows == rows


def test_experts_read_only_what_has_rows(predictor: Predictor) -> None:
    """One token with two of eight experts; then 16 tokens that all go to the same two."""
    one = predictor.predict(EXPERTS, Workload("decode", 1, 128))
    hot = predictor.predict(EXPERTS, Workload("decode", 16, 128, routing=[16, 16] + [0] * 6))
    even = predictor.predict(EXPERTS, Workload("decode", 16, 128))
    expert = 2 * 512 * 256 * 2
    reads = [by_name(m)["experts: gate, up, SiLU"].traffic.dram_read_bytes for m in (one, hot, even)]
    assert reads == pytest.approx([2 * expert, 2 * expert, 8 * expert], rel=0.02)
    assert compulsory_bytes(EXPERTS, hot.work) < compulsory_bytes(EXPERTS, even.work)
    assert len(one.layer) == 13
    assert all(m.time_us > m.floor_us for m in (one, hot, even))


def test_a_model_that_does_not_fit_says_so(decoded: ModelPrediction) -> None:
    assert warnings_of(decoded) == []
    large = replace(decoded, model=load_model("llama3-405b"))
    assert memory_bytes(large.model, large.work) > 80e9
    assert "812 GB, and h100_sxm has 80.0 GB" in warnings_of(large)[0]


def test_the_result_is_plain_json(decoded: ModelPrediction) -> None:
    plain = json.loads(json.dumps(decoded.to_dict(), allow_nan=False))
    assert plain["time_us"] == decoded.time_us and plain["layers"] == 10
    assert [s["name"] for s in plain["layer"]] == [s.name for s in decoded.layer]


def test_the_page_names_every_field_and_every_preset(decoded: ModelPrediction) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    plain = decoded.to_dict()
    assert not [key for key in plain if f"`{key}`" not in page and f"`{key}[]`" not in page]
    assert not [key for key in plain["layer"][0] if f"`.{key}`" not in page and f"[].{key}`" not in page]
    assert ", ".join(["llama3-8b", "llama3-70b", "llama3-405b", "mixtral-8x7b", "qwen3-30b-a3b"]) in page
    assert len(presets()) == 5
