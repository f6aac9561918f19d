"""What the builder hands out: buffers, tiles of them, barriers, and columns of the instance table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import GraphError
from .model import Buffer
from .replay import Barrier


@dataclass(frozen=True)
class Column:
    """A column of the instance table, plus a constant: an origin that differs by instance."""

    index: int
    delta: int = 0

    def __add__(self, delta: int) -> Column:
        return Column(self.index, self.delta + delta)


@dataclass(frozen=True)
class TileRef:
    """A box of a buffer as the builder takes it: origins are ints or :class:`Column`. `cta` is the rank of the CTA whose
    memory it lies in, None for the CTA of the node that uses it."""

    buffer: int
    origin: tuple[int | Column, ...]
    extent: tuple[int, ...]
    cta: int | None = None


class BufferHandle:
    """A buffer of the graph under construction."""

    def __init__(self, index: int, buffer: Buffer) -> None:
        self.index, self.info = index, buffer

    def tile(self, origin: Sequence[int | Column] | None = None, extent: Sequence[int] | None = None, *,
             cta: int | None = None) -> TileRef:
        """The box of `extent` elements at `origin`; the whole buffer by default.

        Args:
            origin, extent: first element and size, a dimension each.
            cta: rank of the CTA of the cluster whose shared memory is meant; that of the node itself if None.

        Raises:
            GraphError: the rank does not match the buffer's, or memory of another CTA that no CTA can reach.
        """
        if cta is not None and self.info.scope != "shared":
            raise GraphError(f"buffer {self.info.name!r} is in {self.info.scope} memory; only shared memory can be reached from "
                             "another CTA")
        rank = len(self.info.shape)
        origin = tuple(origin) if origin is not None else (0,) * rank
        extent = tuple(int(e) for e in extent) if extent is not None else self.info.shape
        if len(origin) != rank or len(extent) != rank:
            raise GraphError(f"buffer {self.info.name!r} has {rank} dimensions, the tile has {len(origin)} and {len(extent)}")
        return TileRef(self.index, origin, extent, cta)


class BarrierHandle:
    """An array of mbarriers of the graph under construction; index it to name one slot. Every CTA of a cluster has its own
    copy: `bar[i]` is that of the node's CTA, `bar.at(rank)[i]` that of another one."""

    def __init__(self, barrier: Barrier) -> None:
        self.barrier = barrier

    def at(self, cta: int) -> BarrierHandle:
        """The copy in the CTA with rank `cta` of the cluster."""
        return BarrierHandle(self.barrier.copy(cta))

    def __getitem__(self, slot: int) -> tuple[Barrier, int]:
        if not 0 <= slot < len(self.barrier.counts):
            raise GraphError(f"barrier {self.barrier.name!r} has {len(self.barrier.counts)} slots, not slot {slot}")
        return self.barrier, slot
