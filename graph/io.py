"""Save and load kernel graphs: one `.npz` with a JSON header and flat arrays. No pickle; everything is checked on load."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from pydantic import ValidationError

from .errors import GraphError
from .files import write_whole
from .header import Header
from .model import TEMPLATE_ARRAYS, Buffer, Instances, KernelGraph, Launch, Template
from .registry import node_types

#: Version of the file layout. Files of another version are refused by name.
SCHEMA_VERSION = 2

#: A loop body runs less often than this.
MAX_RUNS = 1 << 24

#: No tile lies further from the origin of its tensor, in elements.
_FAR = 1 << 40

_INSTANCE_DTYPES = {"template": "int32", "block": "int32", "columns": "int64"}


def _arrays(graph: KernelGraph) -> dict[str, np.ndarray]:
    out = {f"t{i}.{name}": getattr(t, name) for i, t in enumerate(graph.templates) for name in TEMPLATE_ARRAYS}
    out.update({f"instances.{name}": getattr(graph.instances, name) for name in _INSTANCE_DTYPES})
    return out


def _header(graph: KernelGraph) -> dict[str, Any]:
    return {"format": "gtsim tile graph", "schema": SCHEMA_VERSION, "name": graph.name, "launch": asdict(graph.launch),
            "buffers": [asdict(b) for b in graph.buffers], "type_names": graph.type_names, "strings": graph.strings,
            "attrs": graph.attrs, "templates": [t.name for t in graph.templates], "meta": graph.meta}


def graph_hash(graph: KernelGraph) -> str:
    """16 hex digits that identify structure and content of `graph` (not its `meta`)."""
    digest = hashlib.sha256()
    header = _header(graph)
    del header["meta"]
    digest.update(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(_arrays(graph).items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def save_graph(graph: KernelGraph, path: str | os.PathLike[str]) -> None:
    """Write `graph` to `path`. The file appears whole or not at all.

    Raises:
        GraphError: the file cannot be written.
    """
    buffer = io.BytesIO()
    header = np.frombuffer(json.dumps(_header(graph)).encode(), dtype=np.uint8)
    np.savez_compressed(buffer, header=header, **_arrays(graph))  # type: ignore[arg-type]
    try:
        write_whole(path, buffer.getvalue())
    except OSError as exc:
        raise GraphError(f"cannot write the graph: {exc.strerror or exc}", where=str(path)) from None


def load_graph(path: str | os.PathLike[str]) -> KernelGraph:
    """Read a graph that :func:`save_graph` wrote, checking every array before use.

    Raises:
        GraphError: no such file, not a graph file, truncated, another schema version, or inconsistent contents.
    """
    where = str(path)
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        header = json.loads(bytes(arrays.pop("header")).decode())
    except FileNotFoundError:
        raise GraphError("no such file", where=where) from None
    except IsADirectoryError:
        raise GraphError("is a folder, not a graph file", where=where) from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, UnicodeDecodeError, TypeError, AttributeError) as exc:
        raise GraphError(f"not a gtsim graph file, or truncated ({type(exc).__name__})", where=where,
                         fix="Write it again with gtsim graph ... -o FILE.npz.") from None
    except Exception as exc:  # zlib.error and the like: damaged content
        raise GraphError(f"damaged graph file ({type(exc).__name__}: {exc})", where=where,
                         fix="Write it again with gtsim graph ... -o FILE.npz.") from None
    if not isinstance(header, dict) or header.get("format") != "gtsim tile graph":
        raise GraphError("not a gtsim graph file", where=where)
    if header.get("schema") is True or header.get("schema") != SCHEMA_VERSION:
        raise GraphError(f"graph schema {header.get('schema')}, this gtsim reads {SCHEMA_VERSION}", where=where,
                         fix="Write the graph again with this version.")
    try:
        Header.model_validate(header)
    except ValidationError as exc:
        found = exc.errors()[0]
        place = ".".join(str(part) for part in found["loc"])
        raise GraphError(f"header field {place or '(whole)'}: {found['msg']}", where=where,
                         fix="Write the graph again with gtsim graph ... -o FILE.npz.") from None
    return _assemble(header, arrays, where)


def _assemble(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], where: str) -> KernelGraph:
    launch = {**header["launch"], "grid": tuple(header["launch"]["grid"]), "cluster": tuple(header["launch"]["cluster"])}
    buffers = [Buffer(**{**item, "shape": tuple(item["shape"]), "strides": tuple(item["strides"])}) for item in header["buffers"]]
    counts = {"type_names": len(header["type_names"]), "strings": len(header["strings"]), "attrs": len(header["attrs"]),
              "buffers": len(buffers), "ctas": math.prod(launch["cluster"])}
    templates = tuple(_template(i, name, arrays, counts, where) for i, name in enumerate(header["templates"]))
    table = {}
    for name, dtype in _INSTANCE_DTYPES.items():
        array = arrays.get(f"instances.{name}")
        if array is None or array.dtype != np.dtype(dtype):
            raise GraphError(f"array instances.{name} is missing or not {dtype}", where=where)
        table[name] = array
    rows = len(table["template"])
    if rows == 0 or table["template"].ndim != 1 or table["block"].shape != (rows, 3) or table["columns"].ndim != 2 \
            or len(table["columns"]) != rows:
        raise GraphError("the instance table is empty or its arrays differ in length", where=where)
    _in_range("instances.template", table["template"], 0, len(templates), where)
    _in_range("instances.columns", table["columns"], -_FAR, _FAR, where)
    for i, t in enumerate(templates):
        if t.tile_column.size and int(t.tile_column.max()) >= table["columns"].shape[1]:
            raise GraphError(f"t{i}.tile_column names a column that the instance table lacks", where=where)
        if t.repeat_column.size and int(t.repeat_column.max()) >= table["columns"].shape[1]:
            raise GraphError(f"t{i}.repeat_column names a column that the instance table lacks", where=where)
        times = t.times(table["columns"][table["template"] == i])
        _in_range(f"t{i}: numbers of runs", times, 1, MAX_RUNS, where)
    attrs = tuple({k: tuple(v) if isinstance(v, list) else v for k, v in a.items()} for a in header["attrs"])
    _check_attrs(templates, header["type_names"], attrs, where)
    return KernelGraph(header["name"], Launch(**launch), tuple(buffers), tuple(header["type_names"]), tuple(header["strings"]),
                       attrs, templates, Instances(**table), header.get("meta", {}))


def _check_attrs(templates: Sequence[Template], names: Sequence[str], attrs: Sequence[Mapping[str, Any]], where: str) -> None:
    """Refuse attributes that a node's type does not take. Types that this process does not know are taken as they are."""
    known = node_types()
    pairs = {pair for t in templates for pair in zip(t.node_type.tolist(), t.node_attrs.tolist(), strict=True)}
    for kind, number in sorted(pairs):
        if names[kind] in known:
            known[names[kind]].check_attrs(attrs[number], f"{where}: attrs.{number}")


