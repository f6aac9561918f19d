"""Shared tiles whose layout makes several lanes meet in one bank."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...banks import matrix_conflict
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
