"""The kernels of a decoder layer, in order, with the tensors that they pass on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import UsageError
from ..hwconfigs import Hardware
from . import tiles
from .config import ModelConfig
from .routing import balanced, check_counts, places_of, tiles_of

PHASES = ("prefill", "decode")
DTYPES = ("bfloat16", "float16")


@dataclass(frozen=True)
class Workload:
    """What the model is asked to do.

    Attributes:
        phase: "prefill" (all `kv` tokens of every sequence at once) or "decode" (the last one of `kv`).
        batch: sequences.
        kv: tokens of a sequence, the new ones included.
        dtype: of weights, activations and cache.
        routing: rows of each expert in each layer; balanced if None.
    """

    phase: str
    batch: int
    kv: int
    dtype: str = "bfloat16"
    routing: Sequence[int] | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for what is no workload."""
        if self.phase not in PHASES:
            raise UsageError(f"unknown phase {self.phase!r:.40}. Use prefill or decode.")
        if self.dtype not in DTYPES:
            raise UsageError(f"unknown dtype {self.dtype!r:.40}. Use {' or '.join(DTYPES)}.")
        for name, value, most in (("batch", self.batch, 4096), ("kv", self.kv, 1 << 20)):
            if not 1 <= value <= most:
                raise UsageError(f"{name}={value} is not between 1 and {most}.")

    @property
    def tokens(self) -> int:
        """New tokens of a sequence."""
        return self.kv if self.phase == "prefill" else 1

    @property
    def rows(self) -> int:
        """New tokens of all sequences."""
        return self.batch * self.tokens


@dataclass(frozen=True)
class Call:
    """One launch.

    Attributes:
        name: what the report calls it.
        kernel: "module:function" in gtsim.models.kernels.
        arguments: of the function.
        tensors: parameter of the kernel -> name of the tensor in the model.
        metadata: integer tensors that steer the kernel.
    """

    name: str
    kernel: str
    arguments: Mapping[str, Any]
    tensors: Mapping[str, str]
    metadata: Mapping[str, np.ndarray] = field(default_factory=dict)


def layer_calls(model: ModelConfig, work: Workload, hw: Hardware, layer: int) -> list[Call]:
    """The launches of layer number `layer`: from the residual stream `h` to itself."""
    feed = _experts if model.experts else _dense
    return [*_attention(model, work, hw, layer), *feed(model, work, hw, layer)]


def head_calls(model: ModelConfig, work: Workload, hw: Hardware) -> list[Call]:
    """Last norm and language-model head, for the last token of each sequence."""
    one = Workload("decode", work.batch, work.kv, work.dtype)
    return [
        _norm("final RMSNorm", model, one, "h", "final.norm"),
        _linear("LM head", model, one, hw, model.vocab_size, model.hidden_size,
                {"X": "x", "W": "lm_head", "R": "-", "Y": "logits"}),
    ]


def _norm(name: str, model: ModelConfig, work: Workload, source: str, weight: str) -> Call:
    arguments = {"M": work.rows, "N": model.hidden_size, "threads": tiles.row_threads(model.hidden_size), "dtype": work.dtype}
    return Call(name, "rmsnorm:rmsnorm", arguments, {"X": source, "G": weight, "Y": "x"})


def _linear(name: str, model: ModelConfig, work: Workload, hw: Hardware, columns: int, depth: int, tensors: Mapping[str, str],
            residual: bool = False) -> Call:
    tile = tiles.product(work.rows, columns, depth, hw)
    strip = {"strip": tiles.STRIP} if work.rows > tile["block_M"] else {}
    arguments = {"M": work.rows, "N": columns, "K": depth, "residual": residual, **tile, **strip, "dtype": work.dtype}
    return Call(name, "linear:linear", arguments, tensors)


