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
    for index, t in enumerate(graph.templates):
        moved = t.steps()
        if len(t.repeat_first):
            runs = np.append(graph.times(index).max(axis=0, initial=1) - 1, 0)
            moved *= np.repeat(runs[t.repeat_of()], np.diff(t.tile_ptr))[:, None]
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
            low = t.tile_offset[tiles, :rank]
            last = low + moved[tiles, :rank]  # in the last run of a repeated loop body
            end = np.maximum(low, last) + t.tile_extent[tiles, :rank]
            outside = (np.minimum(low, last) < 0).any(axis=1) | (end > np.array(buffer.shape)).any(axis=1)
            if outside.any():
                i = int(tiles[np.argmax(outside)])
                node = int(np.searchsorted(t.tile_ptr, i, side="right") - 1)
                origin = (t.tile_offset[i, :rank] + moved[i, :rank]).tolist()
                yield Finding(
                    "bounds",
                    "error",
                    f"{t.name} {graph.node(t, node).label()}",
                    f"tile {origin}+{t.tile_extent[i, :rank].tolist()} leaves buffer "
                    f"{buffer.name!r} of shape {list(buffer.shape)}",
                )
