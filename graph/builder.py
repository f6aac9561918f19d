"""Build tile graphs by hand or from a frontend.

The builder takes each warp's operations in program order and works out the rest: order edges of program order, of commit
and wait groups and of mbarrier phases, versions, and data edges. Operations of different warps may be added in any
interleaving: what connects them are barriers and data, not the order of the calls.

    b = TileGraphBuilder("copy", grid=(132, 1, 1), threads=128, smem_bytes=16384)
    x = b.tensor("x", (132 * 64, 128), "float16")
    s = b.buffer("s", (64, 128), "float16", scope="shared")
    full = b.barrier("full", [1])
    t = b.template()
    m0 = t.column("m0")
    t.node("tma_load", warps=[0], reads=[x.tile((m0, 0), (64, 128))], writes=[s.tile()], tx=full[0], arrive=[(full[0], 1)])
    t.node("barrier_wait", warps=range(4), wait=(full[0], 0))
    b.add_instances(t, blocks=[(i, 0, 0) for i in range(132)], columns={"m0": [64 * i for i in range(132)]})
    graph = b.build()
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import GraphError
from .handles import BarrierHandle, BufferHandle, Column, TileRef
from .model import SCOPES, Buffer, Instances, KernelGraph, Launch, Template
from .registry import NodeType, node_type
from .replay import Access, Barrier
from .template_builder import TemplateBuilder

if TYPE_CHECKING:
    from .check.findings import Finding

#: Warps are bits of a 64-bit mask. GPUs allow fewer threads; `check` and the backend say so for each.
MAX_THREADS = 2048
#: Ranks of CTAs are 8-bit. GPUs allow fewer, likewise.
MAX_CLUSTER = 64


class TileGraphBuilder:
    """Collects buffers, barriers, templates and instances, and builds a :class:`KernelGraph`.

    Args:
        name: kernel name.
        grid, cluster: CTAs of the launch and of a cluster, in x, y, z.
        threads: threads of a CTA.
        smem_bytes: shared memory of a CTA; the sum of the shared buffers if None.
        registers_per_thread: registers a thread at launch.
        arch: compilation target the graph is meant for.

    Raises:
        GraphError: a number of threads that no CTA can have, or a grid that is not a whole number of clusters.
    """

    def __init__(
        self,
        name: str,
        *,
        grid: Sequence[int],
        threads: int,
        cluster: Sequence[int] = (1, 1, 1),
        smem_bytes: int | None = None,
        registers_per_thread: int = 32,
        arch: str = "",
    ) -> None:
        if not 1 <= threads <= MAX_THREADS:
            raise GraphError(f"a CTA of {threads} threads; it may have 1 to {MAX_THREADS}", where=name,
                             fix="Launch fewer threads a CTA." if threads > MAX_THREADS else "")
        self.name, self.arch, self.threads = name, arch, threads
        self.grid, self.cluster = _triple(grid), _triple(cluster)
        self.cluster_ctas = self.cluster[0] * self.cluster[1] * self.cluster[2]
        if any(g % c for g, c in zip(self.grid, self.cluster, strict=True)):
            raise GraphError(f"the grid {self.grid} is not a whole number of clusters of {self.cluster} CTAs", where=name,
                             fix="Make each extent of the grid a multiple of the cluster's.")
        if self.cluster_ctas > MAX_CLUSTER:
            raise GraphError(f"a cluster of {self.cluster_ctas} CTAs; graphs hold up to {MAX_CLUSTER}", where=name,
                             fix="Use a smaller cluster.")
        self.smem_bytes, self.registers_per_thread = smem_bytes, registers_per_thread
        self.meta: dict[str, Any] = {}
        self._buffers: list[Buffer] = []
        self._barriers: list[Barrier] = []
        self._strings: dict[str, int] = {"": 0}
        self._types: dict[str, int] = {}
        self._kinds: dict[str, NodeType] = {}
        self._attrs: dict[str, int] = {}
        self._attr_list: list[Mapping[str, Any]] = []
        self._attrs_by_object: dict[int, tuple[Mapping[str, Any], NodeType, int]] = {}
        self._accesses: dict[tuple[TileRef, int, int], Access] = {}
        self._templates: list[TemplateBuilder] = []
        self._instances: list[tuple[int, np.ndarray, dict[str, np.ndarray], np.ndarray]] = []

    def tensor(self, name: str, shape: Sequence[int], dtype: str, strides: Sequence[int] = ()) -> BufferHandle:
        """A tensor in global memory; `strides` in elements, row-major if empty."""
        return self._add(Buffer(name, "global", dtype, tuple(map(int, shape)), tuple(map(int, strides))))

    def buffer(self, name: str, shape: Sequence[int], dtype: str, *, scope: str, swizzle_bytes: int = 0) -> BufferHandle:
        """An on-chip buffer in `scope` (shared, fragment, local, tmem, remote_shared)."""
        if scope not in SCOPES:
            raise GraphError(f"unknown scope {scope!r} of buffer {name!r}", fix=f"Use one of {', '.join(SCOPES)}.")
        return self._add(Buffer(name, scope, dtype, tuple(map(int, shape)), (), swizzle_bytes))

    def _add(self, buffer: Buffer) -> BufferHandle:
        _ = buffer.nbytes  # raises for an unknown element type
        self._buffers.append(buffer)
        return BufferHandle(len(self._buffers) - 1, buffer)

    def barrier(self, name: str, counts: Sequence[int]) -> BarrierHandle:
        """An array of mbarriers; `counts` are the arrivals that complete a phase, a slot each."""
        if any(int(c) < 1 for c in counts):
            raise GraphError(f"barrier {name!r} has an arrival count below 1: {list(counts)}")
        labels = [self.string(f"{name}[{i}]") for i in range(len(counts))]
        copies = tuple(self._copy(name, counts, cta) for cta in range(self.cluster_ctas)) if self.cluster_ctas > 1 else ()
        barrier = Barrier(name, tuple(int(c) for c in counts), labels=labels, copies=copies)
        self._barriers.append(barrier)
        return BarrierHandle(barrier)

    def _copy(self, name: str, counts: Sequence[int], cta: int) -> Barrier:
        name = f"CTA {cta}'s {name}"
        return Barrier(name, tuple(int(c) for c in counts), cta, [self.string(f"{name}[{i}]") for i in range(len(counts))])

    def template(self, name: str = "") -> TemplateBuilder:
        """Start a template."""
        template = TemplateBuilder(self, name or f"template {len(self._templates)}")
        self._templates.append(template)
        return template

    def add_instances(
        self, template: TemplateBuilder, blocks: Any, columns: Mapping[str, Any] | None = None, order: Any = None
    ) -> None:
        """Add CTAs (clusters, of a launch with clusters) that execute `template`.

        Args:
            template: made by :meth:`template` of this builder.
            blocks: block coordinates [n, 3], of a cluster those of its CTA with rank 0.
            columns: column name -> origins [n]; every column of the template must be given.
            order: launch positions [n]; x-fastest linear block order if None.

        Raises:
            GraphError: shapes do not match or a column is missing.
        """
        block = np.asarray(blocks, dtype=np.int64).reshape(-1, 3)
        given = {k: np.asarray(v, dtype=np.int64).reshape(-1) for k, v in (columns or {}).items()}
        for name in template.columns:
            if name not in given or len(given[name]) != len(block):
                raise GraphError(f"column {name!r} needs one origin for each of the {len(block)} instances", where=template.name)
        if order is None:
            order = block[:, 0] + self.grid[0] * (block[:, 1] + self.grid[1] * block[:, 2])
        position = np.asarray(order, dtype=np.int64).reshape(-1)
        if len(position) != len(block):
            raise GraphError(f"{len(block)} instances but {len(position)} launch positions", where=template.name)
        self._instances.append((self._templates.index(template), block, given, position))

    def build(self, *, check: bool = True) -> KernelGraph:
        """Freeze the graph.

        Args:
            check: also run :func:`gtsim.graph.check` without hardware limits, and without looking for races between blocks, and
                raise what it finds.

        Raises:
            GraphError: missing instances.
            CheckError: deadlock, mismatched arrivals (then with a partial graph), or a finding of the check.
        """
        from .check.findings import CheckError

        if not self._instances:
            raise GraphError("the graph has no instances", where=self.name, fix="Call add_instances for each template.")
        used = sorted({i for i, *_ in self._instances})
        renumber = {old: new for new, old in enumerate(used)}
        templates, refuted = self._finish(used)
        width = max(len(self._templates[i].columns) for i in used)
        ids, blocks, tables, positions = [], [], [], []
        for i, block, given, position in self._instances:
            table = np.zeros((len(block), width), dtype=np.int64)
            for name, at in self._templates[i].columns.items():
                table[:, at] = given[name]
            ids.append(np.full(len(block), renumber[i], dtype=np.int32))
            blocks.append(block.astype(np.int32))
            tables.append(table)
            positions.append(position)
        rank = np.argsort(np.concatenate(positions), kind="stable")
        instances = Instances(np.concatenate(ids)[rank], np.concatenate(blocks)[rank], np.concatenate(tables)[rank])
        smem = self.smem_bytes
        if smem is None:
            smem = sum(b.nbytes for b in self._buffers if b.scope == "shared")
        launch = Launch(
            self.grid,
            self.threads,
            self.cluster,
            smem,
            self.registers_per_thread,
            sum(len(b.counts) for b in self._barriers),
            0,
            self.arch,
        )
        graph = KernelGraph(
            self.name,
            launch,
            tuple(self._buffers),
            tuple(self._types),
            tuple(self._strings),
            tuple(self._attr_list),
            templates,
            instances,
            dict(self.meta),
        )
        if refuted:
            raise CheckError(refuted, graph)
        if check:
            from .check import check as run_check

            findings = [f for f in run_check(graph, blocks=False) if f.severity == "error"]
            if findings:
                raise CheckError(findings)
        return graph

    def shared_ctas(self, accesses: Sequence[Access]) -> set[int]:
        """Ranks of the CTAs in whose shared memory these tiles lie."""
        return {a.cta for a in accesses if self._buffers[a.buffer].scope == "shared"}

    def _finish(self, used: Sequence[int]) -> tuple[tuple[Template, ...], list[Finding]]:
        """The templates, and what keeps some of them from running; classes of blocks that fail alike are told once."""
        from .check.findings import CheckError

        made: list[Template] = []
        found: dict[Any, Finding] = {}
        for i in used:
            try:
                made.append(self._templates[i].finish())
            except CheckError as error:
                made.append(self._templates[i].without_barriers())
                for f in error.findings:
                    found.setdefault(f.cause, f)
        return tuple(made), list(found.values())

    # -- interning, used by TemplateBuilder ---------------------------------------------------------------------------

    def rank(self) -> int:
        """Largest number of dimensions of any buffer."""
        return max((len(b.shape) for b in self._buffers), default=1)

    def on_chip(self) -> list[bool]:
        """Whether each buffer is on chip."""
        return [b.scope != "global" for b in self._buffers]

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Node types and strings by number."""
        return tuple(self._types), tuple(self._strings)

    def string(self, text: str) -> int:
        """Number of `text` in the string table."""
        return self._strings.setdefault(text, len(self._strings))

    def type_of(self, name: str) -> NodeType:
        """The node type, cached."""
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = node_type(name)
        return kind

    def type_id(self, name: str) -> int:
        """Number of a node type in this graph."""
        return self._types.setdefault(name, len(self._types))

    def attrs_id(self, kind: NodeType, attrs: Mapping[str, Any], where: str) -> int:
        """Number of an attribute set in this graph."""
        known = self._attrs_by_object.get(id(attrs))  # frontends pass the same object again and again
        if known is not None and known[0] == attrs and known[1] is kind:
            return known[2]
        key = json.dumps([kind.name, attrs], sort_keys=True)
        found = self._attrs.get(key)
        if found is None:
            kind.check_attrs(attrs, where)
            found = self._attrs[key] = len(self._attr_list)
            self._attr_list.append(dict(attrs))
        self._attrs_by_object[id(attrs)] = (dict(attrs), kind, found)
        return found

    def access(self, tile: TileRef, private: int, cta: int) -> Access:
        """Split a tile's origins into constants and columns; register tiles belong to one warpgroup, on-chip tiles to one CTA."""
        scope = self._buffers[tile.buffer].scope
        owner = 0 if scope == "global" else cta if tile.cta is None else tile.cta
        key = (tile, private if scope in ("fragment", "local") else -1, owner)
        found = self._accesses.get(key)
        if found is None:
            if not 0 <= owner < self.cluster_ctas:
                raise GraphError(f"a tile of {self._buffers[tile.buffer].name!r} in a CTA of rank {owner}; the cluster has "
                                 f"{self.cluster_ctas}", where=self.name)
            offset = tuple(o.delta if isinstance(o, Column) else int(o) for o in tile.origin)
            column = tuple(o.index if isinstance(o, Column) else -1 for o in tile.origin)
            found = self._accesses[key] = Access(tile.buffer, offset, tile.extent, column, key[1], owner)
        return found


def _triple(value: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*map(int, value), 1, 1, 1)[:3]
    if min(x, y, z) < 1:
        raise GraphError(f"extents must be at least 1, got {tuple(value)}")
    return x, y, z
