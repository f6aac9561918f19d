"""The tile graph: buffers, tiles, templates, instances, and the kernel graph that holds them.

Structure is stored as flat numpy arrays, so a graph costs O(nodes of its templates) + O(instances x columns) memory and
saves without pickling. Views (:class:`Node`, :class:`Tile`) are made on demand for people and for demand lowering.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from .dtypes import dtype_bits

SCOPES = ("global", "shared", "fragment", "local", "tmem", "remote_shared")


class EdgeKind(IntEnum):
    """`DATA` and `COMPLETE` edges are released when their source completes, `ISSUE` edges when it has issued."""

    DATA = 0
    ISSUE = 1
    COMPLETE = 2


class Reason(IntEnum):
    """Why an edge exists. Reports name waiting time by it."""

    PROGRAM = 0  #: program order of one warp
    DATA = 1  #: the destination reads what the source wrote
    BARRIER = 2  #: an mbarrier phase
    GROUP = 3  #: a commit/wait group
    SYNC = 4  #: a CTA-wide or named barrier
    BUFFER = 5  #: reuse of a buffer slot


@dataclass(frozen=True)
class Buffer:
    """A tensor or an on-chip buffer.

    Attributes:
        name: name in the kernel.
        scope: one of :data:`SCOPES`.
        dtype: element type.
        shape: elements a dimension.
        strides: elements between neighbours a dimension; row-major if empty.
        swizzle_bytes: shared-memory swizzle span (0, 32, 64, 128).
    """

    name: str
    scope: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()
    swizzle_bytes: int = 0

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return dtype_bits(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of a dense copy of the whole buffer."""
        return math.prod(self.shape) * self.bits // 8

    def element_strides(self) -> tuple[int, ...]:
        """Elements between neighbours, a dimension each."""
        if self.strides:
            return self.strides
        out, step = [], 1
        for extent in reversed(self.shape):
            out.append(step)
            step *= extent
        return tuple(reversed(out))


@dataclass(frozen=True)
class Tile:
    """A box of a buffer that a node reads or writes.

    `offset[d] + column value` is the origin in dimension `d`: `column[d]` names a column of the instance table, or -1 if
    the origin is the same for every instance. `version` numbers the writes of the buffer (SSA). `cta` is the rank, within
    the cluster, of the CTA whose memory holds the tile; 0 for tensors.
    """

    buffer: Buffer
    mode: str  #: "read" or "write"
    offset: tuple[int, ...]
    extent: tuple[int, ...]
    column: tuple[int, ...]
    version: int
    cta: int = 0

    @property
    def elements(self) -> int:
        """Elements in the box (not clipped to the buffer)."""
        return math.prod(self.extent)

    @property
    def nbytes(self) -> int:
        """Bytes in the box (not clipped to the buffer)."""
        return (self.elements * self.buffer.bits + 7) // 8


@dataclass(frozen=True)
class Node:
    """A view of one node of a template."""

    index: int
    type: str
    warps: tuple[int, ...]
    cta: int
    blocking: bool
    attrs: Mapping[str, Any]
    source: str
    role: str
    loop: str
    tiles: tuple[Tile, ...]

    @property
    def reads(self) -> tuple[Tile, ...]:
        """Tiles read."""
        return tuple(t for t in self.tiles if t.mode == "read")

    @property
    def writes(self) -> tuple[Tile, ...]:
        """Tiles written."""
        return tuple(t for t in self.tiles if t.mode == "write")

    def scope_of(self, tile: Tile) -> str:
        """The scope of `tile` as this node sees it: `remote_shared` for shared memory of another CTA of the cluster."""
        remote = tile.buffer.scope == "shared" and tile.cta != self.cta
        return "remote_shared" if remote else tile.buffer.scope

    def label(self) -> str:
        """A short name for messages: type, source and loop position."""
        where = f" [{self.loop}]" if self.loop else ""
        return f"#{self.index} {self.type} {self.source}{where}".rstrip()


