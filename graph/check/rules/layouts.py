"""Shared tiles whose layout makes several lanes meet in one bank."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ...model import Buffer
from ..findings import Finding
from ..subject import Subject, rule

_BANKS_BYTES = 128  #: what all banks of shared memory deliver in one access
_UNIT = 16  #: bytes of one row that a matrix load takes at a time


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
            degree = conflict(buffer)
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


def conflict(buffer: Buffer) -> int:
    """How many of the eight 16-byte rows of one matrix load meet in one bank."""
    if buffer.swizzle_bytes or len(buffer.shape) < 2 or buffer.shape[-2] < 8:
        return 1
    stride = buffer.element_strides()[-2] * buffer.bits // 8
    if stride % _UNIT:
        return 1
    return max(8 // (_BANKS_BYTES // math.gcd(stride, _BANKS_BYTES)), 1)
