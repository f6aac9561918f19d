"""Element-wise code taken apart: loops, stores, conditions, and thread-level calls.

Statements in one nest of loops form a group; a group becomes one set of nodes. Code outside `T.Parallel` is executed by every
thread: its groups have the thread indices as outer loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import FrontendError, UnknownStatement
from ..expr import op_name, text_of

if TYPE_CHECKING:
    from ..translate import Translator

_NOTHING = ("tl.device_assert", "tl.device_assert_with_msg", "tirx.type_annotation", "tl.debug_print", "tl.loop_break",
            "tirx.assume", "tl.sync_warp", "tirx.break_loop", "tl.warpgroup_fence_operand")
_ASYNC = "parallel_async_without_async_commit_wait"


@dataclass(frozen=True)
class Loop:
    """One loop of a nest: variable, trip count, TIR kind (-1: a thread axis)."""

    var: Any
    extent: int
    kind: int = 0
    axis: int = -1


@dataclass
class Item:
    """One effect: a store (or atomic update, asynchronous copy) of `value` to `target`, an access of `target` if that is all."""

    target: Any
    value: Any
    kind: str = "store"
    mix: dict[str, float] = field(default_factory=dict)
    extent: int = 1  #: contiguous elements behind the pointer that are written
    sources: list[tuple[Any, int]] = field(default_factory=list)  #: further reads: load, contiguous elements


@dataclass
class Group:
    """Items in one nest of loops."""

    loops: tuple[Loop, ...]
    items: list[Item] = field(default_factory=list)
    conditions: list[Any] = field(default_factory=list)
    bounded: bool = False  #: the trip count of a loop is only bounded: data, or another loop, decides it


ElementCall = Callable[["Collector", Any], None]
_CALLS: dict[str, ElementCall] = {}


def element_call(*names: str) -> Callable[[ElementCall], ElementCall]:
    """Register a call that may stand in element-wise or thread-level code."""
    def register(function: ElementCall) -> ElementCall:
        for name in names:
            _CALLS[name] = function
        return function

    return register


def element_call_of(name: str) -> ElementCall | None:
    """The handler of a thread-level call."""
    found = _CALLS.get(name)
    if found is None and name.startswith("tl.atomic") and name.endswith("elem_op"):
        return _atomic
    return found


class Collector:
    """Walks element-wise code once."""

    def __init__(self, t: Translator, outer: tuple[Loop, ...] = ()) -> None:
        self.t = t
        self.groups: list[Group] = []
        self.binds: list[tuple[Any, Any]] = []
        self._path: list[Loop] = list(outer)
        self._conditions: list[Any] = []
        self._asynchronous = False
        self._bounded = 0  #: loops around here whose trip count is only bounded

    def visit(self, s: Any) -> None:
        """Collect what is below `s`."""
        kind = type(s).__name__
        if kind == "For":
            self._loop(s)
        elif kind == "SeqStmt":
            for part in s.seq:
                self.visit(part)
        elif kind == "IfThenElse":
            self._conditions.append(s.condition)
            self.visit(s.then_case)
            if s.else_case is not None:
                self.visit(s.else_case)
            self._conditions.pop()
        elif kind == "While":
            self._conditions.append(s.condition)
            self.visit(s.body)
            self._conditions.pop()
        elif kind in ("SBlockRealize", "BlockRealize"):
            self.visit(s.block.body)
        elif kind in ("Bind", "LetStmt"):
            self.binds.append((s.var, s.value))
            if kind == "LetStmt":
                self.visit(s.body)
        elif kind in ("AttrStmt", "AssertStmt"):
            if getattr(s, "body", None) is not None:
                self.visit(s.body)
        elif kind == "BufferStore":
            self.add(Item(s, s.value, "cp_async" if self._asynchronous and _plain_copy(s) else "store"))
        elif kind in ("AllocBuffer", "DeclBuffer"):
            self.t.program.storage(s.buffer)
            if getattr(s, "body", None) is not None:
                self.visit(s.body)
        elif kind == "Evaluate":
            self._evaluate(s.value)
        else:
            raise UnknownStatement(f"a {kind} statement in element-wise code is not supported", where=text_of(s))

    def _loop(self, s: Any) -> None:
        try:
            extent = self.t.constant(s.extent)
            bounded = False
        except FrontendError:
            extent, bounded = self._bound(s.extent), True
        self._bounded += bounded
        before, self._asynchronous = self._asynchronous, self._asynchronous or _ASYNC in dict(s.annotations or {})
        self._path.append(Loop(s.loop_var, extent, int(s.kind)))
        self.visit(s.body)
        self._path.pop()
        self._bounded -= bounded
        self._asynchronous = before

    def _bound(self, extent: Any) -> int:
        """The largest value of a trip count that depends on data or on other loops."""
        from tvm import arith

        analyzer = arith.Analyzer()
        for loop in self._path:
            analyzer.bind(loop.var, _range(loop.extent))
        bound = int(analyzer.const_int_bound(extent).max_value)
        if not 0 < bound < 1 << 20:
            raise UnknownStatement("the trip count of a loop in element-wise code is not known", where=text_of(extent))
        return bound

    def add(self, item: Item) -> None:
        """One effect at the current place."""
        path = tuple(self._path)
        last = self.groups[-1] if self.groups else None
        if last is None or [x.var for x in last.loops] != [x.var for x in path] \
                or any(i.kind == "cp_async" for i in last.items) != (item.kind == "cp_async"):
            last = Group(path)
            self.groups.append(last)
        last.items.append(item)
        last.bounded = last.bounded or self._bounded > 0
        for c in self._conditions:
            if not any(c.same_as(d) for d in last.conditions):
                last.conditions.append(c)

    def _evaluate(self, call: Any) -> None:
        if type(call).__name__ != "Call":
            return
        name = op_name(call)
        if name in _NOTHING:
            return
        found = element_call_of(name)
        if found is None:
            raise UnknownStatement(f"{name} in element-wise code is not supported", where=text_of(call))
        found(self, call)


def _range(extent: int) -> Any:
    import tvm

    return tvm.ir.Range(0, max(extent, 1))


def _plain_copy(store: Any) -> bool:
    """Whether a store moves global to shared memory unchanged (zero outside a guard)."""
    value = store.value
    if type(value).__name__ == "Call" and op_name(value) == "tirx.if_then_else":
        value = value.args[1]
    return (type(value).__name__ == "BufferLoad" and str(value.buffer.scope()) == "global"
            and str(store.buffer.scope()).startswith("shared") and str(value.dtype) == str(store.buffer.dtype))


def pointer(arg: Any) -> tuple[Any, int] | None:
    """(first element, contiguous elements) behind a pointer argument."""
    if type(arg).__name__ == "BufferLoad":
        return arg, 1
    if type(arg).__name__ != "Call":
        return None
    name = op_name(arg)
    if name in ("tl.access_ptr", "tirx.address_of", "tl.region"):
        extent: Any = arg.args[1] if name == "tl.access_ptr" and len(arg.args) > 1 else None
        known = int(extent.value) if type(extent).__name__ == "IntImm" else 1
        return arg.args[0], known
    return None


def _atomic(collector: Collector, call: Any) -> None:
    name = op_name(call)
    if "load" in name:
        return
    target = pointer(call.args[0])
    if target is None:
        raise UnknownStatement("this form of an atomic update is not supported", where=text_of(call))
    width = 4 if "x4" in name else 2 if "x2" in name else 1
    source = pointer(call.args[1])
    value = source[0] if source is not None else call.args[1]
    collector.add(Item(target[0], value, "atomic", extent=width, sources=[(source[0], width)] if source and width > 1 else []))


@element_call("tirx.call_extern", "tirx.call_pure_extern", "tl.call_extern")
def _extern(collector: Collector, call: Any) -> None:
    """A helper in CUDA: about one integer operation and half a conversion for each element it writes."""
    pointers = []
    for arg in call.args[1:]:
        found = pointer(arg)
        if found is not None:
            writes = type(arg).__name__ == "Call" and op_name(arg) == "tl.access_ptr" and len(arg.args) > 2 \
                and int(getattr(arg.args[2], "value", 3)) & 2
            pointers.append((*found, bool(writes)))
    sources = [(load, n) for load, n, writes in pointers if not writes]
    for load, extent, writes in pointers:
        if writes:
            collector.add(Item(load, None, "store", {"int": 1.0 * extent, "cvt": 0.5 * extent}, extent, sources))
    collector.t.warn(f"the external function {text_of(call.args[0])} is counted as one operation an element")


@element_call("tl.ptx_cp_async", "tirx.ptx_cp_async")
def _cp_async(collector: Collector, call: Any) -> None:
    target, source = pointer(call.args[0]), pointer(call.args[1])
    if target is None or source is None:
        raise UnknownStatement("this form of cp.async is not supported", where=text_of(call))
    extent = int(getattr(call.args[2], "value", 1))
    collector.add(Item(target[0], source[0], "cp_async", extent=extent, sources=[(source[0], extent)]))


@element_call("tl.rng_init", "tl.stg", "tl.sts", "tl.print", "tirx.tvm_fill_fragment", "tl.any_sync", "tl.all_sync")
def _rng_init(collector: Collector, call: Any) -> None:
    collector.add(Item(None, None, "store", {"int": 20.0}))
