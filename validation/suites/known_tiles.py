"""Kernels of others whose tile is known but whose clock is not: ratios and rankings within one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...errors import UsageError
from ..cases import Case, Measured, NotBuilt, Plan, Work
from ..inputs import Inputs, Row
from ..kernels import kernel
from ..registry import Target, suite

COLUMNS = ("gpu", "kernel", "dtype", "m", "n", "k", "tile_m", "tile_n", "tile_k", "stages", "latency_us", "note", "source")
BYTES = {"fp8_e4m3": 1, "fp16": 2, "bf16": 2}
DTYPES = {"fp8_e4m3": "float8_e4m3fn", "fp16": "float16", "bf16": "bfloat16"}
#: Bytes of shared memory that tiles of a CTA may take on Hopper, a KiB left for barriers and alignment.
SMEM = 232448 - 1024
WARM = "warm, or as the last launch left it"

#: How one row is stood for: the arguments of a kernel of ours. Raises NotBuilt.
Maker = Callable[[Row], tuple[str, Mapping[str, Any]]]

NOTES = {
    "gluon-h100-blocked": "load, wait, multiply, wait by all warps (gemm_async); every thread arrives at the barrier here. Where "
                          "the result does not fit beside the operands it leaves straight from registers.",
    "gluon-h100-schedules": "loads two steps ahead, products drained before the next is issued, TMA stores (gemm_async); "
                            "persistent CTAs in the order that the row names.",
    "gluon-h100-by-k": "as gluon-h100-schedules, over K; with the overlapped epilogue the loads of the next tile are issued "
                       "before the result leaves.",
    "learncuda-a100": "cp.async through a ring (gemm_pipelined). Rows of one stage load synchronously. What the variants change "
                      "in shared-memory layout and register reuse is not in our kernel.",
    "fastcu-h100": "producer and two consumers, persistent, clusters of two that share B (gemm_two_consumers); three stages, for "
                   "the source states none and no more fit beside the tile that is stored. The Hilbert order is groups of "
                   "eight rows of tiles here.",
    "deepgemm-h800-pr74": "producer and two consumers, scales for each 128 of K, persistent, clusters of two that share B "
                          "(gemm_fp8_scaled); as many stages as fit, up to six, for the source states none.",
    "deepgemm-h800-pr81": "as deepgemm-h800-pr74.",
    "tileops-h200-pr2110": "TMA producer and one consumer (gemm_roles), three stages assumed. In one row the compiler of the "
                           "time cut products into pieces of sixteen columns; ours does not.",
}


@suite("known-tiles", "GEMM of others on A100, H100, H800 and H200 with known tiles, unknown clock",
       targets=(Target(("gluon-*", "learncuda-*", "fastcu-*", "deepgemm-*"), "tau", 0.85,
                       "GEMM on A100/H100 with known tiles, tau within each table"),
                Target(("*",), "choice", 0.90, "choosing among configurations: predicted best within 3 % of the measured best")),
       truth="From the sources' own benchmarks; clock not known, often not even constant; L2 warm in most. One clock factor a "
             "table: ratios and rankings count.",
       stands_for="A kernel of ours of the same tile, stages and warps stands for each row.", family_notes=NOTES)
def cases(inputs: Inputs) -> Iterator[Case]:
    """Rows of Gluon's tutorials, learn-cuda, fast.cu, DeepGEMM and TileOPs' pull requests. A table is a family."""
    for file, table_of, makers, cache in SOURCES:
        seen: dict[str, int] = {}
        for row in inputs.rows(file, COLUMNS):
            table = table_of(row)
            if table is None or row.maybe("tile_m") is None and not _listed(row):
                continue
            yield _case(row, table, makers[table], cache, seen)


def _listed(row: Row) -> bool:
    """Whether a row without a tile is a variant of the table all the same, and no library: it is listed with the reason."""
    return row["kernel"].startswith(("fast.cu K", "gluon"))


def _case(row: Row, table: str, make: Maker, cache: str, seen: dict[str, int]) -> Case:
    m, n, k = (row.integer(c) for c in "mnk")
    tile = "x".join(row[c] or "?" for c in ("tile_m", "tile_n", "tile_k"))
    threads = row.get("threads") or ""
    name = re.sub(r"[^A-Za-z0-9_.=+-]+", "_", row["kernel"]).strip("_")
    ident = f"{table}--{name}-{tile}-s{row['stages'] or '?'}{'-t' + threads if threads else ''}-{m}x{n}x{k}"
    seen[ident] = seen.get(ident, 0) + 1
    if seen[ident] > 1:
        ident += f"-again{seen[ident] - 1}"
    size = BYTES.get(row["dtype"], 2)
    work = Work(2.0 * m * n * k, float(size * (m * k + n * k) + 2 * m * n), DTYPES.get(row["dtype"], "float16"))

    def build() -> Plan:
        factory, arguments = make(row)
        return Plan.fixed(kernel(factory), M=m, N=n, K=k, **arguments)

    gpus = {"A100": "a100_sxm", "H100": "h100_sxm", "Hopper": "h100_sxm", "H800": "h800_sxm", "H200": "h200_sxm"}
    hw = next((file for prefix, file in gpus.items() if row["gpu"].startswith(prefix)), None)
    if hw is None:
        raise UsageError(f"{row.where}: column gpu holds {row['gpu']!r:.40}, and {table} has {', '.join(gpus)}.")
    return Case(ident, table, hw, Measured(row.positive("latency_us"), cache=cache), work, build, table=table,
                contest=f"{table} {m}x{n}x{k}", note=NOTES.get(table, ""),
                given={c: row[c] for c in COLUMNS if c != "latency_us"})


def _tile(row: Row) -> dict[str, int]:
    if row.maybe("tile_m") is None or row.maybe("tile_n") is None:
        raise NotBuilt("the tile is not known")
    return {"block_M": row.integer("tile_m"), "block_N": row.integer("tile_n")}


def _gluon(row: Row) -> tuple[str, Mapping[str, Any]]:
    name = row["kernel"]
    group = re.search(r"GROUP_M=(\d+)", name)
    tile, stages = _tile(row), row.integer("stages")
    ring = stages * (tile["block_M"] + tile["block_N"]) * row.integer("tile_k") * 2
    return "gemm_async", {
        **tile, "block_K": row.integer("tile_k"), "num_stages": stages, "threads": row.integer("threads"),
        "staged": ring + tile["block_M"] * tile["block_N"] * 2 <= SMEM,
        "in_flight": 1 if "overlapped with next TMA" in name else 0,
        "workers": 132 if "persistent" in name and "non-persistent" not in name else 0,
        "group": int(group[1]) if group else 0, "overlapped": "epilogue overlapped" in name}


def _gluon_table(row: Row) -> str | None:
    if not row["gpu"].startswith("Hopper") or "cublas" in row["kernel"].lower():
        return None
    if "wgmma blocked" in row["kernel"]:
        return "gluon-h100-blocked"
    return "gluon-h100-schedules" if re.search("schedule|pipelined", row["kernel"]) else "gluon-h100-by-k"


def _learncuda(row: Row) -> tuple[str, Mapping[str, Any]]:
    if row.maybe("stages") is None or row.maybe("threads") is None:
        raise NotBuilt("stages or threads are not known")
    stages = row.integer("stages")
    return "gemm_pipelined", {**_tile(row), "block_K": row.integer("tile_k"), "num_stages": stages if stages > 1 else 0,
                              "threads": row.integer("threads"), "panel": 8 if "swizzle" in row["kernel"] and
                              "threadblock" in row["kernel"] else 0, "staged": False, "dtype": "bfloat16"}


def _fastcu(row: Row) -> tuple[str, Mapping[str, Any]]:
    if "uncertain" in row["note"] or row.maybe("tile_m") is None:
        raise NotBuilt("the tile is not certain: text and code of the source differ")
    found = re.search(r"K(\d+)", row["kernel"])
    number = int(found[1]) if found else 0
    return "gemm_two_consumers", {**_tile(row), "block_K": row.integer("tile_k"), "num_stages": 3,
                                  "workers": 128 if number < 10 else 132, "cluster": 2 if number >= 7 else 1,
                                  "tma_store": number >= 8}


def _deepgemm(row: Row) -> tuple[str, Mapping[str, Any]]:
    tile = _tile(row)
    room = SMEM - 2048 - tile["block_M"] * tile["block_N"] * 2  # results, and the scales of B
    return "gemm_fp8_scaled", {**tile, "num_stages": min(6, room // ((tile["block_M"] + tile["block_N"]) * 128 + 512))}


def _deepgemm_table(row: Row) -> str | None:
    number = re.search(r"DeepGEMM PR (\d+)", row["source"])
    return f"deepgemm-h800-pr{number[1]}" if number and number[1] in ("74", "81") and row["gpu"].startswith("H800") else None


def _pull_request(row: Row) -> tuple[str, Mapping[str, Any]]:
    if "n16 wgmma pieces" in row["note"] and row["tile_n"] == "176":
        raise NotBuilt("the compiler of the time cut its products into pieces of sixteen columns")
    return "gemm_roles", {**_tile(row), "block_K": row.integer("tile_k"), "dtype": DTYPES[row["dtype"]]}


#: File, table of a row (None: not ours), how each table is stood for, state of the L2.
SOURCES: tuple[tuple[str, Callable[[Row], str | None], Mapping[str, Maker], str], ...] = (
    ("gemm_fp16_h100_gb200_gluon_known_tiles.csv", _gluon_table,
     dict.fromkeys(("gluon-h100-blocked", "gluon-h100-schedules", "gluon-h100-by-k"), _gluon), WARM),
    ("gemm_bf16_a100_learncuda_known_tiles.csv", lambda row: "learncuda-a100" if row["gpu"].startswith("A100") else None,
     {"learncuda-a100": _learncuda}, WARM),
    ("gemm_bf16_h100_fastcu.csv", lambda row: None if re.search("cublas|K1 ", row["kernel"]) else "fastcu-h100",
     {"fastcu-h100": _fastcu}, WARM),
    ("gemm_fp8_h800_h100_deepgemm.csv", _deepgemm_table,
     dict.fromkeys(("deepgemm-h800-pr74", "deepgemm-h800-pr81"), _deepgemm), "flushed"),
    ("gemm_bmm_h200_tileops_pr.csv", lambda row: "tileops-h200-pr2110" if "block_n" in row["kernel"] else None,
     {"tileops-h200-pr2110": _pull_request}, "cold"),
)
