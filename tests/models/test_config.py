"""Model configurations: presets, Hugging Face files, and what is wrong with bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gtsim.models import ModelConfig, load_model, presets

from gtsim.errors import UsageError

PLAIN: dict[str, Any] = {"hidden_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8, "intermediate_size": 1024,
                         "vocab_size": 1000}  # fmt: skip


def made(**changes: Any) -> ModelConfig:
    return load_model({k: v for k, v in {**PLAIN, **changes}.items() if v != "absent"})


@pytest.mark.parametrize(
    ("name", "billions"),
    [("llama3-8b", 8.03), ("llama3-70b", 70.6), ("llama3-405b", 405.9), ("mixtral-8x7b", 46.7), ("qwen3-30b-a3b", 30.5)],
)
def test_presets_have_the_parameters_that_their_makers_state(name: str, billions: float) -> None:
    assert name in presets()
    assert load_model(name).parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_what_is_absent_follows_from_the_rest() -> None:
    config = made(head_dim=None, torch_dtype="bfloat16", rope_theta=1e6)
    assert (config.num_key_value_heads, config.head_dim, config.experts) == (8, 64, 0)
    assert made(num_local_experts=4, num_experts_per_tok=2).moe_intermediate_size == 1024
    assert made(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128).moe_intermediate_size == 128


def test_a_configuration_inside_another_is_found() -> None:
    assert load_model({"model_type": "wrapper", "text_config": PLAIN}).hidden_size == 512


def test_what_is_not_modelled_is_said() -> None:
    assert made(sliding_window=4096).left_out == ("attention to a window only",)
    assert made(sliding_window=4096, use_sliding_window=False).left_out == ()
    assert made(n_shared_experts=1, num_experts=4, num_experts_per_tok=1).left_out == ("shared experts",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocab_size": "absent"}, "vocab_size: missing: tokens that the head scores"),
        ({"num_attention_heads": 7}, "hidden_size = 512 is not divisible by num_attention_heads = 7; give head_dim"),
        ({"num_key_value_heads": 3}, "num_attention_heads = 8 is not divisible by num_key_value_heads = 3"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: input should be greater than 0, got 0"),
        ({"hidden_size": "512"}, "hidden_size: input should be a valid integer, got '512'"),
        ({"head_dim": 72}, "head_dim = 72 is not one of 32, 64, ... 256"),
        ({"intermediate_size": 1000}, "intermediate_size = 1000 is not divisible by 64"),
        ({"num_local_experts": 4}, "num_experts_per_tok = 0 is not between 1 and the 4 experts"),
        ({"kv_lora_rank": 512}, "latent attention (MLA) is not modelled"),
        ({"layer_types": ["full_attention", "linear_attention"]},
         "layers of type 'linear_attention' (layer_types) are not modelled"),
        ({"num_local_experts": "8"}, "num_local_experts: input should be a valid integer, got '8'"),
    ],
)
def test_a_bad_configuration_is_one_sentence_with_the_key(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        made(**changes)
    assert str(error.value) == f"model: {said}."


def test_files_and_names(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(PLAIN))
    assert load_model(folder).name == load_model(folder / "config.json").name == "my-model"
    (tmp_path / "bad.json").write_text('{\n "hidden_size": 512,\n}')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "digits.json").write_text('{"hidden_size": ' + "9" * 5000 + "}")
    for name, said in (
        (tmp_path / "deep.json", "deep.json: no configuration"),
        (tmp_path / "digits.json", "digits.json: no configuration"),
        ("lama3-8b", "lama3-8b: no such model and no such file. Did you mean llama3-8b?"),
        (tmp_path / "bad.json", "bad.json:3: not JSON"),
        (tmp_path / "list.json", "a configuration is an object with keys"),
    ):
        with pytest.raises(UsageError, match=r".*") as error:
            load_model(name)
        assert said in str(error.value)
