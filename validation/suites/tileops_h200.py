"""TileOPs' own kernels on an H200 at a locked clock: the best truth there is."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..calibrated import FAMILY as CALIBRATION
from ..calibrated import calibration_rows
from ..cases import Case, Launch, Measured, NotBuilt, Plan, Trial, Work, numbered
from ..inputs import Inputs, Row, spread
from ..registry import Target, suite

#: File of measured rows -> the family of the operators that the table of families does not name.
FILES = {
    "gemm_h200_tileops_1500mhz.csv": "gemm",
    "bmm_h200_tileops_1500mhz.csv": "bmm",
    "moe_grouped_gemm_h200_tileops_1500mhz.csv": "moe",
    "attention_h200_tileops_1500mhz.csv": "attention",
    "elementwise_norm_reduce_softmax_h200_tileops_1500mhz.csv": "elementwise",
    "conv_pool_h200_tileops_1500mhz.csv": "conv",
    "linear_attention_mamba_h200_tileops_1500mhz.csv": "linear-attention",
    "misc_h200_tileops_1500mhz.csv": "misc",
}
COLUMNS = ("kernel", "op", "case", "clock_mhz", "cycles", "p10_us", "p90_us", "n_kernels", "flops", "bytes")
FAMILIES = Path(__file__).resolve().parents[1] / "tileops" / "families.csv"

#: The flush in front of each measurement zeroes twice the L2 and leaves half of its places modified (docs/deviations.md).
FLUSHED = {"l2.dirty_at_start": 0.5}
COLD = "cold: full of other lines, half of them modified"

TARGETS = (
    Target(("gemm",), "mape", 0.04, "GEMM bf16/fp16, MAPE"),
    Target(("gemm",), "worst", 0.10, "GEMM bf16/fp16, worst"),
    Target(("gemm-fp8",), "mape", 0.08, "FP8 GEMM (predicated loads), MAPE"),
    Target(("grouped-gemm",), "mape", 0.04, "grouped GEMM, persistent 128 x 256 x 64, MAPE"),
    Target(("attention", "attention-tuned"), "mape", 0.06,
           "attention forward, GQA, causal, sliding window, variable length, MAPE"),
    Target(("attention-decode", "attention-decode-tuned", "mla-decode", "mla-decode-tuned"), "mape", 0.08,
           "decode (split KV, paged), MLA decode, MAPE"),
    Target(("elementwise", "norm", "norm-tuned", "softmax", "softmax-tuned", "reduction", "reduction-tuned"), "mape", 0.07,
           "element-wise, norms, softmax, reductions, MAPE"),
)


@suite("tileops-h200", "TileOPs kernels on an H200 at 1500 MHz", needs="tileops", targets=TARGETS,
       truth="SM clock locked at 1500 MHz, L2 flushed before every run, device time of the operator's kernels, median of up to "
             "200 runs, p10 and p90 kept.",
       stands_for="The kernels are TileOPs' own, built from its checkout. Where its benchmark chose a configuration by "
                  "measuring, which one is not recorded: the best of some of its candidates counts, in a family of its own "
                  "(-tuned). Rows that a calibrated constant saw (calibration.toml) are the family calibration: no test.")
def cases(inputs: Inputs) -> Iterator[Case]:
    """A case for each row of a TileLang kernel; rows of the libraries it was compared with are not ours."""
    yield from numbered(_cases(inputs))


def _cases(inputs: Inputs) -> Iterator[Case]:
    with FAMILIES.open(newline="", encoding="utf-8") as f:
        families = {row["op"]: row["family"] for row in csv.DictReader(f)}
    for file, usual in FILES.items():
        for row in inputs.rows(file, COLUMNS):
            if row["kernel"].startswith("tilelang:"):
                seen = (file, row["op"], row["case"]) in calibration_rows()
                yield _case(row, CALIBRATION if seen else families.get(row["op"], usual), inputs)


def _case(row: Row, family: str, inputs: Inputs) -> Case:
    clock = row.positive("clock_mhz")
    measured = Measured(row.positive("cycles") / clock, clock, row.maybe("p10_us"), row.maybe("p90_us"), COLD)
    flops, moved = row.maybe("flops"), row.maybe("bytes")
    work = Work(flops or 0.0, moved or 0.0, row.get("dtype") or "float16") if flops or moved else None
    op, case, kernels = row["op"], row["case"], row.integer("n_kernels")
    return Case(f"{op}--{case}", family, "h200_sxm", measured, work, lambda: plan(inputs, op, case, kernels), overrides=FLUSHED,
                given={"kernels": kernels})


def plan(inputs: Inputs, op: str, case: str, kernels: int) -> Plan:
    """What the operator launches, `kernels` of them, with the configurations that its benchmark chose from. Raises NotBuilt."""
    from ..tileops.benchmarks import benchmarks

    if inputs.tileops is None:
        raise NotBuilt("needs a checkout of TileOPs")
    known = benchmarks(inputs.tileops)
    first = known.launches(op, case)
    if first.torch_ops and kernels > len(first.launches):
        raise NotBuilt(f"the row sums {kernels} kernels, some of them PyTorch's own ({', '.join(sorted(set(first.torch_ops)))})")
    configs: list[Mapping[str, Any] | None] = [None]
    tuned = [launch for launch in first.launches if len(launch.candidates) > 1]
    if tuned:
        own = tuned[0].config
        configs += [c for c in tuned[0].candidates if not (isinstance(c, dict) and c.items() <= own.items())]

    def launches(config: Mapping[str, Any] | None) -> list[Launch]:
        call = first if config is None else known.launches(op, case, config)
        return [Launch(r.prim_func, symbols={k: v for k, v in r.symbols.items() if isinstance(v, int)}, metadata=r.arrays,
                       pass_configs=r.pass_configs) for r in call.launches]

    trials = [Trial("default" if config is None else " ".join(f"{k}={v}" for k, v in dict(config).items()),
                    lambda config=config: launches(config)) for config in spread(configs, inputs.candidates)]  # type: ignore[misc]
    return Plan(trials, len(configs), tuned=len(configs) > 1, kernels=kernels)
