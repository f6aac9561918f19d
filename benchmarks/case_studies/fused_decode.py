"""The attention block of one decoded token as tile graphs: norm, QKV projection, RoPE, attention, output projection.

A head is a cluster. Its CTAs share the work: each takes a part of the hidden vector for the RMSNorm, of the head's dimensions for
the projections to q, k and v, of the cache for attention, and of the hidden vector again for the output. In between they need
each other's results: four reductions (sum of squares; maximum, denominator and output of attention) and one gather (q, k and v),
as in ClusterFusion (Luo et al., arXiv 2508.18850). `exchange` is the way these go:

- `mbarrier`: each CTA stores its result into the shared memory of all others, where it arrives at an mbarrier (`st.async`).
- `dsmem`: the same stores, then the cluster barrier.
- `tree`: the same in log2(size) rounds with a barrier each, to the CTA 1, 2, 4, ... ranks further (ClusterFusion's primitives).
- `memory`: each CTA stores its result to global memory, cluster barrier, loads all results.
- `grid`: the same with a barrier of the whole grid, as without clusters.
- `kernels`: five kernels one after the other (norm, projection, attention, combination, output) that leave results in memory.

Graphs and not TileLang, since a thread block of TileLang 0.1.15 can store to one other block at a time only (`T.copy_cluster`
with one `dst_block`): `fused_decode_tilelang.py` is that kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtsim.graph import BufferHandle, KernelGraph, TemplateBuilder, TileGraphBuilder, TileRef

sys.path.insert(0, str(Path(__file__).resolve().parent))

from exchanges import EXCHANGES, GROUPS, IN_CLUSTER, WARPS, Exchanges  # noqa: E402

__all__ = ["EXCHANGES", "Shape", "graphs"]

TILE = (64, 128)  # of weights and cache: 16 KB, loaded by one TMA instruction for each 64 columns
SLOTS = 3  # tiles of a warpgroup in flight
#: Kernels of `exchange="kernels"`; the others do all of it in one.
PARTS = ("norm", "project", "attend", "combine", "output")


@dataclass(frozen=True)
class Shape:
    """Sizes: CTAs a cluster, tokens in the cache, heads, hidden vector, dimensions of a head."""

    size: int
    seq: int
    heads: int = 32
    hidden: int = 4096
    dim: int = 128

    @property
    def flops(self) -> int:
        """Multiply-adds of the projections and of attention, two each."""
        return 2 * self.heads * self.dim * (4 * self.hidden + 2 * self.seq)


def graphs(shape: Shape, exchange: str = "dsmem", *, ahead: bool = False) -> list[KernelGraph]:
    """The kernel, or the kernels in launch order. `ahead`: tiles of a stage are loaded as soon as slots are free, before the
    results that the stage needs are there; else a stage begins with its first load."""
    if exchange == "kernels":
        return [_Kernel(shape, exchange, (part,), ahead).graph() for part in PARTS]
    return [_Kernel(shape, exchange, PARTS, ahead).graph()]


class _Kernel:
    """One kernel under construction: its tensors and shared memory."""

    def __init__(self, shape: Shape, exchange: str, parts: Sequence[str], ahead: bool) -> None:
        self.shape, self.exchange, self.parts, self.ahead = shape, exchange, parts, ahead
        self.clusters = exchange != "kernels"
        size = shape.size
        grid = shape.heads * size
        name = f"decode_{exchange}" if self.clusters else f"decode_{parts[0]}"
        self.b = b = TileGraphBuilder(name, grid=(grid, 1, 1), cluster=(size if self.clusters else 1, 1, 1), threads=32 * WARPS,
                                      registers_per_thread=128, arch="sm_90a")
        rows, columns = TILE
        part = shape.hidden // size
        cache = shape.seq // size * shape.dim
        tiles = {"W": 3 * shape.dim // size * shape.hidden, "K": cache, "V": cache, "O": part * shape.dim}
        self.tiles = {n: e // (rows * columns) for n, e in tiles.items()}
        self.weights = {n: b.tensor(n, (grid, t * rows, columns), "float16") for n, t in self.tiles.items()}
        self.x = b.tensor("X", (shape.hidden,), "float16")
        self.y = b.tensor("Y", (shape.hidden,), "float32")
        self.lengths = {"squares": 1, "qkv": 3 * shape.dim // size, "max": 1, "sum": 1, "out": shape.dim, "state": shape.dim + 2}
        self.work = {n: b.tensor(f"work_{n}", (shape.heads, size, length), "float32") for n, length in self.lengths.items()}
        self.ring = b.buffer("ring", (GROUPS, SLOTS, rows, columns), "float16", scope="shared", swizzle_bytes=128)
        self.mine = {n: b.buffer(f"mine_{n}", (length,), "float32", scope="shared") for n, length in self.lengths.items()}
        self.result = {n: b.buffer(f"result_{n}", (length,), "float32", scope="shared") for n, length in self.lengths.items()}
        self.all = {n: b.buffer(f"all_{n}", (size, length), "float32", scope="shared") for n, length in self.lengths.items()}
        self.rounds = {n: b.buffer(f"rounds_{n}", (max(size.bit_length() - 1, 1), length), "float32", scope="shared")
                       for n, length in self.lengths.items()}  # fmt: skip
        self.partial = b.buffer("partial", (GROUPS, 3 * shape.dim // size + shape.dim), "float32", scope="shared")
        self.hidden = b.buffer("hidden", (shape.hidden,), "float16", scope="shared")
        self.full = [b.barrier(f"full{g}", [1] * SLOTS) for g in range(GROUPS)]
        self.came = {n: b.barrier(f"came_{n}", [max(size - 1, 1)]) for n in self.lengths}
        self.empty = [b.barrier(f"empty{g}", [32 * WARPS // GROUPS] * SLOTS) for g in range(GROUPS)]

    def fragment(self, name: str, length: int) -> BufferHandle:
        """A register tile."""
        return self.b.buffer(name, (length,), "float32", scope="fragment")

    def graph(self) -> KernelGraph:
        """The finished graph."""
        size, heads = self.shape.size, self.shape.heads
        if self.clusters:
            t = self.b.template()
            ctas = [_Cta(self, t, rank, rank) for rank in range(size)]
            for steps in zip(*(cta.run() for cta in ctas), strict=True):  # the CTAs of a cluster side by side
                assert len(set(steps)) == 1
            self.b.add_instances(t, [(h * size, 0, 0) for h in range(heads)], _columns(t, range(heads), size, 0))
        else:
            for rank in range(size):
                t = self.b.template()
                for _ in _Cta(self, t, rank, 0).run():
                    pass
                self.b.add_instances(t, [(h * size + rank, 0, 0) for h in range(heads)], _columns(t, range(heads), size, rank))
        self.b.meta["flops"] = self.shape.flops if self.clusters else 0
        return self.b.build()


def _columns(t: TemplateBuilder, heads: Sequence[int], size: int, rank: int) -> dict[str, list[int]]:
    given = {"head": list(heads), **{f"cta{r}": [h * size + r for h in heads] for r in range(size)}}
    return {name: given[name] for name in t.columns}


class _Cta(Exchanges):
    """The program of one CTA, appended to a template. `run` yields where CTAs of a cluster wait for each other."""

    def __init__(self, kernel: _Kernel, t: TemplateBuilder, rank: int, cta: int) -> None:
        self.k, self.t, self.rank, self.cta = kernel, t, rank, cta
        self.head, self.block = t.column("head"), t.column(f"cta{rank}")
        self.registers = {n: kernel.fragment(f"r{rank}_{n}", length) for n, length in kernel.lengths.items()}
        self.tile_registers = kernel.b.buffer(f"r{rank}_tile", TILE, "float16", scope="fragment")
        self.sums = kernel.fragment(f"r{rank}_sums", 1024)
        #: Tiles of each warpgroup in the order of use: stage, tensor, index. They are dealt out in turn.
        self.order: list[list[tuple[str, str, int]]] = [[] for _ in range(GROUPS)]
        for stage, names in (("project", "W"), ("attend", "KV"), ("output", "O")):
            for i in range(kernel.tiles[names[0]] if stage in kernel.parts else 0):
                self.order[i % GROUPS] += [(stage, name, i) for name in names]
        self.loaded, self.used = [0] * GROUPS, [0] * GROUPS

    # -- streams of tiles --------------------------------------------------------------------------------------------------

    def load(self, g: int, stage: str) -> None:
        """Load the next tile of a warpgroup, if it is one of the stage (or of any, when loading ahead)."""
        n = self.loaded[g]
        if n == len(self.order[g]) or not (self.k.ahead or self.order[g][n][0] == stage):
            return
        _, name, i = self.order[g][n]
        slot, lap, leader = n % SLOTS, n // SLOTS, [4 * g]
        rows, columns = TILE
        if lap:
            self.node("barrier_wait", leader, attrs={"barrier": f"empty{g}"}, wait=(self.k.empty[g][slot], lap % 2 ^ 1))
        self.node("tma_load", leader, reads=[self.k.weights[name].tile((self.block, i * rows, 0), (1, rows, columns))],
                  writes=[self.slot(g, slot)], attrs={"box": (1, rows, 64), "tensor_map": True}, tx=self.k.full[g][slot],
                  arrive=[(self.k.full[g][slot], 1)], source=f"load {name}")
        self.loaded[g] += 1

    def slot(self, g: int, slot: int) -> TileRef:
        return self.k.ring.tile((g, slot, 0, 0), (1, 1, *TILE))

    def first_loads(self, stage: str) -> None:
        for g in range(GROUPS):
            while self.loaded[g] < self.used[g] + SLOTS and self.loaded[g] < len(self.order[g]):
                before = self.loaded[g]
                self.load(g, stage)
                if self.loaded[g] == before:
                    break

    def tiles(self, stage: str) -> Iterator[tuple[int, str, int]]:
        """Each tile of a stage: wait for it, read it into registers, free its slot, load another. Yields before it is freed."""
        self.first_loads(stage)
        left = True
        while left:
            left = False
            for g in range(GROUPS):
                n = self.used[g]
                if n == len(self.order[g]) or self.order[g][n][0] != stage:
                    continue
                left = True
                slot, lap = n % SLOTS, n // SLOTS
                self.node("barrier_wait", self.group(g), attrs={"barrier": f"full{g}"}, wait=(self.k.full[g][slot], lap % 2))
                self.node("shared_load", self.group(g), reads=[self.slot(g, slot)], writes=[self.tile_registers.tile()],
                          source=f"read {self.order[g][n][1]}")
                yield g, self.order[g][n][1], self.order[g][n][2]
                self.node("barrier_arrive", self.group(g), attrs={"barrier": f"empty{g}", "count": 128},
                          arrive=[(self.k.empty[g][slot], 128)])
                self.used[g] += 1
                self.load(g, stage)

    def multiply(self, g: int, source: str) -> None:
        """The registers' tile times a vector, added up by each thread: a multiply-add an element, converted in pairs."""
        self.node("elementwise", self.group(g), reads=[self.tile_registers.tile(), self.sums.tile()], writes=[self.sums.tile()],
                  attrs={"elements": TILE[0] * TILE[1], "fma": 1.0, "cvt": 0.5}, source=source)

    def fold(self, results: int, steps: int, source: str, g: int | None = None) -> None:
        """Sums over the threads that share a result."""
        for group in range(GROUPS) if g is None else [g]:
            self.node("reduce", self.group(group), reads=[self.sums.tile()], writes=[self.sums.tile()],
                      source=source,
                      attrs={"elements": results, "fma": 1.0, "results": results, "shuffle_steps": steps, "op": "sum"})

    def to_mine(self, name: str, source: str) -> None:
        """Both warpgroups' parts of a result of the CTA, added up into its place in shared memory."""
        length = self.k.lengths[name]
        for g in range(GROUPS):
            self.node("shared_store", self.group(g), reads=[self.sums.tile()], writes=[self.k.partial.tile((g, 0), (1, length))],
                      source=source)
        self.sync()
        self.node("shared_load", self.group(0), reads=[self.k.partial.tile((0, 0), (GROUPS, length))],
                  writes=[self.registers[name].tile()], source=source)
        self.node("elementwise", self.group(0), reads=[self.registers[name].tile()], writes=[self.registers[name].tile()],
                  attrs={"elements": GROUPS * length, "fma": 1.0}, source=source)
        self.node("shared_store", self.group(0), reads=[self.registers[name].tile()], writes=[self.k.mine[name].tile()],
                  source=source)
        self.sync()

    # -- the stages --------------------------------------------------------------------------------------------------------

    def run(self) -> Iterator[str]:
        """All stages that this kernel does."""
        k = self.k
        if k.exchange in IN_CLUSTER:
            yield from self.barrier("start")  # before anyone stores into another's memory
        if k.ahead:
            self.first_loads("")
        for part in k.parts:
            yield from getattr(self, part)()
        yield "end"

    def ship(self, name: str, of: BufferHandle) -> None:
        """As a kernel of its own: leave a result in global memory."""
        self.node("shared_load", self.group(0), reads=[of.tile()], writes=[self.registers[name].tile()])
        self.node("global_store", self.group(0), reads=[self.registers[name].tile()], writes=[self.in_memory(name, self.rank, 1)],
                  attrs={"access_bytes": 4, "row_bytes": 128}, source=f"store {name}")

    def handed_over(self, name: str) -> Iterator[str]:
        """The result of this stage goes to the next."""
        if self.k.clusters:
            yield from self.share(name)
            self.add_up(name)
        else:
            self.ship(name, self.k.mine[name])

    def taken_over(self, name: str) -> None:
        if not self.k.clusters:
            self.fetch(name, f"load {name}", 0, self.k.shape.size)
            self.add_up(name)

    def norm(self) -> Iterator[str]:
        k, part = self.k, self.k.shape.hidden // self.k.shape.size
        for g in range(GROUPS):
            self.node("global_load", self.group(g), reads=[k.x.tile((self.rank * part + g * part // GROUPS,), (part // GROUPS,))],
                      writes=[self.sums.tile()], attrs={"access_bytes": 8, "row_bytes": 128}, source="load x")
            self.node("elementwise", self.group(g), reads=[self.sums.tile()], writes=[self.sums.tile()],
                      attrs={"elements": part // GROUPS, "fma": 1.0, "cvt": 0.5}, source="squares")
        self.fold(4, 5, "sum of squares")
        self.to_mine("squares", "sum of squares")
        yield from self.handed_over("squares")

    def project(self) -> Iterator[str]:
        k = self.k
        self.taken_over("squares")
        for g in range(GROUPS):
            length = k.shape.hidden // GROUPS
            where = (g * length,)
            self.node("global_load", self.group(g), reads=[k.x.tile(where, (length,))], writes=[self.sums.tile()],
                      attrs={"access_bytes": 16, "row_bytes": 128}, source="load x")
            self.node("shared_load", self.group(g), reads=[k.result["squares"].tile()], writes=[self.registers["squares"].tile()])
            self.node("elementwise", self.group(g), reads=[self.sums.tile(), self.registers["squares"].tile()],
                      writes=[self.sums.tile()], attrs={"elements": length, "fma": 2.0, "cvt": 1.0}, source="scale x")
            self.node("shared_store", self.group(g), reads=[self.sums.tile()], writes=[k.hidden.tile(where, (length,))],
                      source="scale x")
        self.sync()
        self.both("shared_load", reads=[k.hidden.tile()], writes=[self.sums.tile()], source="x into registers")
        for g, _, _ in self.tiles("project"):
            self.multiply(g, "x W")
        self.fold(k.lengths["qkv"], 5, "q, k, v")
        self.to_mine("qkv", "q, k, v")
        yield from self.handed_over("qkv")

    def attend(self) -> Iterator[str]:
        k, dim = self.k, self.k.shape.dim
        self.taken_over("qkv")
        self.both("shared_load", reads=[k.result["qkv"].tile()], writes=[self.registers["qkv"].tile()], source="RoPE")
        self.both("elementwise", reads=[self.registers["qkv"].tile()], writes=[self.sums.tile()],
                  attrs={"elements": 2 * dim, "fma": 2.0}, source="RoPE")
        for g, name, _ in self.tiles("attend"):
            self.multiply(g, "q K" if name == "K" else "p V")
            if name == "K":  # a token's score over the 16 threads that have its row; then its weight
                self.fold(TILE[0], 4, "scores", g)
                self.node("elementwise", self.group(g), reads=[self.sums.tile()], writes=[self.sums.tile()],
                          attrs={"elements": TILE[0] + dim, "fma": 1.0, "alu": 1.0, "sfu": 0.5, "depth": 3}, source="softmax")
        self.fold(4, 5, "maximum")
        self.to_mine("max", "maximum")
        if not k.clusters:
            self.fold(dim, 3, "o")
            self.to_mine("state", "maximum, denominator, o")
            self.ship("state", k.mine["state"])
            return
        yield from self.handed_over("max")
        self.both("shared_load", reads=[k.result["max"].tile()], writes=[self.registers["max"].tile()], source="rescale")
        self.both("elementwise", reads=[self.sums.tile(), self.registers["max"].tile()], writes=[self.sums.tile()],
                  attrs={"elements": 128, "fma": 1.0, "sfu": 1.0}, source="rescale")
        self.to_mine("sum", "denominator")
        yield from self.handed_over("sum")

    def combine(self) -> Iterator[str]:
        """The parts of attention of all CTAs; in one kernel that is what the exchanges do."""
        if not self.k.clusters:
            self.fetch("state", "load maxima, denominators, o", 0, self.k.shape.size)
            self.add_up("state", "out")
            self.ship("out", self.k.result["out"])
        yield from ()

    def output(self) -> Iterator[str]:
        k, dim = self.k, self.k.shape.dim
        if not k.clusters:
            self.fetch("out", "load o", self.rank, 1)
            self.node("shared_store", self.group(0), reads=[self.registers["out"].tile()], writes=[k.result["out"].tile()])
            self.sync()
        else:
            self.both("shared_load", reads=[k.result["sum"].tile()], writes=[self.registers["sum"].tile()], source="rescale")
            self.both("elementwise", reads=[self.sums.tile(), self.registers["sum"].tile()], writes=[self.sums.tile()],
                      attrs={"elements": dim, "fma": 1.0, "sfu": 0.1}, source="rescale")
            self.fold(dim, 3, "o")
            self.to_mine("out", "o")
            yield from self.handed_over("out")
        self.both("shared_load", reads=[k.result["out"].tile()], writes=[self.sums.tile()], source="o into registers")
        rows, part = TILE[0], k.shape.hidden // k.shape.size
        for g, _, i in self.tiles("output"):
            self.multiply(g, "o O")
            self.fold(rows, 4, "y", g)
            where = (self.rank * part + i * rows,)
            self.node("atomic", self.group(g), reads=[self.sums.tile()], writes=[k.y.tile(where, (rows,))],
                      attrs={"access_bytes": 4, "row_bytes": 128}, source="y")
        if k.exchange in IN_CLUSTER:
            yield from self.barrier("end")
