"""Warps that the CTA does not have, and on-chip tiles that leave their buffer."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..findings import Finding
from ..subject import Subject, rule


@rule("structure")
def bounds(subject: Subject) -> Iterable[Finding]:
    """At most one finding a template and buffer. Tiles at the edge of a tensor in global memory are clipped, hence fine."""
    graph = subject.graph
    for t in graph.templates:
        worst = int(t.node_warps.max()).bit_length() if t.nodes else 0
        if worst > subject.warps:
            i = int(np.argmax(t.node_warps))
            yield Finding(
                "bounds",
                "error",
                f"{t.name} {graph.node(t, i).label()}",
                f"uses warp {worst - 1} of a CTA of {subject.warps} warps",
            )
        for b, buffer in enumerate(graph.buffers):
            if buffer.scope == "global":
                continue
            rank = len(buffer.shape)
            tiles = np.flatnonzero(t.tile_buffer == b)
            low, end = t.tile_offset[tiles, :rank], t.tile_offset[tiles, :rank] + t.tile_extent[tiles, :rank]
            outside = (low < 0).any(axis=1) | (end > np.array(buffer.shape)).any(axis=1)
            if outside.any():
                i = int(tiles[np.argmax(outside)])
                node = int(np.searchsorted(t.tile_ptr, i, side="right") - 1)
                yield Finding(
                    "bounds",
                    "error",
                    f"{t.name} {graph.node(t, node).label()}",
                    f"tile {t.tile_offset[i, :rank].tolist()}+{t.tile_extent[i, :rank].tolist()} leaves buffer "
                    f"{buffer.name!r} of shape {list(buffer.shape)}",
                )
