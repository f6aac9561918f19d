"""The shape of a decoder-only model, read from a configuration as Hugging Face writes it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import UsageError

Count = Annotated[int, Field(gt=0, le=2**24, strict=True)]

#: Keys that change what a layer computes in a way that is not modelled: key -> what is left out.
_LEFT_OUT = {
    "sliding_window": "attention to a window only",
    "n_shared_experts": "shared experts",
    "shared_expert_intermediate_size": "the shared expert",
    "first_k_dense_replace": "dense layers among the expert layers",
    "mlp_only_layers": "dense layers among the expert layers",
    "quantization_config": "quantised weights",
}
#: Keys of models whose attention is another one.
_REFUSED = {"kv_lora_rank": "latent attention (MLA)", "ssm_cfg": "state-space layers"}
#: Entries of `layer_types` that are modelled, or the attention of which `sliding_window` names as left out.
_LAYER_TYPES = ("full_attention", "sliding_attention")


class ModelConfig(BaseModel):
    """A decoder-only transformer: pre-norm, rotary embedding, grouped key and value heads, gated SiLU or a mixture of experts."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = Field(default="model", description="what reports call it")
    hidden_size: Count = Field(description="width of the residual stream")
    num_hidden_layers: Count = Field(description="decoder layers")
    num_attention_heads: Count = Field(description="query heads")
    num_key_value_heads: Count = Field(default=0, validate_default=False, description="key and value heads; as many as query "
                                       "heads if absent")
    head_dim: Count = Field(default=0, validate_default=False, description="width of a head; hidden_size / num_attention_heads "
                            "if absent")
    intermediate_size: Count = Field(description="width of the feed-forward block")
    vocab_size: Count = Field(description="tokens that the head scores")
    experts: Annotated[int, Field(ge=0, le=4096, strict=True)] = Field(
        default=0, validation_alias=AliasChoices("num_local_experts", "num_experts", "n_routed_experts", "experts"),
        description="experts of a layer; 0: a dense feed-forward block")
    num_experts_per_tok: Annotated[int, Field(ge=0, le=64, strict=True)] = Field(default=0, description="experts of a token")
    moe_intermediate_size: Count = Field(default=0, validate_default=False, description="width of an expert; intermediate_size "
                                         "if absent")
    left_out: tuple[str, ...] = Field(default=(), description="what the configuration has and the prediction has not")

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise ValueError("a configuration is an object with keys such as hidden_size")
        inner = data.get("text_config")
        if isinstance(inner, Mapping) and "hidden_size" not in data:
            data = inner
        if found := next((why for key, why in _REFUSED.items() if data.get(key)), None):
            raise ValueError(f"{found} is not modelled")
        types = data.get("layer_types") or ()
        if isinstance(types, (list, tuple)) and (other := next((t for t in types if t not in _LAYER_TYPES), None)) is not None:
            raise ValueError(f"layers of type {other!r:.40} (layer_types) are not modelled")
        # null means absent
        out = {k: v for k, v in data.items() if v is not None}
        off = {"sliding_window"} if out.get("use_sliding_window") is False else set()
        out["left_out"] = tuple(why for key, why in _LEFT_OUT.items() if out.get(key) and key not in off)
        return out

    @model_validator(mode="after")
    def _complete(self) -> ModelConfig:
        heads = self.num_attention_heads
        if not self.num_key_value_heads:
            object.__setattr__(self, "num_key_value_heads", heads)
        if not self.head_dim:
            if self.hidden_size % heads:
                raise ValueError(f"hidden_size = {self.hidden_size} is not divisible by num_attention_heads = {heads}; give "
                                 "head_dim")
            object.__setattr__(self, "head_dim", self.hidden_size // heads)
        if heads % self.num_key_value_heads:
            raise ValueError(f"num_attention_heads = {heads} is not divisible by num_key_value_heads = "
                             f"{self.num_key_value_heads}")
        if self.head_dim % 32 or self.head_dim > 256:
            raise ValueError(f"head_dim = {self.head_dim} is not one of 32, 64, ... 256")
        for key in ("hidden_size", "intermediate_size"):
            if getattr(self, key) % 64:
                raise ValueError(f"{key} = {getattr(self, key)} is not divisible by 64")
        if self.experts:
            if not self.moe_intermediate_size:
                object.__setattr__(self, "moe_intermediate_size", self.intermediate_size)
            if not 1 <= self.num_experts_per_tok <= self.experts:
                raise ValueError(f"num_experts_per_tok = {self.num_experts_per_tok} is not between 1 and the {self.experts} "
                                 "experts")
            if self.moe_intermediate_size % 64:
                raise ValueError(f"moe_intermediate_size = {self.moe_intermediate_size} is not divisible by 64")
        return self

    @property
    def qkv_width(self) -> int:
        """Columns of the joint projection to queries, keys and values."""
        return (self.num_attention_heads + 2 * self.num_key_value_heads) * self.head_dim

    @property
    def attention_width(self) -> int:
        """Columns of the attention's result."""
        return self.num_attention_heads * self.head_dim

    @property
    def layer_parameters(self) -> int:
        """Weights of one layer, all experts counted."""
        h = self.hidden_size
        width = self.experts * self.moe_intermediate_size if self.experts else self.intermediate_size
        return h * self.qkv_width + self.attention_width * h + 3 * h * width + h * self.experts + 2 * h

    @property
    def head_parameters(self) -> int:
        """Weights of the last norm and the language-model head."""
        return self.hidden_size * (self.vocab_size + 1)

    @property
    def parameters(self) -> int:
        """Weights of the model, with an embedding of its own."""
        return self.num_hidden_layers * self.layer_parameters + self.head_parameters + self.hidden_size * self.vocab_size

    def cache_elements(self, batch: int, kv: int) -> int:
        """Elements of the keys and values of all layers."""
        return 2 * self.num_hidden_layers * batch * kv * self.num_key_value_heads * self.head_dim


def presets() -> list[str]:
    """Names of the models that come with gtsim."""
    return sorted(p.name[:-5] for p in resources.files(__package__).joinpath("presets").iterdir() if p.name.endswith(".json"))


def load_model(name: str | Path | Mapping[str, Any] | ModelConfig) -> ModelConfig:
    """A preset by name, a configuration file by path, or a configuration.

    Raises:
        UsageError: no such model or file, or a configuration that lacks something; names the key and what to do.
    """
    if isinstance(name, ModelConfig):
        return name
    if isinstance(name, Mapping):
        return _checked(dict(name), str(name.get("name", "model")))
    text = str(name)
    if text in presets():
        file = resources.files(__package__).joinpath("presets").joinpath(f"{text}.json")
        return _checked({**json.loads(file.read_text(encoding="utf-8")), "name": text}, text)
    path = Path(text)
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        near = difflib.get_close_matches(text, presets(), n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Models are {', '.join(presets())}."
        raise UsageError(f"{text}: no such model and no such file. {hint} Any Hugging Face config.json does as well.")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}: not JSON: {error.msg}.") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise UsageError(f"{path}: no configuration: {str(error).partition(';')[0]}.") from None
    if isinstance(data, dict):
        data = {**data, "name": path.parent.resolve().name if path.name == "config.json" else path.stem}
    return _checked(data, str(path))


def _checked(data: Any, where: str) -> ModelConfig:
    try:
        return ModelConfig.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        said = str(first["msg"]).removeprefix("Value error, ")
        if first["type"] == "missing":
            said = f"missing: {ModelConfig.model_fields[key].description}"
        elif key:
            said = f"{said[0].lower()}{said[1:]}, got {first['input']!r:.40}"
        raise UsageError(f"{where}: {key + ': ' if key else ''}{said}.") from None