def _template(i: int, name: str, arrays: Mapping[str, np.ndarray], counts: Mapping[str, int], where: str) -> Template:
    got: dict[str, np.ndarray] = {}
    for field, (dtype, _) in TEMPLATE_ARRAYS.items():
        array = arrays.get(f"t{i}.{field}")
        if array is None or array.dtype != np.dtype(dtype):
            raise GraphError(f"array t{i}.{field} is missing or not {dtype}", where=where)
        got[field] = array
    nodes, tiles, edges = len(got["node_type"]), len(got["tile_buffer"]), len(got["edge_dst"])
    rank = got["tile_offset"].shape[1] if got["tile_offset"].ndim == 2 else -1
    shapes: dict[str, tuple[int, ...]] = {"nodes": (nodes,), "nodes+1": (nodes + 1,), "tiles": (tiles,), "edges": (edges,),
                                          "tiles,rank": (tiles, rank), "repeats": (len(got["repeat_first"]),),
                                          "steps,rank": (len(got["repeat_step"]), rank)}
    for field, (_, shape) in TEMPLATE_ARRAYS.items():
        if got[field].shape != shapes[shape]:
            raise GraphError(f"array t{i}.{field} has shape {got[field].shape}, expected {shapes[shape]}", where=where)
    for field, total in (("tile_ptr", tiles), ("edge_ptr", edges)):
        ptr = got[field]
        if nodes == 0 or ptr[0] != 0 or ptr[-1] != total or (np.diff(ptr) < 0).any():
            raise GraphError(f"array t{i}.{field} is not a valid index", where=where)
    _in_range(f"t{i}.edge_dst", got["edge_dst"], 0, nodes, where)
    _in_range(f"t{i}.edge_kind", got["edge_kind"], 0, 3, where)
    _in_range(f"t{i}.edge_reason", got["edge_reason"], 0, 6, where)
    _in_range(f"t{i}.edge_label", got["edge_label"], -1, counts["strings"], where)
    _in_range(f"t{i}.node_type", got["node_type"], 0, counts["type_names"], where)
    _in_range(f"t{i}.node_attrs", got["node_attrs"], 0, counts["attrs"], where)
    for field in ("node_source", "node_role", "node_loop"):
        _in_range(f"t{i}.{field}", got[field], 0, counts["strings"], where)
    _in_range(f"t{i}.tile_buffer", got["tile_buffer"], 0, counts["buffers"], where)
    _in_range(f"t{i}.tile_cta", got["tile_cta"], 0, counts["ctas"], where)
    _in_range(f"t{i}.node_cta", got["node_cta"], 0, counts["ctas"], where)
    _in_range(f"t{i}.tile_mode", got["tile_mode"], 1, 3, where)
    _in_range(f"t{i}.tile_extent", got["tile_extent"], 0, 1 << 31, where)
    _in_range(f"t{i}.tile_offset", got["tile_offset"], -_FAR, _FAR, where)
    _in_range(f"t{i}.tile_column", got["tile_column"], -1, 1 << 31, where)
    if (got["node_warps"] == 0).any():
        raise GraphError(f"t{i}.node_warps: a node without warps", where=where)
    if edges and (np.diff(got["tile_ptr"]) < 0).any():
        raise GraphError(f"t{i}.tile_ptr decreases", where=where)
    template = Template(name, **got)
    _check_repeats(i, template, where)
    return template


