"""Which expert gets which rows: from counts to the integer tensors that the kernels of a mixture of experts read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import UsageError


def balanced(tokens: int, top_k: int, experts: int) -> list[int]:
    """Rows of each expert if they share out as evenly as they can."""
    rows = tokens * top_k
    return [rows // experts + (i < rows % experts) for i in range(experts)]


def check_counts(counts: Sequence[int], tokens: int, top_k: int, experts: int) -> list[int]:
    """`counts` as rows of each expert. Raises UsageError where no routing of `tokens` to `top_k` experts each gives them."""
    if len(counts) != experts:
        raise UsageError(f"the routing has {len(counts)} counts, and the model {experts} experts. Give one for each.")
    if sum(counts) != tokens * top_k:
        raise UsageError(f"the routing has {sum(counts)} rows, and {tokens} tokens with {top_k} experts each make "
                         f"{tokens * top_k}. Give counts for this number of tokens, or balanced.")
    if bad := [n for n in counts if not 0 <= n <= tokens]:
        raise UsageError(f"the routing gives {bad[0]} rows to one expert, and there are {tokens} tokens.")
    return [int(n) for n in counts]


def tiles_of(counts: Sequence[int], block_M: int) -> dict[str, np.ndarray]:
    """Expert, first row and number of rows of each row tile, int32[tiles] each."""
    tiles = [(e, low, min(block_M, n - low)) for e, n in enumerate(counts) for low in range(0, n, block_M)]
    starts = np.concatenate([[0], np.cumsum(counts)])
    return {
        "tile_expert": np.array([e for e, _, _ in tiles], dtype=np.int32),
        "tile_start": np.array([starts[e] + low for e, low, _ in tiles], dtype=np.int32),
        "tile_rows": np.array([n for _, _, n in tiles], dtype=np.int32),
    }


def places_of(counts: Sequence[int], tokens: int, top_k: int) -> tuple[np.ndarray, np.ndarray]:
    """Token of each row, int32[rows], and rows of each token, int32[tokens, top_k]. Tokens take turns, so that none has the same
    expert twice."""
    source = (np.arange(sum(counts)) % tokens).astype(np.int32)
    place = np.argsort(source, kind="stable").reshape(tokens, top_k).astype(np.int32)
    return source, place
