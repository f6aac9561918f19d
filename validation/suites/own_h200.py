"""Kernels of ours of the same structure as TileOPs' on the same rows, for machines without its checkout."""

from __future__ import annotations

from collections.abc import Iterator

from ..cases import Case, Measured, Plan, Work
from ..inputs import Inputs
from ..kernels import kernel
from ..registry import Target, suite
from .tileops_h200 import COLD, FLUSHED

COLUMNS = ("kernel", "op", "case", "dtype", "m", "n", "k", "trans_a", "trans_b", "tile_m", "tile_n", "tile_k", "stages",
           "clock_mhz", "cycles", "p10_us", "p90_us", "flops", "bytes")


@suite("own-h200", "kernels of ours of the structure of TileOPs' on an H200 at 1500 MHz",
       targets=(Target(("gemm",), "mape", 0.04, "GEMM bf16/fp16, MAPE"),
                Target(("gemm",), "worst", 0.10, "GEMM bf16/fp16, worst")),
       truth="As for tileops-h200: SM clock locked at 1500 MHz, L2 flushed before every run, median of up to 200 runs.",
       stands_for="gemm: one TMA producer and one wgmma consumer warpgroup, 128 x 128 x 64, ring of three, products drained "
                  "every step, results stored from registers four bytes at a time.")
def cases(inputs: Inputs) -> Iterator[Case]:
    """Every 16-bit GEMM row, B stored either way."""
    for row in inputs.rows("gemm_h200_tileops_1500mhz.csv", COLUMNS):
        if not (row["kernel"].startswith("tilelang:") and row["op"] == "GemmFwdOp"):
            continue
        clock = row.positive("clock_mhz")
        arguments = dict(M=row.integer("m"), N=row.integer("n"), K=row.integer("k"), trans_A=row["trans_a"] == "1",
                         trans_B=row["trans_b"] == "1", dtype=row["dtype"], block_M=row.integer("tile_m"),
                         block_N=row.integer("tile_n"), block_K=row.integer("tile_k"), num_stages=row.integer("stages"))
        yield Case(
            f"gemm--{row['case']}", "gemm", "h200_sxm",
            Measured(row.positive("cycles") / clock, clock, row.maybe("p10_us"), row.maybe("p90_us"), COLD),
            Work(row.number("flops"), row.number("bytes"), row["dtype"]),
            lambda arguments=arguments: Plan.fixed(kernel("gemm_roles"), **arguments),  # type: ignore[misc]
            overrides=FLUSHED)
