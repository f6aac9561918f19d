"""Tiles that lie wholly outside of their tensor: metadata that names rows which do not exist moves nothing, and looks fast."""

from __future__ import annotations

import numpy as np

from ...graph import KernelGraph


def outside(graph: KernelGraph) -> list[str]:
    """One line for each tensor that some block uses at a place that is wholly outside of it."""
    worst: dict[int, tuple[int, tuple[int, ...], tuple[int, ...], str]] = {}
    for at, t in enumerate(graph.templates):
        members = np.flatnonzero(graph.instances.template == at)
        owner = np.repeat(np.arange(t.nodes), np.diff(t.tile_ptr))
        world = np.flatnonzero(np.array([b.scope == "global" for b in graph.buffers], dtype=bool)[t.tile_buffer])
        parts = (t.tile_buffer[world, None], t.tile_offset[world], t.tile_extent[world], t.tile_column[world])
        key = np.concatenate(parts, axis=1)
        for row in world[np.unique(key, axis=0, return_index=True)[1]].tolist():
            buffer = graph.buffers[t.tile_buffer[row]]
            rank = len(buffer.shape)
            start = np.broadcast_to(t.tile_offset[row, :rank], (len(members), rank)).copy()
            for d, column in enumerate(t.tile_column[row, :rank].tolist()):
                if column >= 0:
                    start[:, d] += graph.instances.columns[members, column]
            out = ((start >= np.array(buffer.shape)) | (start + t.tile_extent[row, :rank] <= 0)).any(axis=1)
            if out.any() and int(t.tile_buffer[row]) not in worst:
                i = int(np.argmax(out))
                source = graph.strings[t.node_source[owner[row]]]
                worst[int(t.tile_buffer[row])] = (
                    int(out.sum()), tuple(graph.instances.block[members[i]].tolist()), tuple(start[i].tolist()), source)
    return [
        f"block {block} uses {graph.buffers[b].name}[{', '.join(map(str, start))}] at {source}, outside of its shape "
        f"{list(graph.buffers[b].shape)}: nothing moves there ({count} such block{'s' if count > 1 else ''}). Is the metadata "
        "right?"
        for b, (count, block, start, source) in worst.items()
    ]
