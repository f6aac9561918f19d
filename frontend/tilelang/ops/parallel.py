"""`T.Parallel` nests and thread-level code: loads, arithmetic, stores."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..affine import Access as TileAccess
from ..affine import describe_access
from ..expr import LOOP, NEST, OPAQUE, THREAD, Value, loads_of, text_of
from ..held_back import by_fragment
from ..hoist import EarlyLoad
from ..opcount import OpCounter
from ..program import Storage
from ..sync import Access
from ..translate import Translator
from ..vectors import planned_width
from ..walk import Walk
from ..warps import Active, Share
from ..widths import fragment_lanes, linear_lanes, linear_row_bytes, mma_access_bytes, row_alignment, vector_elements
from .addresses import Addresses
from .kept import contents_lines
from .nest import Collector, Group, Loop
from .pieces import apart, rounds, selects


def parallel_nest(t: Translator, s: Any, chain: int = 1, varies: frozenset[Any] = frozenset()) -> None:
    """Translate a parallel nest, or code that every thread executes by itself. Of its iterations, `chain` wait for each other;
    nothing is the same in two iterations of the loops over `varies`."""
    threads = () if _has_parallel(s) else _thread_loops(t)
    if t.registers:
        s = _substituted(s, t.registers)
    collector = Collector(t, threads)
    collector.visit(s)
    planned = functools.cache(lambda: planned_width(s, t.program.target))
    saved, inlined = dict(t.compile.env), dict(t.inlined)
    t.inlined.update(dict(collector.binds))
    for group in collector.groups:
        t.compile.env = dict(saved)
        for i, loop in enumerate(group.loops):
            t.compile.env[loop.var] = Value(f"x{i}", LOOP | NEST)
        _bind(t, {**{v: e for v, e in inlined.items() if threads}, **dict(collector.binds)})
        operation = Elementwise(t, group, collector.binds, planned, chain, varies)
        lines = [line for item in group.items for line in contents_lines(t, group, item)]
        t.compile.env = dict(saved)
        accesses = [*operation.reads, *operation.writes]
        t.touch(*(a.storage for a in accesses))
        for a in operation.writes:
            if a.storage.scope == "shared":
                t.usage.generic.add(a.storage)
        t.issue(operation, *(t.origins_of(a.storage, a.mins) for a in accesses))
        for line in lines:
            t.line(line)
    t.inlined = inlined
    t.compile.env = saved


def _bind(t: Translator, binds: dict[Any, Any]) -> None:
    """Names bound inside the nest (or to values that differ by thread) become expressions of its loop variables."""
    for var, value in binds.items():
        try:
            found = t.compile(value)
            if found.src == OPAQUE.src:
                raise ValueError("data")
            t.compile.env[var] = Value(f"({found.src})", LOOP | found.flags & ~THREAD)
        except Exception:  # noqa: BLE001  data, not an index
            t.compile.env.pop(var, None)


def _substituted(s: Any, values: dict[Any, Any]) -> Any:
    import tvm

    return (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.substitute(s, values)


def _has_parallel(s: Any) -> bool:
    import tvm

    found = False

    def see(node: Any) -> None:
        nonlocal found
        if type(node).__name__ == "For" and int(node.kind) == 1:
            found = True

    (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.post_order_visit(s, see)
    return found


def _thread_loops(t: Translator) -> tuple[Loop, ...]:
    axes = {axis: var for var, axis in t.program.thread_vars.items()}
    return tuple(Loop(axes[a], t.program.thread_extents[a], -1, a) for a in (2, 1, 0) if a in axes)


class Elementwise:
    """The nodes of one group: global and shared loads, arithmetic, stores."""

    def __init__(self, t: Translator, group: Group, binds: list[tuple[Any, Any]], planned: Callable[[], int], chain: int = 1,
                 varies: frozenset[Any] = frozenset()) -> None:
        self.group, self.binds, self.layouts, self.planned = group, binds, t.layouts, planned
        self.chain, self.varies = chain, varies
        self.loops, self.extents = group.loops, tuple(x.extent for x in group.loops)
        self.by_thread = bool(group.loops) and group.loops[0].axis >= 0
        self.thread_extents = t.program.thread_extents
        self.fast = bool(t.program.pass_configs.get("tl.enable_fast_math"))
        self.kinds: dict[str, str] = {}
        self.reads, self.writes = self._accesses(t)
        self.addresses = Addresses(t, group, binds)
        self._relate()
        first = next((i for i in group.items if i.target is not None), None)
        self.source = "thread code"
        if first is not None:
            value = text_of(first.value, 60) if first.value is not None else "..."
            self.source = _clip(f"{'thread' if self.by_thread else 'parallel'}({first.target.buffer.name} = {value})")
        self._plans: dict[Any, Any] = {}
        self._private: dict[Active, set[str]] = {}  #: accesses of which each warpgroup has a box of its own
        self.regs = {a.key: t.scratch(f"{a.storage.name}.reg", self._scratch_shape(a), a.storage.dtype)
                     for a in self.reads if a.storage.scope in ("global", "shared")}
        self.outs = {a.key: t.scratch(f"{a.storage.name}.out", self._scratch_shape(a), a.storage.dtype)
                     for a in self.writes if a.storage.scope in ("global", "shared")}

    def _accesses(self, t: Translator) -> tuple[list[TileAccess], list[TileAccess]]:
        variables = [x.var for x in self.loops]
        reads: dict[str, TileAccess] = {}
        writes: dict[str, TileAccess] = {}

        def see(load: Any, write: bool, width: int = 1) -> TileAccess | None:
            if load is None or t.program.barrier(load.buffer) is not None:
                return None
            access = describe_access(t, load, variables, self.extents, write=write, width=width)
            return (writes if write else reads).setdefault(access.key, access)

        seen: list[Any] = list(self.group.conditions)
        for item in self.group.items:
            access = see(item.target, True, item.extent)
            if access is not None:
                if item.kind != "store":
                    self.kinds[access.key] = item.kind
                seen += list(item.target.indices)
            for load, width in item.sources:
                see(load, False, width)
                seen += list(load.indices)
            if item.value is not None and not item.sources:
                seen.append(item.value)
        for value in [*seen, *(v for _, v in self.binds)]:
            for load in loads_of(value):
                see(load, False)
        return list(reads.values()), list(writes.values())

    def _scratch_shape(self, access: TileAccess) -> tuple[int, ...]:
        return tuple(self.extents[i] for i in access.used) or (1,)

    def _relate(self) -> None:
        fragments = [a for a in (*self.reads, *self.writes) if a.storage.scope == "fragment"]
        matrices = [a for a in fragments if len(a.storage.shape) == 2 and None not in a.simple]
        for a, b in zip(matrices, matrices[1:], strict=False):
            if a.simple == b.simple and a.storage.shape == b.storage.shape:
                self.layouts.same(a.storage, b.storage)
        for v in fragments:
            if len(v.storage.shape) == 1 and v.simple[0] is not None:
                for m in matrices:
                    if v.simple[0] in m.simple:
                        self.layouts.vector(v.storage, m.storage, m.simple.index(v.simple[0]))

    def _mix(self, mma: bool, width: int) -> OpCounter:
        sizes = {x.var: x.extent for x in self.loops}
        fixed = frozenset(x.var for x in self.loops if x.axis >= 0) | self.varies

        def weight(variables: frozenset[Any]) -> float:
            missing = 1
            for v, e in sizes.items():
                if v not in variables and v not in fixed:
                    missing *= e
            if missing == 1:
                return 1.0
            if self.by_thread:
                return 1.0 / missing
            if not variables:
                return 0.0
            return min(1.0, (4.0 / missing) if mma else 1.0 / max(width, 1))

        counter = OpCounter(frozenset(sizes), weight, fast=self.fast)
        for var, value in self.binds:
            counter.bound[var] = counter.statement(value)
        for condition in self.group.conditions:
            counter.statement(condition)
        for item in self.group.items:
            if item.value is not None:
                counter.statement(item.value)
            for op, n in item.mix.items():
                counter.ops[op] = counter.ops.get(op, 0.0) + n
        return counter

    def _shares(self, active: Active) -> list[Share]:
        if not self.by_thread:
            uses = [(a.storage, a.simple) for a in (*self.reads, *self.writes) if a.storage.scope == "fragment"]
            return self.layouts.shares(active, self.extents or (1,), uses)
        ex, ey, _ = self.thread_extents
        out = []
        for part, lanes in zip(active.parts, active.lanes, strict=True):
            ids = np.concatenate([np.flatnonzero(active.mask[32 * w:32 * w + 32]) + 32 * w for w in part])
            offset, extent = [0] * len(self.extents), list(self.extents)
            for i, loop in enumerate(self.loops):
                if loop.axis >= 0:
                    at = (ids % ex, ids // ex % ey, ids // (ex * ey))[loop.axis]
                    offset[i], extent[i] = int(at.min()), int(at.max() - at.min()) + 1
            rest = math.prod(x.extent for x in self.loops if x.axis < 0)
            out.append(Share(part, tuple(offset), tuple(extent), lanes * rest))
        return out

    def _plan(self, walk: Walk) -> Any:
        active = walk.active
        mma = any(self.layouts.is_mma(a.storage) for a in (*self.reads, *self.writes) if a.storage.scope == "fragment")
        memories = [a for a in (*self.reads, *self.writes) if a.storage.scope in ("global", "shared")]
        aligned = min((row_alignment(a.storage) for a in memories if a.storage.scope == "global" and a.inner == 1), default=0)
        inner = self.extents[-1] if self.extents else 1
        wide = [a.storage for a in memories if a.inner == 1] or [a.storage for a in (*self.reads, *self.writes)]
        width = vector_elements(wide, inner, math.prod(self.extents), active.threads, aligned)
        if width > 1 and memories and not mma and not self.by_thread:
            width = min(width, self.planned())
        counter = self._mix(mma, width)
        mix = counter.ops
        if memories and not mma and not self.by_thread:
            mix["int"] = mix.get("int", 0.0) + self.addresses.operations(self.extents or (1,), width, active.threads)
        attrs = {a.key: self._lane_width(a) if self.by_thread else self._width_attrs(a, mma, width, inner) for a in memories}
        rounded = {op: round(n, 4) for op, n in mix.items() if n > 1e-9}
        shares = self._shares(active)
        for a in memories:
            if a.storage.scope == "global" and not self._exact(a, shares):
                attrs[a.key]["approximate"] = True
            if a.storage.scope == "global" and a in self.reads and self._early(a):
                attrs[a.key] = EarlyLoad(attrs[a.key])
            if a in self.reads and (copies := a.copies(shares[0].offset, shares[0].extent)) > 1:
                attrs[a.key]["copies"] = round(copies, 4)
        if mma:
            by_fragment(self.group, self.reads, self.writes, attrs, shares[0])
        chain: dict[str, Any] = {"depth": max(counter.depth, 1) + self.chain - 1}
        one = max(s.elements // max(32 * len(s.warps), 1) for s in shares) if shares else 1
        if counter.branches >= 0.5:
            chain |= {"branches": round(counter.branches, 4), "serial": one, "serial_depth": round(counter.held),
                      "serial_sfu": round(counter.special)}
        late = one if counter.late and not (mma or self.by_thread) else 1
        plan = [(s, {"elements": s.elements, **chain, **rounded}) for w in shares for s in rounds(w, late)]
        if late > 1:
            plan = [(s, {**a, "serial": 1}) for s, a in plan]
        mapping = None if mma or self.by_thread else (tuple(e for e in self.extents if e != 1), width)
        self._private[active] = {a.key for a in memories if self.by_thread and apart(a, shares)}
        return plan, attrs, mapping, bool(rounded)

    def _early(self, access: TileAccess) -> bool:
        """Whether neither data nor a condition decides where, or whether, the access goes."""
        return not (self.group.conditions or self.group.bounded or any(code is None for code, _ in access.dims))

    def _exact(self, access: TileAccess, shares: list[Share]) -> bool:
        """Whether all elements of the access's boxes are touched: no condition, no gather, no holes."""
        if self.group.conditions or self.group.bounded or any(code is None for code, _ in access.dims):
            return False
        if access in self.reads and any(selects(i.value) for i in self.group.items):
            return False
        boxes = [(s.offset, s.extent) for s in shares] if self.by_thread else [((0,) * len(self.extents), self.extents)]
        if self.by_thread and any(s.elements != math.prod(s.extent) for s in shares):
            return False
        return all(
            math.prod(r[1] for r in access.ranges(offset[:len(extent)], extent))
            == math.prod(extent[i] for i in access.used) * access.width for offset, extent in boxes)

    def _lane_width(self, access: TileAccess) -> dict[str, Any]:
        """What one thread and one warp touch, from how the index moves with the innermost loop and with the thread index."""
        storage = access.storage
        width, last = access.width, len(self.loops) - 1
        if last >= 0 and self.loops[last].axis < 0 and self.loops[last].kind == 2 and access.inner == 1:
            width = max(width, self.extents[-1])
        width = max(min(width * storage.bits, 128) // storage.bits, 1)
        size = max(width * storage.bits // 8, 1)
        if storage.scope == "shared":
            return {"access_bytes": size, **self._lanes(access, 1)}
        return {"access_bytes": size, "row_bytes": min(access.lane_run(self._lane_loop(), 32, width) * size, 512)}

    def _lane_loop(self) -> int | None:
        return next((i for i, x in enumerate(self.loops) if x.axis == 0), None)

    def _lanes(self, access: TileAccess, width: int) -> dict[str, Any]:
        """Where the lanes of a warp reach in shared memory; nothing where data decides it. Threads go along x, then y, z."""
        if access.places is None:
            return {}
        if self.by_thread and (found := access.lane_steps(self._lane_loop())) is not None:
            return found
        of_lanes = [i for i, x in enumerate(self.loops) if x.axis >= 0] if self.by_thread else range(len(self.extents))
        return linear_lanes([access.places[i] for i in of_lanes], [self.extents[i] for i in of_lanes], width)

    def _width_attrs(self, access: TileAccess, mma: bool, width: int, inner: int) -> dict[str, Any]:
        storage = access.storage
        element = max(storage.bits // 8, 1)
        if mma and len(self.extents) == 2 and access.inner == 1 and len(access.used) == 2:
            size, row = mma_access_bytes(storage)
            if storage.scope == "shared":
                return {"access_bytes": size, **(fragment_lanes(*access.places) if access.places else {})}
            return {"access_bytes": size, "row_bytes": row}
        if access.inner != 1:
            if storage.scope == "shared":
                return {"access_bytes": element, **self._lanes(access, width)}
            return {"access_bytes": element, "row_bytes": element}
        size = max(width * storage.bits // 8, 1)
        if storage.scope == "shared":
            return {"access_bytes": size, **self._lanes(access, width)}
        return {"access_bytes": size, "row_bytes": max(linear_row_bytes(storage, width, access.run(self.extents)), 1)}

    def __call__(self, walk: Walk, *origins: tuple[Any, ...]) -> None:
        """Record loads, arithmetic and stores, warpgroup by warpgroup."""
        active = walk.active
        plan = self._plans.get(active)
        if plan is None:
            plan = self._plans[active] = self._plan(walk)
        shares, attrs, mapping, works = plan
        count = len(self.reads)
        at = dict(zip((a.key for a in self.reads), origins[:count], strict=True))
        to = dict(zip((a.key for a in self.writes), origins[count:], strict=True))
        self._note(walk, at, to, mapping)
        for share, mix in shares:
            if self.kinds and all(k == "cp_async" for k in self.kinds.values()):
                self._copies(walk, share, at, to, attrs)
                continue
            reads, writes = [], []
            for a in self.reads:
                if a.key in self.regs:
                    reg = self._scratch(walk, self.regs[a.key], a, share)
                    kind = "global_load" if a.storage.scope == "global" else "shared_load"
                    for tile in self._tiles(walk, a, at, share):
                        walk.put(kind, share.warps, self.source, (tile,), (reg,), attrs[a.key])
                    reads.append(reg)
                else:
                    reads.append(a.tile(walk, at[a.key], share))
            stores = []
            for a in self.writes:
                if a.key in self.outs:
                    out = self._scratch(walk, self.outs[a.key], a, share)
                    stores += [(self._store_kind(a), out, tile, attrs[a.key]) for tile in self._tiles(walk, a, to, share)]
                    writes.append(out)
                else:
                    writes.append(a.tile(walk, to[a.key], share))
            if works or not stores or len(reads) != 1:
                walk.put("elementwise", share.warps, self.source, tuple(reads), tuple(writes), mix)
                for kind, out, tile, wide in stores:
                    walk.put(kind, share.warps, self.source, (out,), (tile,), wide)
            else:
                for kind, _, tile, wide in stores:
                    walk.put(kind, share.warps, self.source, (reads[0],), (tile,), wide)

    def _tiles(self, walk: Walk, access: TileAccess, origins: dict[str, Any], share: Share) -> list[Any]:
        """Where threads go their own ways, a box may have holes."""
        return (access.tiles if self.by_thread else lambda *of: [access.tile(*of)])(walk, origins[access.key], share)

    def _store_kind(self, access: TileAccess) -> str:
        if access.storage.scope == "global":
            return "atomic" if self.kinds.get(access.key) == "atomic" else "global_store"
        return "shared_store"

    def _copies(self, walk: Walk, share: Share, at: dict[str, Any], to: dict[str, Any], attrs: dict[str, Any]) -> None:
        """Asynchronous copies global -> shared, a lane each."""
        memories = [a for a in self.reads if a.storage.scope == "global"]
        sources = [a for a in memories if not a.storage.dtype.startswith(("int", "uint", "bool"))] or memories
        for target in self.writes:
            write = target.tile(walk, to[target.key], share)
            read = next((a for a in sources if a.storage.dtype == target.storage.dtype), sources[0])
            wide = {**attrs[read.key], "access_bytes": max(attrs[read.key]["access_bytes"], 4)}
            walk.put("cp_async", share.warps, self.source, (read.tile(walk, at[read.key], share),), (write,), wide,
                     group="cp_async")

    def _scratch(self, walk: Walk, storage: Storage, access: TileAccess, share: Any) -> Any:
        offset = tuple(share.offset[i] for i in access.used) or (0,)
        return walk.tile(storage, offset, tuple(share.extent[i] for i in access.used) or (1,))

    def _note(self, walk: Walk, at: dict[str, Any], to: dict[str, Any], mapping: Any) -> None:
        found = []
        for accesses, origins, write in ((self.reads, at, False), (self.writes, to, True)):
            for a in accesses:
                if a.storage.scope == "shared":
                    start, extent = a.box(origins[a.key], (0,) * len(self.extents), self.extents)
                    same: Any = mapping if a.inner == 1 else None
                    if a.key in self._private[walk.active] and all(
                            i in a.used for i, x in enumerate(self.loops) if x.axis >= 0 and x.extent > 1):
                        same = ("thread", a.key[1:])
                    engine = "cp_async" if self.kinds.get(a.key) == "cp_async" else ""
                    found.append(Access(a.storage, start, extent, write, same, engine, "lane" if engine else ""))
        if found:
            walk.access(tuple(found))


def _clip(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 4] + "...)"
