"""Kernels of ours of the same structure as TileOPs' on the same rows, for machines without its checkout."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from ..calibrated import calibration_rows
from ..cases import Case, Measured, Plan, Work, numbered
from ..inputs import Inputs, Row
from ..kernels import kernel
from ..registry import Target, suite
from .tileops_h200 import COLD, FLUSHED

GEMM, OTHER = "gemm_h200_tileops_1500mhz.csv", "elementwise_norm_reduce_softmax_h200_tileops_1500mhz.csv"
COLUMNS = ("kernel", "op", "case", "dtype", "clock_mhz", "cycles", "p10_us", "p90_us", "flops", "bytes")
GEMM_COLUMNS = ("m", "n", "k", "trans_a", "trans_b", "tile_m", "tile_n", "tile_k", "stages")

#: Operators that do almost nothing with an element -> how many tensors they read.
POINTWISE = {"ReluFwdOp": 1, "AbsFwdOp": 1, "NegFwdOp": 1, "AddFwdOp": 2, "SubFwdOp": 2, "MulFwdOp": 2, "MaximumFwdOp": 2,
             "MinimumFwdOp": 2}
BITS = {"float16": 16, "bfloat16": 16, "float32": 32}


@suite("own-h200", "kernels of ours of the structure of TileOPs' on an H200 at 1500 MHz",
       targets=(Target(("gemm",), "mape", 0.04, "GEMM bf16/fp16, MAPE"),
                Target(("gemm",), "worst", 0.10, "GEMM bf16/fp16, worst"),
                Target(("elementwise",), "mape", 0.07, "element-wise, MAPE")),
       truth="As for tileops-h200: SM clock locked at 1500 MHz, L2 flushed before every run, median of up to 200 runs.",
       stands_for="gemm: one TMA producer and one wgmma consumer warpgroup, 128 x 128 x 64, ring of three, products drained "
                  "every step, results stored from registers four bytes at a time. elementwise: 16 bytes a thread of each "
                  "tensor, through registers, no broadcasting. norm: RMS norm, whole rows in registers, a row a CTA; how the "
                  "measured one is built was not looked at.")
def cases(inputs: Inputs) -> Iterator[Case]:
    """Every 16-bit GEMM row, B stored either way; element-wise rows of operands of one shape; RMS norms."""
    yield from numbered(_cases(inputs))


def _cases(inputs: Inputs) -> Iterator[Case]:
    for row in inputs.rows(GEMM, COLUMNS + GEMM_COLUMNS):
        if row["kernel"].startswith("tilelang:") and row["op"] == "GemmFwdOp":
            yield _case(row, "gemm", f"gemm--{row['case']}", "gemm_roles", M=row.integer("m"), N=row.integer("n"),
                        K=row.integer("k"), trans_A=row["trans_a"] == "1", trans_B=row["trans_b"] == "1", dtype=row["dtype"],
                        block_M=row.integer("tile_m"), block_N=row.integer("tile_n"), block_K=row.integer("tile_k"),
                        num_stages=row.integer("stages"))
    for row in inputs.rows(OTHER, (*COLUMNS, "shape")):
        if not row["kernel"].startswith("tilelang:") or (OTHER, row["op"], row["case"]) in calibration_rows():
            continue
        shapes = [[int(d) for d in text.split(",")] for text in re.findall(r"\w+_shape:\[([\d,]+)\]", row["shape"])]
        if row["op"] in POINTWISE and row["dtype"] in BITS and len(shapes) == POINTWISE[row["op"]] and \
                all(s == shapes[0] for s in shapes):
            yield _case(row, "elementwise", f"{row['op']}--{row['case']}", "pointwise", n=math.prod(shapes[0]),
                        operands=len(shapes), dtype=row["dtype"])
        elif row["op"] == "RMSNormFwdOp" and shapes:
            rows, columns = math.prod(shapes[0][:-1]), shapes[0][-1]
            yield _case(row, "norm", f"{row['op']}--{row['case']}", "rms_norm", M=rows, N=columns, threads=256,
                        dtype=row["dtype"])


def _case(row: Row, family: str, ident: str, name: str, **arguments: Any) -> Case:
    clock = row.positive("clock_mhz")
    measured = Measured(row.positive("cycles") / clock, clock, row.maybe("p10_us"), row.maybe("p90_us"), COLD)
    work = Work(row.number("flops"), row.number("bytes"), row["dtype"])
    return Case(ident, family, "h200_sxm", measured, work, lambda: Plan.fixed(kernel(name), **arguments), overrides=FLUSHED,
                given=arguments)
