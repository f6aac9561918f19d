"""Shared tiles whose layout makes several lanes meet in one bank."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...banks import BANK_BYTES, conflict, matrix_conflict, row_conflict
from ..findings import Finding
from ..subject import Subject, rule


@rule("cost")
def bank_conflicts(subject: Subject) -> Iterable[Finding]:
    """Operands of tensor cores that are read from shared memory without a swizzle."""
    graph = subject.graph
    kinds = [i for i, n in enumerate(graph.type_names) if n in ("mma", "wgmma", "tcgen05_mma")]
    told: set[int] = set()
    for t in graph.templates:
        owner = np.repeat(np.arange(t.nodes), np.diff(t.tile_ptr))
        rows = np.flatnonzero(np.isin(t.node_type[owner], kinds) & (t.tile_mode == 1))
        _, first = np.unique(t.tile_buffer[rows], return_index=True)
        for i in rows[first].tolist():
            b = int(t.tile_buffer[i])
            buffer = graph.buffers[b]
            degree = int(matrix_conflict(buffer))
            if b in told or buffer.scope != "shared" or degree < 2:
                continue
            told.add(b)
            node = graph.node(t, int(owner[i]))
            stride = buffer.element_strides()[-2] * buffer.bits // 8
            yield Finding(
                "bank-conflict",
                "warning",
                node.source or node.label(),
                f"{node.type} reads {buffer.name} without a swizzle: rows {stride} bytes apart meet in the same banks, "
                f"{degree} to 1",
                "Use a swizzled layout, or pad the rows by 16 bytes.",
                {"buffer": buffer.name, "ways": degree, "row_bytes": stride},
            )


@rule("cost")
def lane_conflicts(subject: Subject) -> Iterable[Finding]:
    """Loads and stores of shared memory whose lanes meet in the same banks."""
    told: set[tuple[str, str]] = set()
    for t, i in subject.sites("shared_load", "shared_store"):
        node = subject.graph.node(t, i)
        tile = next((x for x in node.tiles if x.buffer.scope == "shared"), None)
        access = min(node.attrs.get("access_bytes", 16), 16)
        lanes, steps = node.attrs.get("lanes", ()), node.attrs.get("lane_steps", ())
        if tile is None or access < 1 or len(lanes) != len(steps):
            continue
        factor = conflict(tile.buffer, lanes, steps, access) if lanes else row_conflict(tile, access)
        ways = int(factor * min(access / BANK_BYTES, 1))  # narrow lanes leave a part of the banks idle, which is no conflict
        key = (node.source, tile.buffer.name)
        if ways < 2 or key in told:
            continue
        told.add(key)
        does = "reads" if tile.mode == "read" else "writes"
        yield Finding(
            "bank-conflict",
            "warning",
            node.source or node.label(),
            f"{node.type} {does} {tile.buffer.name} with lanes that meet in the same banks, {ways} to 1",
            "Let neighbouring lanes take neighbouring columns, pad the rows by 16 bytes, or use a swizzled layout.",
            {"buffer": tile.buffer.name, "ways": ways},
        )