@dataclass(frozen=True)
class Launch:
    """How the kernel is launched.

    Attributes:
        grid: blocks in x, y, z.
        cluster: CTAs of a cluster in x, y, z.
        threads: threads of a CTA.
        smem_bytes: shared memory of a CTA, static and dynamic.
        registers_per_thread: registers a thread at launch.
        barriers: mbarriers of a CTA.
        tmem_columns: tensor-memory columns of a CTA.
        arch: compilation target, e.g. `sm_90a`.
    """

    grid: tuple[int, int, int]
    threads: int
    cluster: tuple[int, int, int] = (1, 1, 1)
    smem_bytes: int = 0
    registers_per_thread: int = 32
    barriers: int = 0
    tmem_columns: int = 0
    arch: str = ""

    @property
    def cluster_ctas(self) -> int:
        """CTAs of a cluster; 1 for a launch without clusters."""
        return math.prod(self.cluster)

    @property
    def ctas(self) -> int:
        """CTAs of the launch."""
        return math.prod(self.grid)


#: Array fields of a template: name -> (dtype, how its length follows from the counts of nodes/tiles/edges).
TEMPLATE_ARRAYS: dict[str, tuple[str, str]] = {
    "node_type": ("int16", "nodes"), "node_warps": ("uint64", "nodes"), "node_cta": ("int8", "nodes"),
    "node_blocking": ("bool", "nodes"), "node_attrs": ("int32", "nodes"), "node_source": ("int32", "nodes"),
    "node_role": ("int32", "nodes"), "node_loop": ("int32", "nodes"), "tile_ptr": ("int32", "nodes+1"),
    "tile_buffer": ("int32", "tiles"), "tile_mode": ("int8", "tiles"), "tile_version": ("int32", "tiles"),
    "tile_cta": ("int8", "tiles"),
    "tile_offset": ("int64", "tiles,rank"), "tile_column": ("int32", "tiles,rank"), "tile_extent": ("int32", "tiles,rank"),
    "edge_ptr": ("int32", "nodes+1"), "edge_dst": ("int32", "edges"), "edge_kind": ("int8", "edges"),
    "edge_reason": ("int8", "edges"), "edge_label": ("int32", "edges"), "edge_each": ("bool", "edges"),
    "repeat_first": ("int32", "repeats"), "repeat_nodes": ("int32", "repeats"), "repeat_times": ("int64", "repeats"),
    "repeat_column": ("int32", "repeats"), "repeat_loop": ("int64", "repeats"), "repeat_step": ("int64", "steps,rank"),
}

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Template:
    """The shared structure of all CTAs (clusters) whose control flow is the same. Arrays as in :data:`TEMPLATE_ARRAYS`;
    nodes stand in an order that respects every edge, edges are grouped by source (CSR).

    Repeats: nodes [first, first + nodes) of repeat r run `times + columns[column]` times (at least once). In run c, counted from
    0, their tiles lie c times `repeat_step` further (one row a tile of the repeated nodes, repeats in order), and the last
    number of their loop label is `c * repeat_loop` larger. The `nodes` nodes in front are the same period once before: an edge
    from there into the repeated nodes leads from each run to the next as well. An edge from any other node in front leads to
    every run. An edge to a node behind leaves the last run, or every run where `edge_each` is set.
    """

    name: str
    node_type: Array
    node_warps: Array
    node_cta: Array
    node_blocking: Array
    node_attrs: Array
    node_source: Array
    node_role: Array
    node_loop: Array
    tile_ptr: Array
    tile_buffer: Array
    tile_mode: Array
    tile_version: Array
    tile_cta: Array
    tile_offset: Array
    tile_column: Array
    tile_extent: Array
    edge_ptr: Array
    edge_dst: Array
    edge_kind: Array
    edge_reason: Array
    edge_label: Array
    edge_each: Array
    repeat_first: Array
    repeat_nodes: Array
    repeat_times: Array
    repeat_column: Array
    repeat_loop: Array
    repeat_step: Array

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_type)

    @property
    def edges(self) -> int:
        """Number of edges."""
        return len(self.edge_dst)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, name).nbytes for name in TEMPLATE_ARRAYS)

    def edge_src(self) -> Array:
        """Source node of each edge, int32[edges]."""
        return np.repeat(np.arange(self.nodes, dtype=np.int32), np.diff(self.edge_ptr))

    def repeat_of(self) -> Array:
        """The repeat that each node belongs to, int32[nodes]; -1 if none."""
        out = np.full(self.nodes, -1, dtype=np.int32)
        for r, (first, count) in enumerate(zip(self.repeat_first.tolist(), self.repeat_nodes.tolist(), strict=True)):
            out[first:first + count] = r
        return out

    def steps(self) -> Array:
        """How far each tile moves from one run of its repeat to the next, int64[tiles,rank]."""
        out = np.zeros_like(self.tile_offset)
        if len(self.repeat_first):
            out[np.repeat(self.repeat_of() >= 0, np.diff(self.tile_ptr))] = self.repeat_step
        return out

    def times(self, columns: Array) -> Array:
        """How often each repeat runs in each instance, int64[n,repeats], from the instances' columns [n,c]."""
        out: Array = np.tile(self.repeat_times, (len(columns), 1))
        for r, column in enumerate(self.repeat_column.tolist()):
            if column >= 0:
                out[:, r] += columns[:, column]
        return out