def _check_repeats(i: int, t: Template, where: str) -> None:
    """Refuse repeats that overlap, leave the template, or are entered from each other."""
    behind, steps = 0, 0
    for first, count in zip(t.repeat_first.tolist(), t.repeat_nodes.tolist(), strict=True):
        if count < 1 or first - count < behind or first + count > t.nodes:
            raise GraphError(f"t{i}.repeat_first and repeat_nodes name nodes {first}..{first + count - 1} and as many in front, "
                             f"which are not free", where=where)
        behind = first + count
        steps += int(t.tile_ptr[behind] - t.tile_ptr[first])
    if len(t.repeat_step) != steps:
        raise GraphError(f"t{i}.repeat_step has {len(t.repeat_step)} rows for {steps} tiles", where=where)
    _in_range(f"t{i}.repeat_times", t.repeat_times, -_FAR, _FAR, where)
    _in_range(f"t{i}.repeat_step", t.repeat_step, -_FAR, _FAR, where)
    _in_range(f"t{i}.repeat_column", t.repeat_column, -1, 1 << 31, where)
    repeat = t.repeat_of()
    source, target = repeat[t.edge_src()], repeat[t.edge_dst]
    if ((source >= 0) & (target >= 0) & (source != target)).any():
        raise GraphError(f"t{i}: an edge leads from one repeat into another", where=where)


def _in_range(name: str, array: np.ndarray, low: int, high: int, where: str) -> None:
    if array.size and (int(array.min()) < low or int(array.max()) >= high):
        raise GraphError(f"array {name} holds values outside {low}..{high - 1}", where=where)
