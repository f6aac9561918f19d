"""Tile sizes by shape and architecture: one rule for all models, stated here, fitted to no measurement.

Products with more than 64 rows take the tile of `SIZES` that promises the shortest run: as many waves as one tile an SM makes,
each as long as the tensor cores take for a tile, or its operands at an SM's share of the L2 bandwidth; of equals the largest. Two
matrices share the width. Products with fewer rows are bound by the weights that they read: the tile is as low as the rows allow
(16, 32, 64), as wide as still gives every SM a tile, and so deep that four stages keep about 64 KB on their way to each SM.
"""

from __future__ import annotations

from ..hwconfigs import Hardware

#: Shared memory that the stages of a product may take, so that it is legal on sm_80 too.
MOST_STAGE_BYTES = 128 << 10
#: Tiles of products with many rows; sm_80 has no room for the sums of the first.
SIZES = ((128, 256), (128, 128), (128, 64), (64, 64))
#: Tiles of one strip: SMs that run at the same time share rows of both operands in the L2.
STRIP = 8
#: Parts of a cache that the joining kernel holds in registers.
MOST_SPLITS = 64


def product(rows: int, columns: int, depth: int, hw: Hardware, *, matrices: int = 1, element_bytes: int = 2,
            copies: int = 1) -> dict[str, int]:
    """Tile of a product of `rows` by `columns` over `depth`, for `matrices` second operands at once; `copies` such products run
    side by side (the experts of a layer)."""
    sms, wide = hw.chip.sm_count, hw.chip.arch.startswith("sm_9")

    def tiles(m: int, n: int) -> int:
        return copies * -(-rows // m) * -(-columns // n)

    if rows > 64:
        sizes = [(m, n // matrices) for m, n in SIZES if wide or n <= 128]
        multiplied = hw.resources["tensor"].rate_per_cycle * hw.sm.subpartitions / 2
        loaded = hw.resources["l2"].rate_per_cycle / sms / element_bytes

        def cycles(size: tuple[int, int]) -> float:
            """Of all waves, for one column of the operands."""
            m, n = size[0], size[1] * matrices
            return -(-tiles(*size) // sms) * max(m * n / multiplied, (m + n) / loaded)

        m, n = min(sizes, key=lambda size: (cycles(size), -size[0] * size[1]))
        depth_of_stage = 64 if wide else 32
        return {"block_M": m, "block_N": n, "block_K": depth_of_stage, "num_stages": 3,
                "threads": 256 if m == 128 and wide else 128}
    m = next(m for m in (16, 32, 64) if rows <= m)
    n = next((n for n in (128 // matrices, 64 // matrices, 32) if tiles(m, n) >= sms), 32)
    k = next(k for k in (256, 128, 64) if depth % k == 0 and (n * matrices <= 64 or k <= 128) or k == 64)
    stage = (m + n * matrices) * k * element_bytes
    return {"block_M": m, "block_N": n, "block_K": k, "num_stages": max(2, min(4, MOST_STAGE_BYTES // stage)), "threads": 128}


def prefill(hw: Hardware, dim: int) -> dict[str, int]:
    """Tiles of attention over a prompt: 128 queries; keys as many as two stages leave room for."""
    wide = hw.chip.arch.startswith("sm_9")
    return {"block_M": 128, "block_N": 128 if wide and dim <= 128 else 64 if dim <= 128 else 32, "num_stages": 2,
            "threads": 256}  # fmt: skip


def decode(hw: Hardware, batch: int, kv_heads: int, group: int, kv: int, dim: int) -> dict[str, int]:
    """Tiles of attention to a cache, and among how many CTAs each group's cache is split: so that the SM
    with most to do has the fewest tiles, where a CTA counts for one more than it has; of equal numbers the smallest."""
    block = 64 if dim <= 128 else 32
    most = -(-kv // block)

    def longest(splits: int) -> int:
        return -(-batch * kv_heads * splits // hw.chip.sm_count) * (-(-most // splits) + 1)

    splits = min(range(1, min(most, MOST_SPLITS) + 1), key=longest)
    return {"block_H": 16 * -(-group // 16), "block_N": block, "num_stages": 2, "threads": 128, "splits": splits}


def row_threads(columns: int) -> int:
    """Threads of a CTA that takes a row: 128, or more where a thread would hold more than 32 elements."""
    return next((t for t in (128, 256, 512) if columns <= 32 * t), 1024)