def _attention(model: ModelConfig, work: Workload, hw: Hardware, layer: int) -> Iterator[Call]:
    heads, kv_heads, dim = model.num_attention_heads, model.num_key_value_heads, model.head_dim
    k, v = f"{layer}.k", f"{layer}.v"
    sizes = {"batch": work.batch, "heads": heads, "kv_heads": kv_heads, "dim": dim, "kv": work.kv, "dtype": work.dtype}
    yield _norm("RMSNorm, attention", model, work, "h", f"{layer}.norm1")
    yield _linear("QKV projection", model, work, hw, model.qkv_width, model.hidden_size,
                  {"X": "x", "W": f"{layer}.qkv", "R": "-", "Y": "qkv"})
    yield Call("RoPE and cache", "rope:rope", {**sizes, "tokens": work.tokens, "block": min(16, work.tokens)},
               {"QKV": "qkv", "C": "cos", "S": "sin", "Q": "q", "K": k, "V": v})
    if work.phase == "prefill":
        yield Call("attention", "prefill:prefill_attention", {**sizes, "tokens": work.tokens, **tiles.prefill(hw, dim)},
                   {"Q": "q", "K": k, "V": v, "Out": "a"})
    else:
        tile = tiles.decode(hw, work.batch, kv_heads, heads // kv_heads, work.kv, dim)
        yield Call("attention", "decode:decode_attention", {**sizes, **tile},
                   {"Q": "q", "K": k, "V": v, "Part": "part", "Lse": "lse"})
        yield Call("attention, join", "decode:combine",
                   {"batch": work.batch, "heads": heads, "dim": dim, "splits": tile["splits"], "dtype": work.dtype},
                   {"Part": "part", "Lse": "lse", "Out": "a"})
    yield _linear("output projection", model, work, hw, model.hidden_size, model.attention_width,
                  {"X": "a", "W": f"{layer}.o", "R": "h", "Y": "h1"}, residual=True)
    yield _norm("RMSNorm, FFN", model, work, "h1", f"{layer}.norm2")


def _dense(model: ModelConfig, work: Workload, hw: Hardware, layer: int) -> Iterator[Call]:
    rows, hidden, width = work.rows, model.hidden_size, model.intermediate_size
    tile = tiles.product(rows, width, hidden, hw, matrices=2)
    strip = {"strip": tiles.STRIP} if rows > tile["block_M"] else {}
    yield Call("gate, up, SiLU", "gated:gated", {"M": rows, "N": width, "K": hidden, **tile, **strip, "dtype": work.dtype},
               {"X": "x", "W": f"{layer}.gate_up", "Y": "f"})
    yield _linear("down projection", model, work, hw, hidden, width, {"X": "f", "W": f"{layer}.down", "R": "h1", "Y": "h"},
                  residual=True)


def _experts(model: ModelConfig, work: Workload, hw: Hardware, layer: int) -> Iterator[Call]:
    tokens, hidden, width, experts, top_k = (work.rows, model.hidden_size, model.moe_intermediate_size, model.experts,
                                             model.num_experts_per_tok)  # fmt: skip
    counts = balanced(tokens, top_k, experts) if work.routing is None else check_counts(work.routing, tokens, top_k, experts)
    rows, used, most = sum(counts), sum(n > 0 for n in counts), max(counts)
    source, place = places_of(counts, tokens, top_k)
    threads = tiles.row_threads(hidden)

    def grouped(name: str, kernel: str, columns: int, depth: int, matrices: int, tensors: Mapping[str, str]) -> Call:
        tile = tiles.product(most, columns, depth, hw, matrices=matrices, copies=used)
        steering = tiles_of(counts, tile["block_M"])
        arguments = {"rows": rows, "N": columns, "K": depth, "experts": experts, "tiles": len(steering["tile_rows"]), **tile}
        return Call(name, f"grouped:{kernel}", {**arguments, "dtype": work.dtype}, tensors, steering)

    yield _linear("router", model, work, hw, experts, hidden, {"X": "x", "W": f"{layer}.router", "R": "-", "Y": "scores"})
    yield Call("choice of experts", "routing:choose", {"M": tokens, "experts": experts, "top_k": top_k, "dtype": work.dtype},
               {"L": "scores", "P": "shares"})
    yield Call("rows by expert", "routing:gather",
               {"M": tokens, "rows": rows, "N": hidden, "threads": threads, "dtype": work.dtype},
               {"X": "x", "Y": "xe", "source": "source"}, {"source": source})
    yield grouped("experts: gate, up, SiLU", "grouped_gated", width, hidden, 2, {"X": "xe", "W": f"{layer}.gate_up", "Y": "fe"})
    yield grouped("experts: down", "grouped_linear", hidden, width, 1, {"X": "fe", "W": f"{layer}.down", "Y": "ye"})
    yield Call("sum of experts", "routing:scatter",
               {"M": tokens, "rows": rows, "N": hidden, "top_k": top_k, "threads": threads, "dtype": work.dtype},
               {"X": "ye", "P": "shares", "R": "h1", "Y": "h", "place": "place"}, {"place": place})
