"""From drafts to the flat arrays of a template."""

from __future__ import annotations

from typing import Any

import numpy as np

from .model import TEMPLATE_ARRAYS, Reason, Template
from .replay import Draft

_PROGRAM = int(Reason.PROGRAM)


def freeze(name: str, drafts: list[Draft], order: list[int], versions: dict[int, tuple[list[int], list[int]]],
           rank: int) -> Template:
    """The template of `drafts` in the execution order `order`, with tiles of `rank` dimensions."""
    position = {node: i for i, node in enumerate(order)}
    ordered = [drafts[i] for i in order]
    masks = {warps: sum(1 << w for w in warps) for warps in {d.warps for d in ordered}}
    accesses = [a for d in ordered for part in (d.reads, d.writes) for a in part]
    known = {a: i for i, a in enumerate(dict.fromkeys(accesses))}
    which = np.array([known[a] for a in accesses], dtype=np.int64)

    def per_tile(field: str, fill: int) -> Any:
        rows = [getattr(a, field) + (fill,) * (rank - len(a.extent)) for a in known]
        return np.array(rows, dtype=np.int64).reshape(-1, rank)[which]

    edges: list[tuple[int, int, int, int, int]] = []
    for at, d in enumerate(ordered):
        for source, program_kind in d.program.items():
            edges.append((position[source], at, program_kind, _PROGRAM, -1))
        for source, (kind, reason, label) in d.preds.items():
            edges.append((position[source], at, kind, reason, label))
    edges.sort()
    edge = np.array(edges, dtype=np.int64).reshape(-1, 5)
    counts = np.bincount(edge[:, 0], minlength=len(order))
    arrays = {"node_type": [d.type_id for d in ordered],
              "node_warps": np.array([masks[d.warps] for d in ordered], dtype=np.uint64),  # uint64 for bit 63
              "node_cta": [d.cta for d in ordered], "node_blocking": [d.blocking for d in ordered],
              "node_attrs": [d.attrs_id for d in ordered], "node_source": [d.source_id for d in ordered],
              "node_role": [d.role_id for d in ordered], "node_loop": [d.loop_id for d in ordered],
              "tile_ptr": np.cumsum([0, *(len(d.reads) + len(d.writes) for d in ordered)]),
              "tile_buffer": np.array([a.buffer for a in known], dtype=np.int64)[which],
              "tile_cta": np.array([a.cta for a in known], dtype=np.int64)[which],
              "tile_mode": [mode for d in ordered for mode in (1,) * len(d.reads) + (2,) * len(d.writes)],
              "tile_version": [n for i in order for part in versions[i] for n in part],
              "tile_offset": per_tile("offset", 0), "tile_column": per_tile("column", -1), "tile_extent": per_tile("extent", 1),
              "edge_ptr": np.concatenate([[0], np.cumsum(counts)]), "edge_dst": edge[:, 1], "edge_kind": edge[:, 2],
              "edge_reason": edge[:, 3], "edge_label": edge[:, 4], "edge_each": np.zeros(len(edge), dtype=bool),
              **{k: [] for k, (_, shape) in TEMPLATE_ARRAYS.items() if shape == "repeats"},
              "repeat_step": np.zeros((0, rank), dtype=np.int64)}
    return Template(name, **{k: np.asarray(v).astype(TEMPLATE_ARRAYS[k][0]) for k, v in arrays.items()})
