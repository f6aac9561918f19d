"""Storage that does not fit: exact bytes, columns, threads, and by how much."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from gtsim.graph import Finding, Limits, TileGraphBuilder, check
from gtsim.graph.check import limits_of

import gtsim

TABLE = Path(__file__).resolve().parents[2] / "validation" / "measured" / "b200_stages_that_fit.csv"
DTYPES = {"BF16": "bfloat16", "FP8_E4M3": "float8_e4m3fn"}
ALIGNMENT, BARRIER = 1024, 8  #: swizzled tiles start at 1024-byte boundaries; a full and an empty mbarrier a stage


def ring(m: int, n: int, k: int, stages: int, dtype: str) -> TileGraphBuilder:
    """The shared memory of a main loop: `stages` slots of an m x k and an n x k tile, two mbarriers a slot."""
    b = TileGraphBuilder("mainloop", grid=(1, 1, 1), threads=128, arch="sm_100a")
    a_s = b.buffer("a_s", (stages, m, k), dtype, scope="shared", swizzle_bytes=128)
    b_s = b.buffer("b_s", (stages, n, k), dtype, scope="shared", swizzle_bytes=128)
    b.buffer("acc", (m, n), "float32", scope="tmem")
    b.barrier("full", [1] * stages)
    b.barrier("empty", [1] * stages)
    b.smem_bytes = a_s.info.nbytes + b_s.info.nbytes + 2 * BARRIER * stages + ALIGNMENT
    t = b.template()
    t.node("control", [0])
    b.add_instances(t, [(0, 0, 0)])
    return b


def overflows(builder: TileGraphBuilder, limits: Limits) -> list[Finding]:
    return [f for f in check(builder.build(check=False), limits) if f.kind == "overflow"]


def test_every_measured_ring_is_classified() -> None:
    """402 rings that did or did not build for the 227 KiB a CTA of a B200 may use."""
    rows = list(csv.DictReader(TABLE.open()))
    assert len(rows) == 402 and {r["built"] for r in rows} == {"0", "1"}
    wrong = []
    for r in rows:
        m, n, k, stages = (int(r[c]) for c in ("tile_m", "tile_n", "tile_k", "stages"))
        fits = not overflows(ring(m, n, k, stages, DTYPES[r["dtype"]]), limits_of("sm_100a"))
        if fits != (r["built"] == "1"):
            wrong.append(r)
    assert wrong == []


def test_bytes_are_exact() -> None:
    (finding,) = overflows(ring(128, 256, 64, 5, "bfloat16"), limits_of("sm_100a"))
    need = 5 * (128 + 256) * 64 * 2 + 80 + 1024
    assert finding.details["need"] == need and finding.details["over"] == need - 227 * 1024
    assert finding.text == (
        f"a CTA needs {need} bytes of shared memory, sm_100a has 232448: {need - 232448} too many (largest: "
        "b_s 163840, a_s 81920)"
    )


def test_tensor_memory_of_an_accumulator_and_a_promoted_operand() -> None:
    """256 x 256 fp32 takes all 512 columns; a 16-bit A operand of 256 x 32 beside it 32 more."""
    b = TileGraphBuilder("promoted", grid=(1, 1, 1), threads=128, arch="sm_100a")
    b.buffer("acc", (256, 256), "float32", scope="tmem")
    t = b.template()
    t.node("control", [0])
    b.add_instances(t, [(0, 0, 0)])
    assert overflows(b, limits_of("sm_100a")) == []
    b.buffer("a_t", (256, 32), "bfloat16", scope="tmem")
    (finding,) = overflows(b, limits_of("sm_100a"))
    assert finding.text == "a CTA needs 544 columns of tensor memory, sm_100a has 512: 32 too many (acc 512, a_t 32)"


@pytest.mark.parametrize(
    ("change", "resource", "over"),
    [
        ({"threads": 1056}, "threads", 32),
        ({"registers_per_thread": 256}, "registers a thread", 1),
        ({"threads": 512, "registers_per_thread": 136}, "registers", 4096),
        ({"smem_bytes": 232449}, "shared memory", 1),
    ],
)
def test_each_resource_of_a_cta(change: dict[str, int], resource: str, over: int) -> None:
    b = TileGraphBuilder("big", grid=(1, 1, 1), **{"threads": 128, "arch": "sm_90a", **change})  # type: ignore[arg-type]
    t = b.template()
    t.node("control", [0])
    b.add_instances(t, [(0, 0, 0)])
    found = {f.details["resource"]: f.details["over"] for f in gtsim.check(b).errors}
    assert found[resource] == over


def test_named_barriers_end_at_15() -> None:
    b = TileGraphBuilder("named", grid=(1, 1, 1), threads=128, arch="sm_90a")
    t = b.template()
    t.node("cta_sync", range(4), attrs={"id": 16})
    b.add_instances(t, [(0, 0, 0)])
    (finding,) = gtsim.check(b).errors
    assert finding.details == {"resource": "named barriers", "need": 17, "limit": 16, "over": 1, "unit": "barriers"}


def test_what_fits_is_not_mentioned() -> None:
    assert overflows(ring(64, 64, 64, 2, "bfloat16"), limits_of("sm_90a")) == []
    assert overflows(ring(64, 64, 64, 8, "bfloat16"), limits_of("sm_999")) == []  # an unknown target limits nothing
