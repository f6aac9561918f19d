#!/usr/bin/env python3
"""The launches of a model's layer against the best library's latency for the same shape, where one was published.

    python benchmarks/model_envelope.py --measured DIR                  # Llama 3 8B on H100; docs/models.md has the table
    python benchmarks/model_envelope.py --measured DIR --model llama3-70b --most-tokens 4096

DIR holds `gemm_bf16_fp8_h100_aiconfigurator.csv` and `attention_h100_aiconfigurator.csv`: cuBLAS and FlashAttention 3, timed as
back-to-back launches of a CUDA graph at an unknown clock; attention includes the write to the cache and small helpers. The
library is an *envelope*, not the truth about our kernels: it has other tiles, and other kernels. What can be seen is whether the
layer as a whole is in the right place, and which launches a better kernel would speed up. Ours start with an empty L2 and count a
gap each.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Iterator
from pathlib import Path

from gtsim.models import ModelConfig, Predictor, Workload, layer_calls, load_model

from gtsim.predictor import Options

#: Launches that a row about attention covers.
ATTENTION = ("RoPE and cache", "attention", "attention, join")


def products(model: ModelConfig, file: Path) -> Iterator[tuple[str, Workload, float]]:
    """Launch, workload and microseconds of every row about a product of the layer with its width and depth."""
    shapes = {
        "QKV projection": (model.qkv_width, model.hidden_size),
        "output projection": (model.hidden_size, model.attention_width),
        "down projection": (model.hidden_size, model.intermediate_size),
    }
    for row in csv.DictReader(file.open(encoding="utf-8")):
        for name, (columns, depth) in shapes.items():
            if row["dtype"] == "bfloat16" and (int(row["n"]), int(row["k"])) == (columns, depth):
                runs = [float(row[key]) for key in ("latency_us", "latency_us_second_run") if row[key]]
                yield name, Workload("prefill", 1, int(row["m"])), statistics.mean(runs)


def attentions(model: ModelConfig, file: Path) -> Iterator[tuple[str, Workload, float]]:
    """The same for rows about attention with its heads."""
    heads = {"heads_q": model.num_attention_heads, "heads_kv": model.num_key_value_heads, "dim": model.head_dim}
    for row in csv.DictReader(file.open(encoding="utf-8")):
        if row["dtype"] == "bfloat16" and row["causal"] == "1" and all(row[k] == str(v) for k, v in heads.items()):
            if row["phase"] == "decode" or row["seq_q"] == row["seq_kv"]:
                yield "attention", Workload(row["phase"], int(row["batch"]), int(row["seq_kv"])), float(row["latency_us"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, required=True, help="folder of the two CSV files")
    parser.add_argument("--model", default="llama3-8b")
    parser.add_argument("--most-tokens", type=int, default=16384, help="leave out larger prompts, and caches four times as large")
    parser.add_argument("--fidelity", default="bulk")
    args = parser.parse_args()
    files = [args.measured / f"{name}_h100_aiconfigurator.csv" for name in ("gemm_bf16_fp8", "attention")]
    if missing := [str(f) for f in files if not f.is_file()]:
        parser.error(f"no such file: {', '.join(missing)}")
    model = load_model(args.model)
    predictor = Predictor(Options(hw="h100_sxm", fidelity=args.fidelity))
    found = {*products(model, files[0]), *attentions(model, files[1])}
    rows = sorted(found, key=lambda r: (r[0], r[1].phase, r[1].batch, r[1].kv))
    print("| launch | phase | batch | tokens | library, us | ours, us | ours / library |\n|---|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = {}
    for name, work, library in rows:
        if work.batch * work.kv > args.most_tokens * (4 if work.phase == "decode" else 1):
            continue
        names = ATTENTION if name == "attention" else (name,)
        # A product of few rows is a launch of decode: its shape is what counts.
        asked = work if name == "attention" or work.kv > 64 else Workload("decode", work.kv, 64)
        calls = [call for call in layer_calls(model, asked, predictor.hw, 0) if call.name in names]
        ours = sum(predictor.run(call).time_us + predictor.hw.launch.gap_us for call in calls)
        kind = f"{name}, {work.phase}" if name == "attention" else name
        ratios.setdefault(kind, []).append(ours / library)
        shown = (work.phase, work.batch, work.kv) if name == "attention" else ("", "", work.kv)
        print(f"| {name} | {' | '.join(map(str, shown))} | {library:.1f} | {ours:.1f} | {ours / library:.2f} |", flush=True)
    for kind, values in ratios.items():
        median = statistics.median(values)
        print(f"{kind}: {len(values)} rows, ours / library {min(values):.2f} to {max(values):.2f}, median {median:.2f}")


if __name__ == "__main__":
    main()
