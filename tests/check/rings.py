"""Hand-built kernels that the checks are tried on: a producer warp and a consumer warpgroup around a ring of slots."""

from __future__ import annotations

from collections.abc import Sequence

from gtsim.graph import TileGraphBuilder

MATH = range(4, 8)


class Ring:
    """A ring of `stages` slots between warp 0, which loads, and warps 4-7, which multiply; each part is added by a call."""

    def __init__(self, stages: int, *, threads: int = 256, empty: int = 128, registers: int = 168) -> None:
        b = self.b = TileGraphBuilder("ring", grid=(4, 1, 1), threads=threads, registers_per_thread=registers, arch="sm_90a")
        self.stages = stages
        self.x = b.tensor("A", (256, 1 << 16), "float16")
        self.s = b.buffer("a_s", (stages, 64, 64), "float16", scope="shared", swizzle_bytes=128)
        self.f = b.buffer("acc", (64, 64), "float32", scope="fragment")
        self.full, self.empty = b.barrier("full", [1] * stages), b.barrier("empty", [empty] * stages)
        self.t = b.template("class 0")
        self.row = self.t.column("row")

    def wait_empty(self, slot: int, parity: int, loop: str = "") -> None:
        self.t.node("barrier_wait", [0], wait=(self.empty[slot], parity), source="wait(empty)", role="producer", loop=loop)

    def load(self, slot: int, at: int, loop: str = "", *, arrive: bool = True) -> None:
        self.t.node(
            "tma_load",
            [0],
            reads=[self.x.tile((self.row, 64 * at), (64, 64))],
            writes=[self.s.tile((slot, 0, 0), (1, 64, 64))],
            attrs={"tensor_map": True, "box": (64, 64)},
            tx=self.full[slot],
            arrive=[(self.full[slot], 1)] if arrive else [],
            source="copy(A -> a_s)",
            role="producer",
            loop=loop,
        )

    def wait_full(self, slot: int, parity: int, loop: str = "", warps: Sequence[int] = MATH, role: str = "consumer") -> None:
        self.t.node("barrier_wait", warps, wait=(self.full[slot], parity), source="wait(full)", role=role, loop=loop)

    def product(
        self, slot: int, loop: str = "", warps: Sequence[int] = MATH, role: str = "consumer", *, blocking: bool = True
    ) -> None:
        self.t.node(
            "wgmma",
            warps,
            reads=[self.s.tile((slot, 0, 0), (1, 64, 64)), self.f.tile()],
            writes=[self.f.tile()],
            attrs={"m": 64, "n": 64, "k": 64, "dtype": "float16", "instruction": "m64n64k16"},
            blocking=blocking,
            source="gemm(a_s -> acc)",
            role=role,
            loop=loop,
        )

    def arrive_empty(
        self, slot: int, loop: str = "", warps: Sequence[int] = MATH, role: str = "consumer", count: int = 128
    ) -> None:
        self.t.node(
            "barrier_arrive",
            warps,
            arrive=[(self.empty[slot], count)],
            attrs={"count": count},
            source="arrive(empty)",
            role=role,
            loop=loop,
        )

    def done(self) -> TileGraphBuilder:
        """The builder with its instances."""
        self.b.add_instances(self.t, [(i, 0, 0) for i in range(4)], {"row": [64 * i for i in range(4)]})
        return self.b


def persistent(trips: int, stages: int, tiles: int, *, carry: bool) -> TileGraphBuilder:
    """A persistent kernel: `tiles` output tiles, one after the other, of `trips` K steps each.

    `carry`: slot and phase go on counting from tile to tile; otherwise both start over with every tile, as if the barriers had
    been initialised again.
    """
    ring = Ring(stages)
    for tile in range(tiles):
        for k in range(trips):
            n, loop = (tile * trips if carry else 0) + k, f"tile={tile}, k={k}"
            slot, parity = n % stages, n // stages % 2
            ring.wait_empty(slot, parity ^ 1, loop)
            ring.load(slot, tile * trips + k, loop)
            ring.wait_full(slot, parity, loop)
            ring.product(slot, loop)
            ring.arrive_empty(slot, loop)
    return ring.done()


def plain(trips: int, stages: int, **kwargs: int) -> TileGraphBuilder:
    """One tile of :func:`persistent`, correct."""
    return persistent(trips, stages, 1, carry=True, **kwargs)
