"""How the CTAs of a head hand each other their results, in the ways that `fused_decode.py` lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gtsim.graph import Column, TemplateBuilder, TileRef

EXCHANGES = ("mbarrier", "dsmem", "tree", "memory", "grid", "kernels")
IN_CLUSTER = ("mbarrier", "dsmem", "tree")  #: those that need no memory
GROUPS, WARPS = 2, 8


class Exchanges:
    """One CTA: appends the operations of an exchange to its program. `k` is its kernel, with the tensors and buffers. Methods
    that are iterators yield where the CTAs of a cluster wait for each other."""

    k: Any
    t: TemplateBuilder
    rank: int
    cta: int
    head: Column
    registers: dict[str, Any]

    def node(self, type: str, warps: Sequence[int], **more: object) -> None:
        self.t.node(type, warps, cta=self.cta, **more)  # type: ignore[arg-type]

    def group(self, g: int) -> range:
        return range(4 * g, 4 * g + 4)

    def both(self, type: str, **more: object) -> None:
        """An operation of each warpgroup."""
        for g in range(GROUPS):
            self.node(type, self.group(g), **more)

    def sync(self) -> None:
        self.node("cta_sync", range(WARPS))

    def share(self, name: str) -> Iterator[str]:
        """What every CTA has in `mine` comes to all of them; ends with all of it in the registers of the first warpgroup."""
        source, size = f"exchange {name}", self.k.shape.size
        mine, values = self.k.mine[name].tile(), self.registers[name].tile()
        if self.k.exchange in IN_CLUSTER:
            self.node("shared_load", self.group(0), reads=[mine], writes=[values], source=source)
            self.node("shared_store", self.group(0), reads=[values], writes=[self.rows(name, self.rank, 1)], source=source)
        if self.k.exchange in ("dsmem", "mbarrier"):
            async_ = self.k.exchange == "mbarrier"
            for w in range(min(WARPS, size - 1)):  # a warp a CTA
                self.node("shared_load", [w], reads=[mine], writes=[values], source=source)
                for other in ((self.rank + i) % size for i in range(w + 1, size, WARPS)):
                    self.node("dsmem_store", [w], reads=[values], attrs={"access_bytes": 4}, source=source,
                              writes=[self.rows(name, self.rank, 1, other)],
                              arrive=[(self.k.came[name].at(other)[0], 1)] if async_ else [])
            if async_:
                self.node("barrier_wait", self.group(0), attrs={"barrier": f"came_{name}"}, wait=(self.k.came[name][0], 0),
                          source=source)
                yield source
            else:
                yield from self.barrier(source)
            self.node("shared_load", self.group(0), reads=[self.rows(name, 0, size)], writes=[values], source=source)
        elif self.k.exchange == "tree":
            yield from self.gather(name, source) if name == "qkv" else self.reduction(name, source)
        else:
            self.node("shared_load", self.group(0), reads=[mine], writes=[values], source=source)
            self.node("global_store", self.group(0), reads=[values], writes=[self.in_memory(name, self.rank, 1)],
                      attrs={"access_bytes": 4, "row_bytes": 128}, source=source)
            yield from self.barrier(source)
            self.fetch(name, source, 0, size)

    def rows(self, name: str, first: int, count: int, cta: int | None = None) -> TileRef:
        """Rows of what has come from other CTAs, in this CTA or in another one."""
        return self.k.all[name].tile((first, 0), (count, self.k.lengths[name]), cta=cta)

    def gather(self, name: str, source: str) -> Iterator[str]:
        """In rounds: what has come so far goes to the CTA `stride` ranks further."""
        size, values, stride = self.k.shape.size, self.registers[name].tile(), 1
        while stride < size:
            for i in range(stride):
                row = (self.rank - i) % size
                self.node("shared_load", [i % WARPS], reads=[self.rows(name, row, 1)], writes=[values], source=source)
                self.node("dsmem_store", [i % WARPS], reads=[values], attrs={"access_bytes": 4}, source=source,
                          writes=[self.rows(name, row, 1, (self.rank + stride) % size)])
            yield from self.barrier(source)
            stride *= 2
        self.node("shared_load", self.group(0), reads=[self.rows(name, 0, size)], writes=[values], source=source)

    def reduction(self, name: str, source: str) -> Iterator[str]:
        """In rounds: the sum so far goes to the CTA `stride` ranks further, a place there for each round."""
        size, values, stride, place = self.k.shape.size, self.registers[name].tile(), 1, 0
        while stride < size:
            self.node("dsmem_store", self.group(0), reads=[values], attrs={"access_bytes": 4}, source=source,
                      writes=[self.k.rounds[name].tile((place, 0), (1, self.k.lengths[name]), cta=(self.rank + stride) % size)])
            yield from self.barrier(source)
            self.node("shared_load", self.group(0), reads=[self.k.rounds[name].tile((place, 0), (1, self.k.lengths[name]))],
                      writes=[values], source=source)
            self.node("elementwise", self.group(0), reads=[values], writes=[values], source=source,
                      attrs={"elements": self.k.lengths[name], "fma": 1.0})
            stride, place = 2 * stride, place + 1

    def barrier(self, source: str) -> Iterator[str]:
        if self.k.exchange == "grid":
            self.sync()
            self.node("grid_sync", range(WARPS), source=source)
        elif self.k.clusters:
            self.t.cluster_sync(range(WARPS), cta=self.cta, source=source)
        yield source

    def in_memory(self, name: str, rank: int, rows: int) -> TileRef:
        return self.k.work[name].tile((self.head, rank, 0), (1, rows, self.k.lengths[name]))

    def fetch(self, name: str, source: str, first: int, count: int) -> None:
        """Load what CTAs of the head have left in global memory."""
        self.node("global_load", self.group(0), reads=[self.in_memory(name, first, count)], source=source,
                  writes=[self.registers[name].tile()], attrs={"access_bytes": 4, "row_bytes": 128})

    def add_up(self, name: str, results: str = "") -> None:
        """Add up (or take the maximum of, or just keep) what the CTAs have sent, and hand it to all warps."""
        size, length = self.k.shape.size, self.k.lengths[name]
        to = results or name
        self.node("elementwise", self.group(0), reads=[self.registers[name].tile()], writes=[self.registers[to].tile()],
                  attrs={"elements": size * length, "fma": 1.0}, source=f"combine {name}")
        self.node("shared_store", self.group(0), reads=[self.registers[to].tile()], writes=[self.k.result[to].tile()],
                  source=f"combine {name}")
        self.sync()
