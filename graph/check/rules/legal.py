"""Instructions that the target lacks, or that it refuses with these operands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...dtypes import canonical_dtype, dtype_bits
from ...model import KernelGraph, Node, Template
from ..findings import Finding
from ..subject import Subject, rule
from ..targets import Target

#: Node type -> property of the target it needs.
_NEEDS = {
    "cp_async": "cp_async",
    "tma_load": "tma",
    "tma_store": "tma",
    "wgmma": "wgmma",
    "setmaxnreg": "setmaxnreg",
    "dsmem_load": "clusters",
    "dsmem_store": "clusters",
    "dsmem_copy": "clusters",
    "cluster_arrive": "clusters",
    "cluster_wait": "clusters",
    "pdl_trigger": "pdl",
    "pdl_wait": "pdl",
}
_TMA_DIM, _TMA_RANK, _TMA_BYTES = 256, 5, 16


@rule("target")
def instruction_exists(subject: Subject) -> Iterable[Finding]:
    """The target has every family of instructions that the graph uses."""
    target, told = subject.target, set()
    if target is None:
        return
    for t, i in subject.sites():
        name = subject.graph.type_names[t.node_type[i]]
        needs = "tcgen05" if name.startswith("tcgen05") else _NEEDS.get(name, "")
        if needs and not getattr(target, needs) and name not in told:
            told.add(name)
            yield Finding(
                "illegal",
                "error",
                _where(subject.graph, t, i),
                f"{name} does not exist on {subject.arch}",
                "Compile the kernel for this GPU.",
                {"instruction": name, "arch": subject.arch},
            )
    if subject.graph.launch.cluster != (1, 1, 1) and not target.clusters:
        yield Finding("illegal", "error", subject.graph.name, f"clusters do not exist on {subject.arch}", "Launch without one.")


@rule("target")
def tensor_core_operands(subject: Subject) -> Iterable[Finding]:
    """Types and shapes of tensor-core instructions."""
    target, graph = subject.target, subject.graph
    if target is None:
        return
    told = set()
    for t, i in subject.sites("mma", "wgmma"):
        name, attrs = graph.type_names[t.node_type[i]], graph.attrs[t.node_attrs[i]]
        problem = _tensor_problem(name, attrs, int(t.node_warps[i]).bit_count(), target)
        if problem and (problem, int(t.node_source[i])) not in told:
            told.add((problem, int(t.node_source[i])))
            yield Finding(
                "illegal",
                "error",
                _where(graph, t, i),
                f"{problem} on {subject.arch}",
                "Change the tile, the element type or the threads.",
                {"instruction": name},
            )


def _tensor_problem(name: str, attrs: Any, warps: int, target: Target) -> str:
    dtype = canonical_dtype(str(attrs.get("dtype", "float16")))
    if dtype.startswith("float8") and not target.fp8:
        return f"{name} of {dtype} does not exist"
    if dtype in ("bfloat16", "tfloat32", "float64") and target.number < 80:
        return f"{name} of {dtype} does not exist"
    if name != "wgmma":
        return ""
    if warps % 4:
        return f"wgmma by {warps} warps; it takes whole warpgroups of 4"
    shape = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", str(attrs.get("instruction", "")))
    if not shape:
        return ""
    m, n, k = map(int, shape.groups())
    depth = 256 // dtype_bits(dtype if dtype != "tfloat32" else "float32")
    if m != 64 or n % 8 or not 8 <= n <= 256 or k not in (depth, 2 * depth):
        return f"wgmma {shape.group(0)} of {dtype}; legal are m64, n a multiple of 8 up to 256, k{depth}"
    return ""


@rule("target")
def register_counts(subject: Subject) -> Iterable[Finding]:
    """`setmaxnreg` takes multiples of 8 from 24 to 256."""
    for t, i in subject.sites("setmaxnreg"):
        n = int(subject.graph.attrs[t.node_attrs[i]].get("registers", 0))
        if n % 8 or not 24 <= n <= 256:
            yield Finding(
                "illegal",
                "error",
                _where(subject.graph, t, i),
                f"setmaxnreg {n}; legal are multiples of 8 from 24 to 256",
                "Round it.",
                {"registers": n},
            )


@rule("target")
def tma_operands(subject: Subject) -> Iterable[Finding]:
    """Boxes, strides and addresses of TMA copies: whole 16-byte units, boxes of at most 256 a dimension."""
    graph, told = subject.graph, set()
    kinds = [i for i, n in enumerate(graph.type_names) if n in ("tma_load", "tma_store")]
    for at, t in enumerate(graph.templates):
        nodes = np.flatnonzero(np.isin(t.node_type, kinds))
        seen: set[tuple[int, ...]] = set()
        for i in nodes.tolist():
            rows = slice(int(t.tile_ptr[i]), int(t.tile_ptr[i + 1]))
            key = (
                int(t.node_source[i]),
                int(t.node_attrs[i]),
                *t.tile_buffer[rows].tolist(),
                *t.tile_extent[rows].ravel().tolist(),
                *(t.tile_offset[rows] % 128).ravel().tolist(),
                *t.tile_column[rows].ravel().tolist(),
            )
            if key in seen:
                continue
            seen.add(key)
            node = graph.node(t, i)
            for problem, fix in _tma_problems(graph, at, node):
                if (node.source, problem) not in told:
                    told.add((node.source, problem))
                    yield Finding("illegal", "error", _where(graph, t, i), problem, fix, {"instruction": node.type})


def _tma_problems(graph: KernelGraph, at: int, node: Node) -> Iterable[tuple[str, str]]:
    tiles = [x for x in node.tiles if x.buffer.scope == "global"]
    chip = [x for x in node.tiles if x.buffer.scope in ("shared", "remote_shared")]
    if not tiles:
        return
    tile, buffer = tiles[0], tiles[0].buffer
    size = buffer.bits / 8
    mapped = bool(node.attrs.get("tensor_map", len(tile.extent) > 1))
    box = [int(n) for n in node.attrs.get("box", ())]
    fix = "Pad the rows to whole 16 bytes, or copy it another way (T.copy with disable_tma)."
    if not mapped:
        total = tile.nbytes
        if total % _TMA_BYTES:
            yield f"a bulk copy of {total} bytes of {buffer.name}, not a multiple of 16", fix
        rows = graph.instances.columns[graph.instances.template == at]
        origins = np.zeros(max(len(rows), 1), dtype=np.int64)
        for offset, column, stride in zip(tile.offset, tile.column, buffer.element_strides(), strict=True):
            origins = origins + (offset + (rows[:, column] if column >= 0 else 0)) * stride
        odd = np.flatnonzero(origins * size % _TMA_BYTES)
        if len(odd):
            yield (
                (
                    f"a bulk copy from element {int(origins[odd[0]])} of {buffer.name}, byte {origins[odd[0]] * size:g}: not a "
                    "multiple of 16"
                ),
                fix,
            )
        return
    if len(box) > _TMA_RANK:
        leading = len(box) - _TMA_RANK
        if any(n > 1 for n in box[:leading]):
            yield f"a box of {len(box)} dimensions {tuple(box)}; TMA takes {_TMA_RANK}", "Merge dimensions of the tensor."
    cut = "tilelang" in graph.meta  # the compiler cuts its boxes to 256 and to the swizzle by itself
    if any(n > _TMA_DIM for n in box) and not cut:
        yield f"a box {tuple(box)} of {buffer.name}; TMA takes at most {_TMA_DIM} a dimension", "Use a smaller tile."
    inner = box[-1] * size if box else tile.extent[-1] * size
    if inner % _TMA_BYTES:
        yield f"rows of {inner:g} bytes of {buffer.name} in the box, not a multiple of 16", fix
    swizzle = max((x.buffer.swizzle_bytes for x in chip), default=0)
    if swizzle and box and inner > swizzle and not cut:
        yield f"rows of {inner:g} bytes in the box, wider than the swizzle of {swizzle} bytes", "Use a narrower box."
    strides = buffer.element_strides()
    if strides and strides[-1] not in (0, 1) and buffer.shape[-1] > 1:
        yield f"{buffer.name} is not contiguous in its last dimension (stride {strides[-1]})", "Transpose the tensor."
        return
    for d, stride in enumerate(strides[:-1]):
        if buffer.shape[d] > 1 and stride * size % _TMA_BYTES:
            yield f"dimension {d} of {buffer.name} has a stride of {stride * size:g} bytes, not a multiple of 16", fix
            break


def _where(graph: KernelGraph, t: Template, i: int) -> str:
    return f"{t.name} {graph.node(t, i).label()}"
