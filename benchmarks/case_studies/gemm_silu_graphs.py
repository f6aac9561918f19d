"""Persistent GEMM + SiLU on one SM as tile graphs, in four pipeline organisations.

C = silu(A B^T), one CTA, one output tile a wave; A has a new block of rows each wave, B is the same in all. Operands are fp16,
sums fp32, results fp16. All organisations run the same operations; they differ in who executes them and what waits for what:

- `naive`: two warpgroups do everything. Thread 0 also issues the loads, `stages - 1` steps ahead, across waves. One block barrier
  a step gives the slot back.
- `cooperative`: a producer warp loads. Two consumer warpgroups multiply each tile together, then both pass it through SiLU.
- `pingpong`: a producer warp loads sub-tiles of half the rows, each with all of B. Two consumer warpgroups take them in turn: the
  ring hands its slots to one for a whole sub-tile, then to the other, so that one's epilogue runs beside the other's products.
- `three_stage`: as cooperative, but two tiles of sums, and a third warpgroup that does the epilogue. It would read the sums of
  other warps, which no Hopper instruction can; the graph has an edge for it.

They are written with the graph API, not in TileLang: the third stage cannot be written for Hopper at all, and sums of 256 x 256
fill the register file, so no compiler would take the large tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gtsim.backend import Demand, demand
from gtsim.backend.demand import demand_of
from gtsim.graph import KernelGraph, Node, NodeType, TemplateBuilder, TileGraphBuilder, node_type, register_node_type
from gtsim.hwconfigs import Hardware

ORGANISATIONS = ("naive", "cooperative", "pingpong", "three_stage")
#: SiLU of one element. tanh: x/2 + x/2 tanh(x/2), one special function; exp: x / (1 + exp(-x)), an exponential and a reciprocal.
SILU = {"tanh": {"fma": 2.0, "sfu": 1.0, "depth": 3}, "exp": {"fma": 3.0, "sfu": 2.0, "depth": 5}}
WARPGROUP = 4  #: warps

register_node_type(NodeType(
    "tile_mma", "wgmma of one or more warpgroups at once, whose operands cost the tensor cores' time only", "tensor",
    node_type("wgmma").attrs, memory=False), replace=True)


@demand("tile_mma", replace=True)
def tile_mma(node: Node, hw: Hardware) -> Demand:
    """What `wgmma` asks for, but no shared-memory bandwidth for its operands, and all warps are through after one issue."""
    issue, product = demand_of(replace(node, type="wgmma"), hw).stages
    return Demand([replace(issue, uses={"issue": float(len(node.warps))}),
                   replace(product, uses={"tensor": product.uses["tensor"]})])


@dataclass(frozen=True)
class Design:
    """One kernel of the study.

    Attributes:
        organisation: one of :data:`ORGANISATIONS`.
        tile: rows, columns and depth of a step.
        k: depth of the product.
        waves: output tiles, one after the other.
        stages: slots of the ring between loads and products.
        collective: the product of a tile is one `tile_mma` of all its warps; else a `wgmma` of each warpgroup.
        silu: key of :data:`SILU`.
    """

    organisation: str
    tile: tuple[int, int, int]
    k: int = 1024
    waves: int = 10
    stages: int = 3
    collective: bool = True
    silu: str = "tanh"

    def build(self) -> KernelGraph:
        """The graph of one CTA."""
        return _Kernel(self).build()


def _warpgroups(warps: range) -> list[range]:
    return [warps[i:i + WARPGROUP] for i in range(0, len(warps), WARPGROUP)]


class _Kernel:
    """A graph under construction."""

    def __init__(self, d: Design) -> None:
        self.d = d
        self.rows, self.columns, self.depth = d.tile
        self.turns = 2 if d.organisation == "pingpong" else 1  # consumers that take sub-tiles in turn
        self.slot_rows = self.rows // self.turns
        self.steps = d.k // self.depth
        self.first = 0 if d.organisation == "naive" else WARPGROUP  # first warp of the consumers
        self.warps = range(self.first, self.first + 2 * WARPGROUP)
        three = d.organisation == "three_stage"
        threads = 32 * (self.first + 2 * WARPGROUP + (WARPGROUP if three else 0))
        b = self.b = TileGraphBuilder(d.organisation, grid=(1, 1, 1), threads=threads, arch="sm_90a")
        self.A = b.tensor("A", (d.waves * self.rows, d.k), "float16")
        self.B = b.tensor("B", (self.columns, d.k), "float16")
        self.C = b.tensor("C", (d.waves * self.rows, self.columns), "float16")
        self.a_s = b.buffer("a_s", (d.stages, self.slot_rows, self.depth), "float16", scope="shared", swizzle_bytes=128)
        self.b_s = b.buffer("b_s", (d.stages, self.columns, self.depth), "float16", scope="shared", swizzle_bytes=128)
        self.c_s = b.buffer("c_s", (self.rows, self.columns), "float16", scope="shared", swizzle_bytes=128)
        self.acc = b.buffer("acc", (2 if three else 1, self.rows, self.columns), "float32", scope="fragment")
        arrivals = 128 * (2 if self.turns == 1 else 1)
        # A consumer sees the phases of its own barriers only, so that each turn has its own pair a slot.
        self.full = [b.barrier(f"full of {i}", [1] * d.stages) for i in range(self.turns)]
        self.empty = [b.barrier(f"empty of {i}", [arrivals] * d.stages) for i in range(self.turns)]
        self.t: TemplateBuilder = b.template()
        self.loaded = 0
        uses: dict[tuple[int, int], int] = {}
        self.uses: list[tuple[int, int, int]] = []  # of each load: turn, slot, how often that turn has had the slot before
        for i in range(d.waves * self.turns * self.steps):
            key = (i // self.steps % self.turns, i % d.stages)
            self.uses.append((*key, uses.get(key, 0)))
            uses[key] = uses.get(key, 0) + 1

    def build(self) -> KernelGraph:
        if self.d.organisation == "naive":
            self._naive()
        else:
            self._produce()
            {"cooperative": self._cooperate, "pingpong": self._take_turns, "three_stage": self._three_stages}[
                self.d.organisation]()
        self.b.add_instances(self.t, [(0, 0, 0)])
        return self.b.build()

    # -- the operations -----------------------------------------------------------------------------------------------

    def _control(self, warps: range, role: str, loop: str) -> None:
        """Loop counter, slot and phase of the ring, and the branch back."""
        self.t.node("control", warps, attrs={"int_ops": 4, "branches": 1, "reason": "loop k"}, role=role, loop=loop)

    def _load(self, role: str) -> None:
        """The next slot of the ring: one thread loads its two tiles."""
        turn, slot, _ = self.uses[self.loaded]
        tile, step = divmod(self.loaded, self.steps)
        loop = f"tile={tile}, k={step}"
        full, k, n = self.full[turn][slot], step * self.depth, self.slot_rows
        self.t.node("tma_load", [0], reads=[self.A.tile((tile * n, k), (n, self.depth))],
                    writes=[self.a_s.tile((slot, 0, 0), (1, n, self.depth))], tx=full, source="load A", role=role, loop=loop)
        self.t.node("tma_load", [0], reads=[self.B.tile((0, k), (self.columns, self.depth))],
                    writes=[self.b_s.tile((slot, 0, 0), (1, self.columns, self.depth))], tx=full, arrive=[(full, 1)],
                    source="load B", role=role, loop=loop)
        self.loaded += 1

    def _wait_full(self, warps: range, at: int, role: str, loop: str) -> None:
        turn, slot, lap = self.uses[at]
        self.t.node("barrier_wait", warps, attrs={"barrier": "full"}, wait=(self.full[turn][slot], lap % 2), role=role, loop=loop)

    def _multiply(self, warps: range, at: int, role: str, loop: str, sums: int = 0,
                  drain: bool = True) -> None:
        """The product of a slot: of all `warps` at once, or of each of their warpgroups, which wait for it if `drain`."""
        slot, n, rows = self.uses[at][1], self.columns, self.slot_rows
        parts = self._parts(warps)
        for i, part in enumerate(parts):
            m = rows // len(parts)
            acc = self.acc.tile((sums, i * m, 0), (1, m, n))
            self.t.node("tile_mma" if self.d.collective else "wgmma", part,
                        reads=[self.a_s.tile((slot, i * m, 0), (1, m, self.depth)),
                               self.b_s.tile((slot, 0, 0), (1, n, self.depth)), acc],
                        writes=[acc], blocking=drain, group=None if drain else "wgmma", source="A B", role=role, loop=loop,
                        attrs={"m": m, "n": n, "k": self.depth, "dtype": "float16", "instruction": f"m64n{n}k16",
                               "instructions": m // 64 * (self.depth // 16)})
        if not drain:
            self.t.commit("wgmma", warps, node=False)

    def _epilogue(self, warps: range, tile: int, row: int, role: str, loop: str) -> None:
        """SiLU of the sums that `warps` share, from row `row` of an output tile on, and their way to C: each warpgroup writes its
        part to shared memory, a barrier over all of them, one store."""
        t, n, parts = self.t, self.columns, _warpgroups(warps)
        rows = self.rows if row == 0 and self.turns == 1 else self.slot_rows
        share, named = rows // len(parts), {"id": 1 + warps[0] // WARPGROUP}
        for part in parts:
            t.node("elementwise", part, attrs={"elements": share * n, **SILU[self.d.silu]}, source="silu", role=role, loop=loop)
            t.node("elementwise", part, attrs={"elements": share * n, "cvt": 0.5}, source="to fp16", role=role, loop=loop)
        t.wait_group("bulk", 0, warps[:1], role=role, loop=loop)  # the store before has left c_s
        t.node("cta_sync", warps, attrs=named, role=role, loop=loop)
        for i, part in enumerate(parts):
            t.node("shared_store", part, writes=[self.c_s.tile((row + i * share, 0), (share, n))], attrs={"access_bytes": 16},
                   source="to c_s", role=role, loop=loop)
            t.node("fence", part, attrs={"kind": "proxy_async"}, role=role, loop=loop)
        t.node("cta_sync", warps, attrs=named, role=role, loop=loop)
        t.node("tma_store", warps[:1], reads=[self.c_s.tile((row, 0), (rows, n))],
               writes=[self.C.tile((tile * self.rows + row, 0), (rows, n))], group="bulk", source="store C", role=role, loop=loop)
        t.commit("bulk", warps[:1], node=False)

    def _arrive(self, warps: range, barrier: object, role: str, loop: str) -> None:
        count = 32 * len(warps)
        self.t.node("barrier_arrive", warps, attrs={"count": count}, arrive=[(barrier, count)], role=role, loop=loop)

    # -- the organisations --------------------------------------------------------------------------------------------

    def _naive(self) -> None:
        total = self.d.waves * self.steps
        for _ in range(min(self.d.stages - 1, total)):
            self._load("all")
        for at in range(total):
            wave, k = divmod(at, self.steps)
            loop = f"w={wave}, k={k}"
            self._control(self.warps, "all", loop)
            self._wait_full(self.warps, at, "all", loop)
            self._multiply(self.warps, at, "all", loop, drain=False)
            if self.loaded < total:  # into the slot of the step before
                self._load("all")
            self.t.wait_group("wgmma", 0, self.warps, role="all", loop=loop)
            self.t.node("cta_sync", self.warps, attrs={"id": 0}, role="all", loop=loop)
            if k == self.steps - 1:
                self._epilogue(self.warps, wave, 0, "all", f"w={wave}")

    def _produce(self) -> None:
        """The producer warp: it loads a slot when whoever had it last has given it back."""
        for i in range(len(self.uses)):
            loop = f"load={i}"
            self._control(range(1), "producer", loop)
            if i >= self.d.stages:
                turn, slot, lap = self.uses[i - self.d.stages]
                self.t.node("barrier_wait", [0], attrs={"barrier": "empty"}, wait=(self.empty[turn][slot], lap % 2),
                            role="producer", loop=loop)
            self._load("producer")

    def _main_loop(self, warps: range, first: int, role: str, loop: str, sums: int = 0) -> None:
        """The products of one tile, from load number `first` on."""
        for k in range(self.steps):
            at, label = first + k, f"{loop}, k={k}"
            for part in self._parts(warps):
                self._control(part, role, label)
                self._wait_full(part, at, role, label)
            self._multiply(warps, at, role, label, sums)
            turn, slot, _ = self.uses[at]
            for part in self._parts(warps):
                self._arrive(part, self.empty[turn][slot], role, label)

    def _parts(self, warps: range) -> list[range]:
        """The sets of warps that move together through the main loop."""
        return [warps] if self.d.collective else _warpgroups(warps)

    def _cooperate(self) -> None:
        for wave in range(self.d.waves):
            self._main_loop(self.warps, wave * self.steps, "consumers", f"w={wave}")
            self._epilogue(self.warps, wave, 0, "consumers", f"w={wave}")

    def _take_turns(self) -> None:
        for i, warps in enumerate(_warpgroups(self.warps)):
            for wave in range(self.d.waves):
                self._main_loop(warps, (2 * wave + i) * self.steps, f"consumer {i}", f"w={wave}")
                self._epilogue(warps, wave, i * self.slot_rows, f"consumer {i}", f"w={wave}")

    def _three_stages(self) -> None:
        done, free = self.b.barrier("sums done", [256] * 2), self.b.barrier("sums free", [128] * 2)
        last = range(self.warps.stop, self.warps.stop + WARPGROUP)
        for wave in range(self.d.waves):
            sums, lap, loop = wave % 2, wave // 2, f"w={wave}"
            for part in self._parts(self.warps):
                self.t.node("barrier_wait", part, attrs={"barrier": "sums free"}, wait=(free[sums], lap % 2 ^ 1),
                            role="consumers", loop=loop)
            self._main_loop(self.warps, wave * self.steps, "consumers", loop, sums)
            for part in self._parts(self.warps):
                self._arrive(part, done[sums], "consumers", loop)
            self.t.node("barrier_wait", last, attrs={"barrier": "sums done"}, wait=(done[sums], lap % 2), role="epilogue",
                        loop=loop)
            self._epilogue(last, wave, 0, "epilogue", loop)
            self._arrive(last, free[sums], "epilogue", loop)
