"""Tables of TileLang's own benchmarks on an H800: the best of what its autotuner tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..cases import Case, Measured, NotBuilt, Plan, Work
from ..inputs import Inputs
from ..registry import suite
from ..search import Space, grid, searched

GEMM = ("kernel", "dtype", "m", "n", "k", "latency_us")
ATTENTION = ("kernel", "phase", "batch", "heads_q", "heads_kv", "seq_q", "seq_kv", "dim_qk", "dim_v", "causal", "latency_us")
SCAN = ("kernel", "batch", "heads", "groups", "seq", "chunk", "dim", "dstate", "latency_us")
FLUSHED = "flushed before every run"

#: Points of the benchmark's own space that fill an SM with whole rows of wgmma for each consumer.
GEMM_SPACE: tuple[dict[str, Any], ...] = (
    {"block_M": 128, "block_N": 256, "num_stages": 3, "threads": 256},
    {"block_M": 256, "block_N": 128, "num_stages": 3, "threads": 256},
    {"block_M": 128, "block_N": 256, "num_stages": 2, "threads": 256},
    {"block_M": 128, "block_N": 128, "num_stages": 3, "threads": 256},
    {"block_M": 128, "block_N": 128, "num_stages": 3, "threads": 128},
    {"block_M": 64, "block_N": 256, "num_stages": 3, "threads": 128},
    {"block_M": 64, "block_N": 128, "num_stages": 3, "threads": 128},
)
ATTENTION_SPACE: Space = {"block_M": (128, 64), "block_N": (128, 64), "num_stages": (2, 1)}

NOTES = {
    "gemm-fp16": "gemm_pipelined, block_K 64, panels of ten rows of tiles; the space is GEMM_SPACE of the suite's file.",
    "gemm-fp8": "as gemm-fp16 with block_K 128, 16-bit results.",
    "attention-sink-64": "attention without the sink, which adds one term to each row's sum; space ATTENTION_SPACE, a warpgroup "
                         "for each 64 rows.",
    "attention-sink-128": "as attention-sink-64.",
}


@suite("h800-tilelang", "tables of TileLang's benchmarks on an H800, autotuned",
       truth="From TileLang's README files at a35008a; clock not locked, L2 flushed, the configuration found by its autotuner "
             "and not stated. One clock factor a table.",
       stands_for="The best configuration of a stated search space of a kernel of ours stands for each row.", family_notes=NOTES)
def cases(inputs: Inputs) -> Iterator[Case]:
    """Every row of TileLang's; rows of other libraries are not ours."""
    yield from _gemm(inputs, "gemm_fp16_h800_tilelang.csv", "gemm-fp16", "float16", "float16", 64)
    yield from _gemm(inputs, "gemm_fp8_h800_tilelang.csv", "gemm-fp8", "float8_e4m3fn", "bfloat16", 128)
    yield from _attention(inputs)
    yield from _scan(inputs)


def _gemm(inputs: Inputs, file: str, family: str, dtype: str, out: str, block_K: int) -> Iterator[Case]:
    size = 1 if dtype.startswith("float8") else 2
    choices = [("gemm_pipelined", {**point, "block_K": block_K, "panel": 10}) for point in GEMM_SPACE]
    for row in inputs.rows(file, GEMM):
        if not row["kernel"].startswith("tilelang"):
            continue
        m, n, k = (row.integer(c) for c in "mnk")
        yield Case(f"{family}--{m}x{n}x{k}", family, "h800_sxm", Measured(row.positive("latency_us"), cache=FLUSHED),
                   Work(2.0 * m * n * k, float(size * (m + n) * k + 2 * m * n), dtype),
                   _later(choices, inputs, M=m, N=n, K=k, dtype=dtype, out_dtype=out), table=family, note=NOTES[family])


def _later(choices: Sequence[tuple[str, dict[str, Any]]], inputs: Inputs, **arguments: Any) -> Any:
    return lambda: searched(choices, inputs.candidates, **arguments)


def _attention(inputs: Inputs) -> Iterator[Case]:
    for row in inputs.rows("attention_sink_bf16_h800_tilelang.csv", ATTENTION):
        if not row["kernel"].startswith("tilelang"):
            continue
        batch, heads, kv, q, keys, dim = (row.integer(c) for c in ATTENTION[2:8])
        causal = row["causal"] == "1"
        family = f"attention-sink-{dim}"
        choices = [("attention", {**point, "threads": 2 * point["block_M"]}) for point in grid(ATTENTION_SPACE)]
        pairs = batch * heads * q * keys * (0.5 if causal else 1.0)
        yield Case(f"{family}--b{batch}-h{heads}-{kv}-{q}x{keys}", family, "h800_sxm",
                   Measured(row.positive("latency_us"), cache=FLUSHED),
                   Work(4.0 * pairs * dim, 2.0 * batch * dim * (2 * q * heads + 2 * keys * kv), "bfloat16"),
                   _later(choices, inputs, batch=batch, heads=heads, kv_heads=kv, seq_q=q, seq_kv=keys, dim=dim, causal=causal,
                          dtype="bfloat16"), table=family, note=NOTES.get(family, ""))


def _scan(inputs: Inputs) -> Iterator[Case]:
    for row in inputs.rows("mamba2_chunk_scan_h800_tilelang.csv", SCAN):
        batch, heads, groups, seq, chunk, dim, state = (row.integer(c) for c in SCAN[1:8])

        def build() -> Plan:
            raise NotBuilt("no kernel of ours stands for the chunk scan of Mamba 2")

        yield Case(f"mamba2-scan--b{batch}-h{heads}-g{groups}-{seq}-c{chunk}-d{dim}-s{state}", "mamba2-scan", "h800_sxm",
                   Measured(row.positive("latency_us"), cache=FLUSHED), None, build, table="mamba2-scan")
