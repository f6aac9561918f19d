"""What is known of register tiles before layout inference: which are tensor-core accumulators, and who holds which part.

Fragments that meet in one element-wise statement or copy get one layout; a fragment that a GEMM writes (or reads as its A
operand) has the tensor-core layout, and the others follow it. Row vectors follow the fragment whose rows they index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .program import Storage
from .warps import Active, Grid, Share, even_shares


@dataclass
class Layouts:
    """Facts about fragments, collected while the program is translated and asked when it is run."""

    _group: dict[Storage, Storage] = field(default_factory=dict)
    _gemm: dict[Storage, tuple[int, int, Callable[[int], Grid]]] = field(default_factory=dict)
    _vector: dict[Storage, tuple[Storage, int]] = field(default_factory=dict)

    def find(self, storage: Storage) -> Storage:
        """Representative of the fragments with the same layout."""
        while storage in self._group:
            storage = self._group[storage]
        return storage

    def same(self, a: Storage, b: Storage) -> None:
        """`a` and `b` are used element by element together."""
        a, b = self.find(a), self.find(b)
        if a is not b:
            self._group[b] = a
            if b in self._gemm:
                self._gemm.setdefault(a, self._gemm[b])

    def gemm(self, storage: Storage, rows: int, cols: int, grid: Callable[[int], Grid]) -> None:
        """A GEMM holds `storage` (rows x cols) in its accumulator layout; `grid(warps)` tells how."""
        self._gemm.setdefault(self.find(storage), (rows, cols, grid))

    def vector(self, vector: Storage, matrix: Storage, dim: int) -> None:
        """`vector` has one element for each index of dimension `dim` of `matrix`."""
        self._vector.setdefault(vector, (matrix, dim))

    def is_mma(self, storage: Storage) -> bool:
        """Whether the fragment has the tensor-core accumulator layout."""
        return self.find(storage) in self._gemm

    def warp_columns(self, storage: Storage, warps: int) -> int:
        """How many warps of a set share one row of a tensor-core fragment."""
        return self._gemm[self.find(storage)][2](warps).n

    def boxes(self, storage: Storage, active: Active) -> list[list[tuple[int, int]]] | None:
        """For each warpgroup the (start, extent) a dimension of the part of `storage` it holds; None if not known."""
        known = self._gemm.get(self.find(storage))
        if known is not None and len(storage.shape) == 2:
            rows, cols, grid = known
            if storage.shape != (rows, cols):
                return None
            warps, first, out = grid(len(active.warps)), 0, []
            for part in active.parts:
                r0, r1, c0, c1 = warps.box(rows, cols, first, len(part))
                out.append([(r0, r1 - r0), (c0, c1 - c0)])
                first += len(part)
            return out
        if storage in self._vector and len(storage.shape) == 1:
            matrix, dim = self._vector[storage]
            held = self.boxes(matrix, active)
            if held is not None and matrix.shape[dim] == storage.shape[0]:
                return [[box[dim]] for box in held]
        return None

    def shares(self, active: Active, extents: Sequence[int], uses: Sequence[tuple[Storage, Sequence[int | None]]]) -> list[Share]:
        """Split an iteration space over the warpgroups of `active`.

        Args:
            active: who executes.
            extents: the iteration space.
            uses: fragments and, a fragment dimension each, the iteration dimension that indexes it (None if none does).
        """
        if len(active.parts) == 1:
            return even_shares(active.parts, extents)
        for storage, dims in sorted(uses, key=lambda u: -len(u[0].shape)):
            held = self.boxes(storage, active)
            if held is None:
                continue
            out = []
            for part, box in zip(active.parts, held, strict=True):
                offset, extent = [0] * len(extents), list(extents)
                for (start, size), d in zip(box, dims, strict=False):
                    if d is not None and start + size <= extents[d]:
                        offset[d], extent[d] = start, size
                count = 1
                for e in extent:
                    count *= e
                out.append(Share(part, tuple(offset), tuple(extent), count))
            return out
        return even_shares(active.parts, extents)
