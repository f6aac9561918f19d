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
    node_rows: dict[str, list[Any]] = {k: [] for k, (_, shape) in TEMPLATE_ARRAYS.items() if shape == "nodes"}
    tiles: list[tuple[int, int, int]] = []
    offsets: list[tuple[int, ...]] = []
    columns: list[tuple[int, ...]] = []
    extents: list[tuple[int, ...]] = []
    tile_ptr = [0]
    edges: list[tuple[int, int, int, int, int]] = []
    for at, i in enumerate(order):
        d = drafts[i]
        mask = 0
        for w in d.warps:
            mask |= 1 << w
        for key, value in (("node_type", d.type_id), ("node_warps", mask), ("node_cta", d.cta), ("node_blocking", d.blocking),
                           ("node_attrs", d.attrs_id), ("node_source", d.source_id), ("node_role", d.role_id),
                           ("node_loop", d.loop_id)):
            node_rows[key].append(value)
        for mode, accesses, numbers in ((1, d.reads, versions[i][0]), (2, d.writes, versions[i][1])):
            for access, number in zip(accesses, numbers, strict=True):
                pad = (0,) * (rank - len(access.offset))
                tiles.append((access.buffer, mode, number))
                offsets.append(access.offset + pad)
                extents.append(access.extent + tuple(1 for _ in pad))
                columns.append(access.column + tuple(-1 for _ in pad))
        tile_ptr.append(len(tiles))
        for source, program_kind in d.program.items():
            edges.append((position[source], at, program_kind, _PROGRAM, -1))
        for source, (kind, reason, label) in d.preds.items():
            edges.append((position[source], at, kind, reason, label))
    edges.sort()
    edge = np.array(edges, dtype=np.int64).reshape(-1, 5)
    tile = np.array(tiles, dtype=np.int64).reshape(-1, 3)
    counts = np.bincount(edge[:, 0], minlength=len(order))
    arrays = {**node_rows, "tile_ptr": tile_ptr, "tile_buffer": tile[:, 0], "tile_mode": tile[:, 1], "tile_version": tile[:, 2],
              "tile_offset": np.array(offsets, dtype=np.int64).reshape(-1, rank),
              "tile_column": np.array(columns, dtype=np.int64).reshape(-1, rank),
              "tile_extent": np.array(extents, dtype=np.int64).reshape(-1, rank),
              "edge_ptr": np.concatenate([[0], np.cumsum(counts)]), "edge_dst": edge[:, 1], "edge_kind": edge[:, 2],
              "edge_reason": edge[:, 3], "edge_label": edge[:, 4], "edge_each": np.zeros(len(edge), dtype=bool),
              **{k: [] for k, (_, shape) in TEMPLATE_ARRAYS.items() if shape == "repeats"},
              "repeat_step": np.zeros((0, rank), dtype=np.int64)}
    masks = {"node_warps": np.array(node_rows["node_warps"], dtype=np.uint64)}  # uint64 for bit 63
    return Template(name, **{k: np.asarray(v).astype(TEMPLATE_ARRAYS[k][0]) for k, v in {**arrays, **masks}.items()})
