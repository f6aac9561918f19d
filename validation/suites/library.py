"""The best libraries as an envelope: no kernel of ours should be much faster, and the best of ours not much slower."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..cases import Case, Measured, Work, numbered
from ..inputs import Inputs, Row, spread
from ..registry import suite
from ..search import grid, searched

GEMM = ("kernel", "dtype", "m", "n", "k", "latency_us")
ATTENTION = ("kernel", "phase", "dtype", "batch", "heads_q", "heads_kv", "seq_q", "seq_kv", "dim", "causal", "latency_us")
NORMS = ("gpu", "kernel", "dtype", "rows", "cols", "latency_us")
GPUS = {"a100": "a100_sxm", "h100": "h100_sxm", "h200": "h200_sxm"}
#: FLOPs of a sampled row: more than that takes minutes here.
LARGEST = 4e11
BACK_TO_BACK = "launches back to back, warm as far as it fits"

#: Spaces of our kernels. Hopper: warp roles by hand, persistent, in clusters of two, and smaller tiles for few rows.
HOPPER_GEMM = [
    ("gemm_two_consumers", {"block_N": 256, "num_stages": 3, "cluster": 2}),
    ("gemm_two_consumers", {"block_N": 128, "num_stages": 4, "cluster": 2}),
    ("gemm_two_consumers", {"block_N": 64, "num_stages": 6, "cluster": 1}),
    ("gemm_pipelined", {"block_M": 128, "block_N": 128, "num_stages": 4, "threads": 256, "panel": 10}),
    ("gemm_pipelined", {"block_M": 64, "block_N": 128, "num_stages": 4, "threads": 128}),
    ("gemm_pipelined", {"block_M": 64, "block_N": 64, "num_stages": 4, "threads": 128}),
    ("gemm_pipelined", {"block_M": 64, "block_N": 32, "num_stages": 6, "threads": 128}),
]
AMPERE_GEMM = [("gemm_pipelined", {**point, "panel": 8, "staged": False}) for point in (
    {"block_M": 128, "block_N": 256, "block_K": 32, "num_stages": 3, "threads": 256},
    {"block_M": 128, "block_N": 128, "block_K": 32, "num_stages": 3, "threads": 128},
    {"block_M": 128, "block_N": 128, "block_K": 64, "num_stages": 2, "threads": 256},
    {"block_M": 64, "block_N": 128, "block_K": 64, "num_stages": 3, "threads": 128},
    {"block_M": 64, "block_N": 64, "block_K": 64, "num_stages": 4, "threads": 128},
    {"block_M": 32, "block_N": 64, "block_K": 128, "num_stages": 3, "threads": 64},
)]
HOPPER_ATTENTION = [("attention", p) for p in (
    {"block_M": 128, "block_N": 128, "num_stages": 2, "threads": 256},
    {"block_M": 128, "block_N": 64, "num_stages": 2, "threads": 256},
    {"block_M": 64, "block_N": 128, "num_stages": 2, "threads": 128},
)]
AMPERE_ATTENTION = [("attention", p) for p in (
    {"block_M": 128, "block_N": 64, "num_stages": 2, "threads": 256},
    {"block_M": 128, "block_N": 64, "num_stages": 1, "threads": 128},
    {"block_M": 64, "block_N": 64, "num_stages": 2, "threads": 128},
)]
NORM = [("rms_norm", p) for p in grid({"block_M": (1, 4), "threads": (128, 256)})]

NOTES = {
    **dict.fromkeys(("gemm-h100", "gemm-h200"),
                    "space HOPPER_GEMM of the suite's file. No split over K, which libraries use for few rows."),
    "gemm-a100": "space AMPERE_GEMM. No split over K.",
    **dict.fromkeys(("attention-prefill-h100", "attention-prefill-h200"),
                    "space HOPPER_ATTENTION; no persistent CTAs and no ping-pong of softmax and products, which FlashAttention-3 "
                    "has. The measured call also writes the KV cache."),
    "attention-prefill-a100": "space AMPERE_ATTENTION. The measured call also writes the KV cache.",
    "rms-norm-h200": "space NORM; the times come in whole microseconds.",
}


@suite("library", "latencies of cuBLAS, FlashAttention and cuDNN as an envelope, sampled",
       truth="aiconfigurator (CUDA graph of back-to-back launches) and cuDNN (median kernel time); clock not known, large shapes "
             "throttle. One clock factor a family.",
       stands_for="Our best configuration of a small stated space against another program: an envelope, no test of the model. A "
                  f"sample of the rows of up to {LARGEST:g} FLOPs, evenly spread (--sample 0 for all rows).", family_notes=NOTES)
def cases(inputs: Inputs) -> Iterator[Case]:
    """A sample of each family."""
    for gpu, hw in GPUS.items():
        rows = inputs.rows(f"gemm_bf16_fp8_{gpu}_aiconfigurator.csv", GEMM)
        yield from _sample((_gemm(r, f"gemm-{gpu}", hw, inputs) for r in rows if r["dtype"] == "bfloat16"), inputs)
    for gpu, hw in GPUS.items():
        rows = inputs.rows(f"attention_{gpu}_aiconfigurator.csv", ATTENTION)
        yield from _sample((_attention(r, f"attention-prefill-{gpu}", hw, inputs) for r in rows
                            if r["phase"] == "prefill" and r["dtype"] == "bfloat16" and r["seq_q"] == r["seq_kv"]), inputs)
    rows = inputs.rows("norms_h200_gb200_cudnn.csv", NORMS)
    yield from _sample((_norm(r, inputs) for r in rows if r["gpu"] == "H200" and r["kernel"] == "cudnn rms_norm fwd"), inputs)


def _sample(made: Iterable[Case], inputs: Inputs) -> Iterator[Case]:
    """Some of the cases, or all; shapes that were measured more than once get a number."""
    yield from numbered(spread([c for c in made if not inputs.sample or (c.work and c.work.flops <= LARGEST)], inputs.sample))


def _case(row: Row, ident: str, family: str, hw: str, work: Work, choices: Any, inputs: Inputs, **arguments: Any) -> Case:
    return Case(f"{family}--{ident}", family, hw, Measured(row.positive("latency_us"), cache=BACK_TO_BACK), work,
                lambda: searched(choices, inputs.candidates, **arguments), table=family, note=NOTES[family])


def _gemm(row: Row, family: str, hw: str, inputs: Inputs) -> Case:
    m, n, k = (row.integer(c) for c in "mnk")
    return _case(row, f"{m}x{n}x{k}", family, hw, Work(2.0 * m * n * k, 2.0 * (m * k + n * k + m * n), "bfloat16"),
                 AMPERE_GEMM if hw.startswith("a100") else HOPPER_GEMM, inputs, M=m, N=n, K=k, dtype="bfloat16")


def _attention(row: Row, family: str, hw: str, inputs: Inputs) -> Case:
    batch, heads, kv, seq, keys, dim = (row.integer(c) for c in ATTENTION[3:9])
    causal = row["causal"] == "1"
    work = Work(4.0 * batch * heads * seq * keys * dim * (0.5 if causal else 1.0),
                2.0 * batch * dim * (2 * seq * heads + 2 * keys * kv), "bfloat16")
    return _case(row, f"b{batch}-h{heads}-{kv}-{seq}x{keys}-d{dim}{'-causal' if causal else ''}", family, hw, work,
                 AMPERE_ATTENTION if hw.startswith("a100") else HOPPER_ATTENTION, inputs, batch=batch, heads=heads, kv_heads=kv,
                 seq_q=seq, seq_kv=keys, dim=dim, causal=causal, dtype="bfloat16")


def _norm(row: Row, inputs: Inputs) -> Case:
    rows, columns = row.integer("rows"), row.integer("cols")
    return _case(row, f"{rows}x{columns}", "rms-norm-h200", "h200_sxm", Work(0.0, 4.0 * rows * columns, "bfloat16"), NORM, inputs,
                 M=rows, N=columns, dtype="bfloat16")
