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
    """A box of a buffer as the builder takes it: origins are ints or :class:`Column`."""

    buffer: int
    origin: tuple[int | Column, ...]
    extent: tuple[int, ...]


class BufferHandle:
    """A buffer of the graph under construction."""

    def __init__(self, index: int, buffer: Buffer) -> None:
        self.index, self.info = index, buffer

    def tile(self, origin: Sequence[int | Column] | None = None, extent: Sequence[int] | None = None) -> TileRef:
        """The box of `extent` elements at `origin`; the whole buffer by default.

        Raises:
            GraphError: the rank does not match the buffer's.
        """
        rank = len(self.info.shape)
        origin = tuple(origin) if origin is not None else (0,) * rank
        extent = tuple(int(e) for e in extent) if extent is not None else self.info.shape
        if len(origin) != rank or len(extent) != rank:
            raise GraphError(f"buffer {self.info.name!r} has {rank} dimensions, the tile has {len(origin)} and {len(extent)}")
        return TileRef(self.index, origin, extent)


class BarrierHandle:
    """An array of mbarriers of the graph under construction; index it to name one slot."""

    def __init__(self, barrier: Barrier) -> None:
        self.barrier = barrier

    def __getitem__(self, slot: int) -> tuple[Barrier, int]:
        if not 0 <= slot < len(self.barrier.counts):
            raise GraphError(f"barrier {self.barrier.name!r} has {len(self.barrier.counts)} slots, not slot {slot}")
        return self.barrier, slot
