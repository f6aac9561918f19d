"""`T.copy` and `T.async_copy`: the compiler's choice of instruction by the scopes of source and destination."""

from __future__ import annotations

import math
from typing import Any

from ...errors import UnknownStatement
from ..conversions import conversion
from ..expr import THREAD, op_name, text_of
from ..hoist import EarlyLoad
from ..program import Storage
from ..sync import Access
from ..translate import Region, Translator
from ..walk import Walk
from ..widths import contiguous, fragment_lanes, linear_row_bytes, matrix_lanes, mma_access_bytes, row_alignment, vector_elements
from . import tile_op
from .tma import store


class Copy:
    """A copy that all warps share. `steps` are the nodes each warpgroup issues, in order."""

    def __init__(self, t: Translator, src: Region, dst: Region, steps: list[str], via: Storage | None) -> None:
        self.src, self.dst, self.steps, self.via = src, dst, steps, via
        self.layouts, self.hopper = t.layouts, t.hopper
        self.extents = tuple(dst.extents[d] for d in dst.dims)
        self.source = f"copy({src.storage.name} -> {dst.storage.name})"
        self._plans: dict[Any, list[Any]] = {}
        self._accesses: dict[Any, tuple[Access, ...]] = {}

    def _attrs(self, step: str, threads: int) -> dict[str, Any] | None:
        memory = self.dst.storage if step in ("global_store", "shared_store", "atomic") else self.src.storage
        fragment = next((r.storage for r in (self.src, self.dst) if r.storage.scope == "fragment"), None)
        inner = self.extents[-1] if self.extents else 1
        if step == "elementwise":
            return None
        if fragment is not None and self.layouts.is_mma(fragment) and len(self.extents) == 2:
            if memory.scope == "global":
                access, row = mma_access_bytes(memory)
                return {"access_bytes": access, "row_bytes": row}
            region = self.src if step == "shared_load" else self.dst
            outer, inner = (math.prod(memory.shape[d + 1:]) for d in region.dims)
            if self._by_matrix(memory, step == "shared_load"):
                return {"access_bytes": 16, **matrix_lanes(outer, inner)}
            return {"access_bytes": mma_access_bytes(memory)[0], **fragment_lanes(outer, inner)}
        width = self.width(threads)
        attrs = {"access_bytes": max(width * memory.bits // 8, 1)}
        if memory.scope == "global":
            region = self.dst if step in ("global_store", "atomic") else self.src
            attrs["row_bytes"] = max(linear_row_bytes(memory, width, contiguous(memory, region.extents)), 1)
        return attrs

    def _by_matrix(self, memory: Storage, load: bool) -> bool:
        """Whether ldmatrix or (from Hopper on) stmatrix moves a tensor-core fragment."""
        return (self.hopper or load) and memory.bits == 16

    def width(self, threads: int) -> int:
        """Elements a thread moves with one instruction."""
        memories = [r.storage for r in (self.src, self.dst) if r.storage.scope != "fragment"]
        aligned = min((row_alignment(s) for s in memories if s.scope == "global"), default=0)
        inner, total = (self.extents[-1] if self.extents else 1), math.prod(self.extents)
        return vector_elements(memories or [self.src.storage], inner, total, threads, aligned)

    def _plan(self, walk: Walk) -> list[Any]:
        active = walk.active
        uses = [(r.storage, self._iteration(r)) for r in (self.src, self.dst) if r.storage.scope == "fragment"]
        shares = self.layouts.shares(active, self.extents, uses)
        attrs = [self._attrs(step, active.threads) for step in self.steps]
        if self.steps[0] == "global_load" and attrs[0] is not None:
            attrs[0] = EarlyLoad(attrs[0])
        plan = []
        for share in shares:
            nodes = []
            for step, found in zip(self.steps, attrs, strict=True):
                if step == "elementwise":
                    found = {"elements": share.elements, "depth": 1,
                             **conversion(self.src.storage.dtype, self.dst.storage.dtype)}
                    if len(found) == 2:
                        found["depth"] = 0
                nodes.append((step, found))
            plan.append((share, nodes))
        return plan

    def _iteration(self, region: Region) -> list[int | None]:
        dims = region.dims
        return [dims.index(d) if d in dims else None for d in range(len(region.extents))]

    def _tile(self, walk: Walk, region: Region, origin: tuple[Any, ...], share: Any) -> Any:
        at, extent = list(origin), list(region.extents)
        for i, d in enumerate(region.dims):
            if share.offset[i]:
                at[d] = at[d] + share.offset[i]
            extent[d] = share.extent[i]
        return walk.tile(region.storage, tuple(at), tuple(extent))

    def __call__(self, walk: Walk, src: tuple[Any, ...], dst: tuple[Any, ...]) -> None:
        """Record the steps, warpgroup by warpgroup."""
        active = walk.active
        plan = self._plans.get(active)
        if plan is None:
            plan = self._plans[active] = self._plan(walk)
        if self.src.storage.scope == "shared" or self.dst.storage.scope == "shared":
            key = (active, *(at if r.storage.scope == "shared" else None for r, at in ((self.src, src), (self.dst, dst))))
            accesses = self._accesses.get(key)
            if accesses is None:
                accesses = self._accesses[key] = self._shared_accesses(src, dst, active.threads)
            walk.access(accesses)
        for share, nodes in plan:
            first = self._tile(walk, self.src, src, share)
            last = self._tile(walk, self.dst, dst, share)
            for i, (step, attrs) in enumerate(nodes):
                read = first if i == 0 else self._via(walk, share)
                write = last if i == len(nodes) - 1 else self._via(walk, share)
                walk.put(step, share.warps, self.source, (read,), (write,), attrs,
                         group="cp_async" if step == "cp_async" else None)

    def _via(self, walk: Walk, share: Any) -> Any:
        assert self.via is not None
        return walk.tile(self.via, share.offset or (0,), share.extent or (1,))

    def _shared_accesses(self, src: Any, dst: Any, threads: int) -> tuple[Access, ...]:
        out = []
        fragment = any(r.storage.scope == "fragment" and self.layouts.is_mma(r.storage) for r in (self.src, self.dst))
        mapping = None if fragment else (self.extents, self.width(threads))
        engine = "cp_async" if self.steps == ["cp_async"] else ""
        for region, at, write in ((self.src, src, False), (self.dst, dst, True)):
            if region.storage.scope == "shared":
                pointer = "lane" if engine or (fragment and self._by_matrix(region.storage, not write)) else ""
                out.append(Access(region.storage, at, region.extents, write, mapping, engine, pointer))
        return tuple(out)


def _tma_store_possible(t: Translator, src: Region, dst: Region, marks: dict[str, Any]) -> bool:
    if t.arch_number < 90 or marks.get("disable_tma") or t.program.pass_configs.get("tl.disable_tma_lower"):
        return False
    storage = dst.storage
    bits = storage.bits
    inner = dst.extents[-1] * bits // 8
    strides = storage.strides or ()
    return inner % 16 == 0 and src.storage.dtype == storage.dtype and all(s * bits // 8 % 16 == 0 for s in strides[:-1])


def _steps(t: Translator, src: Region, dst: Region, marks: dict[str, Any], asynchronous: bool) -> list[str]:
    a, b = src.storage.scope, dst.storage.scope
    a, b = ("fragment" if a == "local" else a), ("fragment" if b == "local" else b)
    cast = ["elementwise"] if src.storage.dtype != dst.storage.dtype else []
    if (a, b) == ("global", "shared"):
        if asynchronous and not cast:
            return ["cp_async"]
        return ["global_load", *cast, "shared_store"]
    table = {("shared", "global"): ["shared_load", *cast, "global_store"], ("shared", "fragment"): ["shared_load", *cast],
             ("fragment", "shared"): [*cast, "shared_store"], ("fragment", "global"): [*cast, "global_store"],
             ("global", "fragment"): ["global_load", *cast], ("fragment", "fragment"): ["elementwise"],
             ("shared", "shared"): ["shared_load", *cast, "shared_store"],
             ("global", "global"): ["global_load", *cast, "global_store"]}
    if (a, b) not in table:
        raise UnknownStatement(f"a copy from {src.storage.scope} to {dst.storage.scope} is not supported yet")
    return table[a, b]


def _loop_copy(call: Any) -> Any:
    """A copy whose place differs by thread, as the loop that each thread executes."""
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    loads, extents = zip(*((a.args[0], [int(e.value) for e in list(a.args)[2:]]) for a in call.args[:2]), strict=True)
    sizes = [e for e in extents[1] if e != 1]
    names = [tir.Var(f"c{i}", "int32") for i in range(len(sizes))]

    def index(load: Any, size: list[int]) -> list[Any]:
        left = iter(names)
        return [m if e == 1 else m + next(left) for m, e in zip(load.indices, size, strict=True)]

    value = tir.BufferLoad(loads[0].buffer, index(loads[0], extents[0]))
    target = loads[1].buffer
    body = tir.BufferStore(target, value if str(value.dtype) == str(target.dtype) else tir.Cast(str(target.dtype), value),
                           index(loads[1], extents[1]))
    for i, (name, size) in reversed(list(enumerate(zip(names, sizes, strict=True)))):
        kind = tir.ForKind.VECTORIZED if i == len(sizes) - 1 else tir.ForKind.SERIAL
        body = tir.For(name, 0, size, kind, body)
    return body


def follow(t: Translator, src: Region, dst: Region) -> None:
    """Keep the contents of a buffer that steers control."""
    if dst.storage in t.tracked and not t.is_scalar(dst.storage):
        mins = [", ".join(v.src for v in r.mins) for r in (src, dst)]
        t.line(f"R.contents.copy({src.storage.index}, ({mins[0]},), {src.extents}, {dst.storage.index}, ({mins[1]},), "
               f"{dst.extents}, {'copy(' + src.storage.name + ')'!r})")


@tile_op("tl.tileop.copy", "tl.tileop.async_copy")
def copy(t: Translator, call: Any) -> None:
    """`T.copy(src, dst)`."""
    src, dst = t.region(call.args[0]), t.region(call.args[1])
    marks = {str(k): v for k, v in dict(call.annotations or {}).items()}
    if "dst_block" in marks or int(marks.get("cluster_mask", 0)):
        from .clusters import multicast_copy, remote_copy

        if "dst_block" in marks:
            remote_copy(t, call, src, dst, marks)
        else:
            multicast_copy(t, call, src, dst, int(marks["cluster_mask"]))
        return
    if "barrier" in marks:
        raise UnknownStatement("a copy with its own barrier is not supported", where=text_of(call), fix="Use T.tma_copy.")
    if any(v.flags & THREAD for r in (src, dst) for v in r.mins):
        from .parallel import parallel_nest

        parallel_nest(t, _loop_copy(call))
        return
    t.touch(src.storage, dst.storage)
    follow(t, src, dst)
    scopes = (src.storage.scope, dst.storage.scope)
    exact = t.rules.exact
    tma = _tma_store_possible(t, src, dst, marks) if exact is None else "tma_store" in exact.units
    if scopes == ("shared", "global") and tma:
        store(t, src, dst, blocking=True)
        return
    if [src.extents[d] for d in src.dims] != [dst.extents[d] for d in dst.dims]:
        raise UnknownStatement("a copy between tiles of different shapes is not supported", where=text_of(call))
    own = op_name(call).endswith("async_copy")
    wanted = str(marks.get("prefer_instruction", "")).strip('"')
    asynchronous = own or "no_implicit_async_commit_wait" in marks or wanted == "cp_async"
    steps = _steps(t, src, dst, marks, asynchronous)
    if "cp_async" in steps and not own:
        inner = dst.extents[-1] * dst.storage.bits // 8
        if inner % 4 if exact is None else "cp_async" not in exact.units:
            steps = ["global_load", "shared_store"]
    if scopes[1] == "shared":
        t.usage.generic.add(dst.storage)
    if scopes == ("global", "shared") and "cp_async" not in steps and t.in_serial:
        t.warn(f"copy({src.storage.name} -> {dst.storage.name}) in a loop is synchronous: "
               "no pipeline covers it (num_stages=0), or its rows are not multiples of 16 bytes")
    if scopes == ("fragment", "fragment") and len(src.dims) == len(dst.dims):
        t.layouts.same(src.storage, dst.storage)
    via = None
    if len(steps) > 1:
        dtype = dst.storage.dtype if steps[0] == "elementwise" else src.storage.dtype
        via = t.scratch(f"{src.storage.name}.{'cast' if steps[0] == 'elementwise' else 'reg'}",
                        tuple(dst.extents[d] for d in dst.dims) or (1,), dtype)
        if scopes == ("global", "shared") and t.in_serial:
            t.staging.append(via)
    operation = Copy(t, src, dst, steps, via)
    t.rules.says(operation.source, lambda: {"unit": "cp_async" if "cp_async" in steps else "threads"})
    t.issue(operation, t.origins(src), t.origins(dst))
    if own:
        from .groups import Commit

        t.issue(Commit("cp_async"))