@dataclass(frozen=True, eq=False)
class Instances:
    """One row a cluster (a CTA of a launch without clusters), in launch order: template id int32[n], block coordinates
    int32[n,3] (of the CTA with rank 0), and the columns of tile origins int64[n,c] that tiles refer to."""

    template: Array
    block: Array
    columns: Array

    def __len__(self) -> int:
        return len(self.template)

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self.template.nbytes + self.block.nbytes + self.columns.nbytes


@dataclass(frozen=True, eq=False, repr=False)
class KernelGraph:
    """One kernel as a tile graph. `strings` holds names that arrays refer to, `attrs` the distinct attribute sets."""

    name: str
    launch: Launch
    buffers: tuple[Buffer, ...]
    type_names: tuple[str, ...]
    strings: tuple[str, ...]
    attrs: tuple[Mapping[str, Any], ...]
    templates: tuple[Template, ...]
    instances: Instances
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        nodes = sum(t.nodes for t in self.templates)
        return f"<KernelGraph {self.name}: {len(self.templates)} templates, {nodes} nodes, {len(self.instances)} instances>"

    @property
    def nbytes(self) -> int:
        """Bytes of the templates, without the instance table."""
        return sum(t.nbytes for t in self.templates)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the frontend wants the user to know (costly fallbacks, uninterpreted statements)."""
        return tuple(self.meta.get("warnings", ()))

    def tiles_of(self, template: Template, node: int) -> tuple[Tile, ...]:
        """Tiles of one node."""
        out = []
        for i in range(int(template.tile_ptr[node]), int(template.tile_ptr[node + 1])):
            buffer = self.buffers[template.tile_buffer[i]]
            rank = len(buffer.shape)
            out.append(Tile(buffer, "read" if template.tile_mode[i] == 1 else "write",
                            tuple(template.tile_offset[i, :rank].tolist()), tuple(template.tile_extent[i, :rank].tolist()),
                            tuple(template.tile_column[i, :rank].tolist()), int(template.tile_version[i]),
                            int(template.tile_cta[i])))
        return tuple(out)

    def node(self, template: Template, index: int) -> Node:
        """A view of node `index` of `template`."""
        mask = int(template.node_warps[index])
        return Node(index, self.type_names[template.node_type[index]],
                    tuple(w for w in range(mask.bit_length()) if mask >> w & 1), int(template.node_cta[index]),
                    bool(template.node_blocking[index]), self.attrs[template.node_attrs[index]],
                    self.strings[template.node_source[index]], self.strings[template.node_role[index]],
                    self.strings[template.node_loop[index]], self.tiles_of(template, index))

    def nodes_of(self, template: Template) -> Iterator[Node]:
        """Views of all nodes of `template`."""
        return (self.node(template, i) for i in range(template.nodes))

    def instance_counts(self) -> Sequence[int]:
        """How many instances use each template."""
        counts: list[int] = np.bincount(self.instances.template, minlength=len(self.templates)).tolist()
        return counts

    def times(self, template: int) -> Array:
        """How often each repeat of template number `template` runs in each of its instances, int64[n,repeats]."""
        columns: Array = self.instances.columns[self.instances.template == template]
        return self.templates[template].times(columns)

    def unrolled(self) -> KernelGraph:
        """The same graph without repeats: every run written out."""
        from .repeats import unroll

        return unroll(self)

    @property
    def total_nodes(self) -> int:
        """Nodes that a simulation executes: the sum over instances."""
        total = sum(t.nodes * c for t, c in zip(self.templates, self.instance_counts(), strict=True))
        for i, t in enumerate(self.templates):
            if len(t.repeat_first):
                total += int(((self.times(i) - 1) * t.repeat_nodes).sum())
        return total
