"""`T.Parallel` nests, and single stores to tiles: loads, arithmetic, stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...errors import UnknownStatement
from ..affine import Access as TileAccess
from ..affine import describe_access
from ..expr import LOOP, Value, op_name, text_of
from ..opcount import OpCounter
from ..program import Storage
from ..sync import Access
from ..translate import Translator
from ..walk import Walk
from ..widths import linear_row_bytes, mma_access_bytes, row_alignment, vector_elements


@dataclass
class Nest:
    """A nest taken apart: its loops, and the accesses and operations of its stores."""

    variables: list[Any] = field(default_factory=list)
    extents: list[int] = field(default_factory=list)
    reads: dict[str, TileAccess] = field(default_factory=dict)
    writes: dict[str, TileAccess] = field(default_factory=dict)
    atomics: set[str] = field(default_factory=set)
    title: str = ""


class Collector:
    """Walks the body of a nest once."""

    def __init__(self, t: Translator) -> None:
        self.t, self.nest = t, Nest()
        self.stores: list[tuple[Any, float]] = []
        self.values: list[tuple[Any, float]] = []
        self.binds: list[Any] = []

    def visit(self, s: Any, scale: float, outer: bool) -> None:
        """Collect loops, stores and conditions below `s`."""
        kind = type(s).__name__
        if kind == "For":
            extent = self.t.constant(s.extent)
            if outer and int(s.kind) == 1:
                self._loop(s.loop_var, extent)
            elif int(s.kind) == 1:
                raise UnknownStatement("a parallel loop inside an imperfect nest is not supported")
            else:  # a serial loop inside: element work, executed extent times
                self._loop(s.loop_var, extent)
                outer = False
            self.visit(s.body, scale, outer)
        elif kind == "SeqStmt":
            for part in s.seq:
                self.visit(part, scale, False)
        elif kind == "IfThenElse":
            self.values.append((s.condition, scale))
            self.visit(s.then_case, scale, False)
            if s.else_case is not None:
                self.visit(s.else_case, scale, False)
        elif kind in ("SBlockRealize", "BlockRealize"):
            self.visit(s.block.body, scale, outer)
        elif kind in ("Bind", "LetStmt"):
            self.binds.append((s.var, s.value))
            if kind == "LetStmt":
                self.visit(s.body, scale, False)
        elif kind == "AttrStmt":
            self.visit(s.body, scale, outer)
        elif kind == "BufferStore":
            self.stores.append((s, scale))
        elif kind in ("AllocBuffer", "DeclBuffer"):
            self.t.program.storage(s.buffer)
        elif kind == "Evaluate":
            self._evaluate(s.value, scale)
        else:
            raise UnknownStatement(f"a {kind} statement inside a parallel loop is not supported", where=text_of(s))

    def _loop(self, var: Any, extent: int) -> None:
        self.nest.variables.append(var)
        self.nest.extents.append(extent)

    def _evaluate(self, call: Any, scale: float) -> None:
        if type(call).__name__ != "Call":
            return
        name = op_name(call)
        if "atomic" in name and name.endswith("elem_op") and "load" not in name and "store" not in name:
            load = call.args[0].args[0]
            self.stores.append((("atomic", load, call.args[1]), scale))
            return
        raise UnknownStatement(f"{name} inside a parallel loop is not supported", where=text_of(call))


def parallel_nest(t: Translator, s: Any) -> None:
    """Translate a parallel nest, or one store outside any."""
    collector = Collector(t)
    collector.visit(s, 1.0, True)
    nest = collector.nest
    saved = dict(t.compile.env)
    for i, var in enumerate(nest.variables):
        t.compile.env[var] = Value(f"x{i}", LOOP)
    for var, value in collector.binds:
        try:
            t.compile.env[var] = Value(f"({t.compile(value).src})", LOOP)
        except Exception:  # noqa: BLE001  data, not an index
            t.compile.env[var] = Value("0", LOOP)
    seen: list[Any] = []
    for store, _ in collector.stores:
        target, value = _target(store)
        access = describe_access(t, target, nest, write=True)
        nest.writes.setdefault(access.key, access)
        if isinstance(store, tuple):
            nest.atomics.add(access.key)
        seen.append(value)
        for index in target.indices:
            seen.append(index)
    seen += [v for v, _ in collector.values] + [v for _, v in collector.binds]
    for value in seen:
        for load in _loads(value):
            if t.program.barrier(load.buffer) is not None:
                continue
            access = describe_access(t, load, nest, write=False)
            nest.reads.setdefault(access.key, access)
    t.compile.env = saved
    operation = Elementwise(t, nest, collector)
    accesses = [*nest.reads.values(), *nest.writes.values()]
    t.touch(*(a.storage for a in accesses))
    for a in nest.writes.values():
        if a.storage.scope == "shared":
            t.usage.generic.add(a.storage)
    t.issue(operation, *(t.origins_of(a.storage, a.mins) for a in accesses))


def _target(store: Any) -> tuple[Any, Any]:
    if isinstance(store, tuple):
        return store[1], store[2]
    return store, store.value


def _loads(value: Any) -> list[Any]:
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    found: list[Any] = []

    def see(node: Any) -> None:
        if type(node).__name__ == "BufferLoad":
            found.append(node)

    tir.stmt_functor.post_order_visit(tir.Evaluate(value), see)
    return found


class Elementwise:
    """The nodes of one nest: global and shared loads, arithmetic, stores."""

    def __init__(self, t: Translator, nest: Nest, collector: Collector) -> None:
        self.nest, self.layouts = nest, t.layouts
        self.reads, self.writes = list(nest.reads.values()), list(nest.writes.values())
        self.extents = tuple(nest.extents)
        self._relate()
        first, value = _target(collector.stores[0][0]) if collector.stores else (None, None)
        name = str(first.buffer.name) if first is not None else "?"
        self.source = _clip(f"parallel({name} = {text_of(value, 60)})") if value is not None else "parallel"
        self.collector, self.t_program = collector, t.program
        self._plans: dict[Any, Any] = {}
        self._accesses: dict[Any, tuple[Access, ...]] = {}
        self.regs = {a.key: t.scratch(f"{a.storage.name}.reg", self._scratch_shape(a), a.storage.dtype)
                     for a in self.reads if a.storage.scope in ("global", "shared")}
        self.outs = {a.key: t.scratch(f"{a.storage.name}.out", self._scratch_shape(a), a.storage.dtype)
                     for a in self.writes if a.storage.scope in ("global", "shared")}

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

    def _mix(self, mma: bool, width: int) -> tuple[dict[str, float], int]:
        nest = self.nest
        sizes = dict(zip(nest.variables, nest.extents, strict=True))
        everything = frozenset(v for v, e in sizes.items())

        def weight(variables: frozenset[Any]) -> float:
            missing = 1
            for v, e in sizes.items():
                if v not in variables:
                    missing *= e
            if missing == 1:
                return 1.0
            if not variables:
                return 0.0
            return min(1.0, (4.0 / missing) if mma else 1.0 / max(width, 1))

        counter = OpCounter(everything, weight)
        for var, value in self.collector.binds:
            counter.bound[var] = counter.statement(value)
        for condition, _ in self.collector.values:
            counter.statement(condition)
        for store, _ in self.collector.stores:
            counter.statement(_target(store)[1])
        return counter.ops, counter.depth

    def _plan(self, walk: Walk) -> Any:
        active = walk.active
        mma = any(self.layouts.is_mma(a.storage) for a in (*self.reads, *self.writes) if a.storage.scope == "fragment")
        total = 1
        for e in self.extents:
            total *= e
        memories = [a for a in (*self.reads, *self.writes) if a.storage.scope in ("global", "shared")]
        aligned = min((row_alignment(a.storage) for a in memories if a.storage.scope == "global" and a.inner == 1), default=0)
        inner = self.extents[-1] if self.extents else 1
        wide = [a.storage for a in memories if a.inner == 1] or [a.storage for a in (*self.reads, *self.writes)]
        width = vector_elements(wide, inner, total, active.threads, aligned)
        mix, depth = self._mix(mma, width)
        uses = [(a.storage, a.simple) for a in (*self.reads, *self.writes) if a.storage.scope == "fragment"]
        shares = self.layouts.shares(active, self.extents or (1,), uses)
        attrs = {a.key: self._width_attrs(a, mma, width, inner) for a in memories}
        rounded = {op: round(n, 4) for op, n in mix.items() if n > 1e-9}
        plan = [(s, {"elements": s.elements, "depth": depth, **rounded}) for s in shares]
        mapping = None if mma else (self.extents, width)
        return plan, attrs, mapping, bool(rounded)

    def _width_attrs(self, access: TileAccess, mma: bool, width: int, inner: int) -> dict[str, Any]:
        storage = access.storage
        element = max(storage.bits // 8, 1)
        if mma and len(self.extents) == 2 and access.inner == 1 and len(access.used) == 2:
            size, row = mma_access_bytes(storage)
            return {"access_bytes": size, "row_bytes": row} if storage.scope == "global" else {"access_bytes": size}
        if access.inner != 1:
            return {"access_bytes": element, "row_bytes": element} if storage.scope == "global" else {"access_bytes": element}
        size = max(width * storage.bits // 8, 1)
        if storage.scope == "shared":
            return {"access_bytes": size}
        run = access.ranges((0,) * len(self.extents), self.extents)[-1][1]  # a flattened index goes on over outer loops
        return {"access_bytes": size, "row_bytes": max(linear_row_bytes(storage, width, max(inner, run)), 1)}

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
            reads, writes = [], []
            for a in self.reads:
                tile = a.tile(walk, at[a.key], share)
                if a.key in self.regs:
                    reg = self._scratch(walk, self.regs[a.key], a, share)
                    kind = "global_load" if a.storage.scope == "global" else "shared_load"
                    walk.put(kind, share.warps, self.source, (tile,), (reg,), attrs[a.key])
                    tile = reg
                reads.append(tile)
            stores = []
            for a in self.writes:
                tile = a.tile(walk, to[a.key], share)
                if a.key in self.outs:
                    out = self._scratch(walk, self.outs[a.key], a, share)
                    kind = "global_store" if a.storage.scope == "global" else "shared_store"
                    if a.key in self.nest.atomics:
                        kind = "atomic"
                    stores.append((kind, out, tile, attrs[a.key]))
                    tile = out
                writes.append(tile)
            if works or not stores or len(reads) != 1:
                walk.put("elementwise", share.warps, self.source, tuple(reads), tuple(writes), mix)
                for kind, out, tile, wide in stores:
                    walk.put(kind, share.warps, self.source, (out,), (tile,), wide)
            else:
                for kind, _, tile, wide in stores:
                    walk.put(kind, share.warps, self.source, (reads[0],), (tile,), wide)

    def _scratch(self, walk: Walk, storage: Storage, access: TileAccess, share: Any) -> Any:
        offset = tuple(share.offset[i] for i in access.used) or (0,)
        return walk.tile(storage, offset, tuple(share.extent[i] for i in access.used) or (1,))

    def _note(self, walk: Walk, at: dict[str, Any], to: dict[str, Any], mapping: Any) -> None:
        found = []
        for accesses, origins, write in ((self.reads, at, False), (self.writes, to, True)):
            for a in accesses:
                if a.storage.scope == "shared":
                    start, extent = a.box(origins[a.key], (0,) * len(self.extents), self.extents)
                    found.append(Access(a.storage, start, extent, write, mapping if a.inner == 1 else None))
        if found:
            walk.access(tuple(found))


def _clip(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 4] + "...)"
