"""Properties over random programs: no crash, no hang, work conserved, and no run faster than its bounds."""

from __future__ import annotations

import pytest
from gtsim.backend import simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from .kernels import PLAIN, Kernel

OPERATION = st.tuples(st.integers(0, 7), st.sampled_from(["probe", "lane"]), st.integers(0, 300), st.integers(0, 100),
                      st.sampled_from(["test_work", "test_sync_work", "test_unit"]))
PROGRAM = st.lists(OPERATION, min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(program=PROGRAM, ctas=st.integers(1, 300), policy=st.sampled_from(["gto", "lrr", "oldest"]))
def test_random_programs_obey_their_bounds(program: list[tuple[int, str, int, int, str]], ctas: int, policy: str) -> None:
    kernel = Kernel(ctas=ctas, threads=256, registers_per_thread=255)  # one CTA an SM
    probe = 0.0
    chains = {w: 0.0 for w in range(8)}
    for w, resource, cycles, latency, kind in program:
        kernel.work(cycles, warps=(w,), type=kind, resource=resource, latency=float(latency))
        probe += cycles if resource == "probe" else 0
        if kind != "test_unit":
            chains[w] += cycles + (latency if kind == "test_sync_work" else 0)
    kernel.t.node("cta_sync", range(8))
    result = kernel.run(policy=policy)
    waves = -(-ctas // 132)
    assert result.cycles >= waves * max(probe, *chains.values())
    total = sum(c for _, r, c, _, _ in program if r == "probe") * ctas
    assert result.utilization["probe"] * result.cycles * 132 == pytest.approx(total, rel=0.01, abs=200)
    assert all(0 <= u <= 1 for u in result.utilization.values())
    assert sum(o.executions for o in result.operations) == ctas * (len(program) + 1)


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 70), columns=st.integers(1, 70), tile_rows=st.integers(1, 40), tile_columns=st.integers(1, 40),
       stride=st.integers(0, 9), line=st.booleans())
def test_random_tiles_move_the_bytes_they_cover(rows: int, columns: int, tile_rows: int, tile_columns: int, stride: int,
                                                line: bool) -> None:
    kernel = Kernel(ctas=-(-rows // tile_rows) * -(-columns // tile_columns))
    x = kernel.b.tensor("x", (rows, columns), "float16", strides=(columns + stride, 1))
    f = kernel.b.buffer("f", (tile_rows, tile_columns), "float16", scope="fragment")
    kernel.t.node("global_load", [0], reads=[x.tile((kernel.t.column("i"), kernel.t.column("j")), (tile_rows, tile_columns))],
                  writes=[f.tile()])
    origins = [(i, j) for i in range(0, rows, tile_rows) for j in range(0, columns, tile_columns)]
    graph = kernel.graph({"i": [i for i, _ in origins], "j": [j for _, j in origins]})
    result = simulate(graph, "h100_sxm", overrides=PLAIN, fidelity="line" if line else "bulk")
    covered = 2 * rows * columns
    assert result.traffic.l2_read_bytes >= covered
    assert covered * 0.5 <= result.traffic.dram_read_bytes
    if line:
        sectors = {(2 * (i * (columns + stride) + j)) // 32 for i in range(rows) for j in range(columns)}
        assert result.traffic.dram_read_bytes == 32 * len(sectors)


STEP = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 120),
                 st.sampled_from(["test_work", "test_unit", "dsmem_store", "dsmem_load", "dsmem_copy", "arrive", "sync"]))


@settings(max_examples=40, deadline=None)
@given(size=st.integers(2, 4), steps=st.lists(STEP, min_size=1, max_size=25), clusters=st.integers(1, 12), gpcs=st.integers(1, 3))
def test_random_clusters_end_and_work_is_conserved(
    size: int, steps: list[tuple[int, int, int, str]], clusters: int, gpcs: int
) -> None:
    kernel = Kernel(ctas=size * clusters, cluster=(size, 1, 1), arch="sm_90a", registers_per_thread=255, smem_bytes=100000)
    s = kernel.b.buffer("s", (4, 64), "float32", scope="shared")
    f = kernel.b.buffer("f", (64,), "float32", scope="fragment")
    done = kernel.b.barrier("done", [1])
    moved = probe = 0
    longest = [0.0] * size
    for cta, other, amount, kind in steps:
        cta, other = cta % size, other % size
        tile = s.tile((cta, 0), (1, 64), cta=other)
        if kind in ("test_work", "test_unit"):
            kernel.t.node(kind, [0], attrs={"cycles": float(amount)}, cta=cta)
            probe += amount
            longest[cta] += amount if kind == "test_work" else 0
        elif kind == "sync":
            for rank in range(size):
                kernel.t.cluster_sync(range(4), cta=rank)
        elif kind == "arrive":
            kernel.t.node("barrier_arrive", [0], cta=cta, arrive=[(done.at(other)[0], 1)])
        else:
            reads, writes = ([tile], [f.tile()]) if kind == "dsmem_load" else ([f.tile() if kind == "dsmem_store" else s.tile(
                (cta, 0), (1, 64))], [tile])
            kernel.t.node(kind, range(4), reads=reads, writes=writes, cta=cta)
            moved += 256
    if not kernel.t.drafts:
        return
    kernel.b.add_instances(kernel.t, [(i * size, 0, 0) for i in range(clusters)])
    few = {"chip.sm_count": 4 * gpcs, "chip.gpc_sms": [4] * gpcs}
    result = simulate(kernel.b.build(check=False), "h200_sxm", overrides={**PLAIN, **few})
    assert result.ctas == size * clusters
    assert result.cycles >= max(longest)
    assert all(0 <= u <= 1 for u in result.utilization.values())
    for name, total in (("probe", probe), ("sm_to_sm_out", moved / 21.3), ("sm_to_sm_in", moved / 21.3)):
        assert result.utilization[name] * result.cycles * 4 * gpcs == pytest.approx(total * clusters, rel=0.01, abs=20)
    again = simulate(kernel.b.build(check=False), "h200_sxm", overrides={**PLAIN, **few})
    assert (again.cycles, again.events) == (result.cycles, result.events)
