"""Serial loops of element-wise and thread code that the compiler unrolls: the loop becomes a dimension of the nest.

nvcc unrolls a loop with a constant trip count completely if that gives no more than about 256 operations, and else makes one
iteration of as many as give 64 (`validation/unrolling.py` prints it for two loops of split-KV attention). In code without
branches the assembler then puts the loads of all iterations in front and lets independent chains overlap. So the loads of all
iterations become one operation here, then comes the arithmetic of all of them, a statement at a time; what one iteration takes
over from the one before stays a dependent chain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import FrontendError
from .expr import op_name

if TYPE_CHECKING:
    from .translate import Translator

FULL = 256  #: operations up to which nvcc 13.0 unrolls completely: 64 x 4 and 32 x 6 were, 96 x 4 and 64 x 6 were not
PARTIAL = 64  #: operations of one iteration that it makes of several otherwise: 16 x 4, 8 x 6
_FLOATING = ("Add", "Sub", "Mul", "Div", "Max", "Min")


class _Other(Exception):
    """Something stands in the loop that keeps it from being taken apart; it is executed step by step."""


@dataclass
class Part:
    """One statement with the loops around it, and how many of its operations must follow each other."""

    nest: Any
    chain: int
    varies: frozenset[Any]  #: variables of loops in which what it reads is written: nothing of it is the same in two iterations


@dataclass
class _Leaf:
    """A store and what stands around it, inside the loop that is taken apart."""

    store: Any
    loops: tuple[Any, ...]  #: outermost first
    binds: tuple[Any, ...]
    reads: frozenset[Any]
    operations: float = 0.0

    @property
    def target(self) -> Any:
        return self.store.buffer


def unrolled(t: Translator, loop: Any) -> list[Part] | None:
    """The statements of `loop` with the loop as a dimension of each; None if it has to be executed step by step."""
    leaves = _leaves(t, loop)
    if not leaves or (int(loop.kind) != 3 and sum(x.operations for x in leaves) > FULL) or _recurs(leaves):
        return None
    parts, used = [], set()
    for i, leaf in enumerate(leaves):
        body = leaf.store
        for bind in reversed(leaf.binds):
            whole = str(bind.var.dtype).startswith(("int", "uint", "bool")) or bind.var not in used
            if whole and _mentions(t, leaf, bind.var):
                used.add(bind.var)
                body = _sequence([type(bind)(bind.var, bind.value), body])
        for x in reversed(leaf.loops):
            body = type(x)(x.loop_var, x.min, x.extent, x.kind, body, x.thread_binding, x.annotations)
        parts.append(Part(body, _chain(t, leaves, i), _varies(leaves, leaf)))
    return parts


def chain(t: Translator, loop: Any) -> int:
    """Operations that must follow each other in a loop whose statements need each other's results of the iteration before; 1 for
    any other loop."""
    leaves = _leaves(t, loop)
    return len(leaves) * t.constant(loop.extent) if leaves and _recurs(leaves) else 1


def pieces(t: Translator, loop: Any) -> Any:
    """`loop` as a loop over pieces that the compiler unrolls; None if it makes none."""
    import tvm

    leaves = _leaves(t, loop)
    extent = t.constant(loop.extent)
    if int(loop.kind) != 0 or not leaves or _recurs(leaves):
        return None
    most = int(PARTIAL * extent / sum(x.operations for x in leaves))
    size = max((d for d in (2, 4, 8, 16, 32) if extent % d == 0 and d <= most), default=1)
    if size == 1 or size == extent:
        return None
    tir = getattr(tvm, "tirx", None) or tvm.tir
    var = loop.loop_var
    outer, inner = tir.Var(f"{var.name}", var.dtype), tir.Var(f"{var.name}_", var.dtype)
    body = tir.stmt_functor.substitute(loop.body, {var: loop.min + outer * size + inner})
    make = type(loop)
    zero = tir.IntImm(str(var.dtype), 0)
    return make(outer, zero, tir.IntImm(str(var.dtype), extent // size), 0,
                make(inner, zero, tir.IntImm(str(var.dtype), size), 3, body, None, {}), None, {})


def _leaves(t: Translator, loop: Any) -> list[_Leaf]:
    """The stores of a loop; none if something else stands in it, or if it steers control."""
    found: list[_Leaf] = []
    try:
        for leaf in _walk(t, loop, (), ()):
            storage = t.program.storage(leaf.target)
            if storage.scope == "shared" or storage in t.tracked or t.program.barrier(leaf.target) is not None:
                return []
            found.append(leaf)
    except (FrontendError, _Other):
        return []
    return found


def _walk(t: Translator, s: Any, loops: tuple[Any, ...], binds: tuple[Any, ...]) -> Iterator[_Leaf]:
    kind = type(s).__name__
    if kind == "For":
        if int(s.kind) not in (0, 1, 2, 3):
            raise _Other
        t.constant(s.extent)
        yield from _walk(t, s.body, (*loops, s), binds)
    elif kind == "SeqStmt":
        for part in s.seq:
            if type(part).__name__ == "Bind":
                if part.var in t.steering_vars:
                    raise _Other
                binds = (*binds, part)
            else:
                yield from _walk(t, part, loops, binds)
    elif kind == "BufferStore":
        bound = [b.value for b in binds if str(b.var.dtype).startswith("float")]
        reads, operations = _look([s.value, *bound])
        serial = math.prod(t.constant(x.extent) for x in loops if int(x.kind) != 1)
        spread = math.prod(t.constant(x.extent) for x in loops if int(x.kind) == 1) / t.program.threads
        yield _Leaf(s, loops, binds, reads, operations * serial * max(spread, 1.0))
    elif not (kind == "Evaluate" and type(s.value).__name__ != "Call"):
        raise _Other


def _look(values: list[Any]) -> tuple[frozenset[Any], int]:
    """Buffers that values read, and how many loads and floating-point operations they are."""
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    reads: set[Any] = set()
    count = 0

    def see(node: Any) -> None:
        nonlocal count
        kind = type(node).__name__
        if kind == "BufferLoad":
            reads.add(node.buffer)
            count += str(node.buffer.scope()) == "global"
        elif (kind in _FLOATING or kind == "Call") and str(node.dtype).startswith(("float", "bfloat")):
            count += not op_name(node).endswith("infinity") if kind == "Call" else 1

    for value in values:
        tir.stmt_functor.post_order_visit(tir.Evaluate(value), see)
    return frozenset(reads), count


def _mentions(t: Translator, leaf: _Leaf, var: Any) -> bool:
    from .affine import _mentions as mentions

    values = [leaf.store.value, *leaf.store.indices, *(b.value for b in leaf.binds)]
    return any(mentions(t, v, var) for v in values)


def _indexed(t: Translator, leaf: _Leaf, loop: Any) -> bool:
    """Whether each iteration of `loop` writes an element of its own."""
    from .affine import _mentions as mentions

    return any(mentions(t, i, loop.loop_var) for i in leaf.store.indices)


def _recurs(leaves: list[_Leaf]) -> bool:
    """Whether a statement reads what a later one has written an iteration before: the loop cannot be taken apart."""
    for i, leaf in enumerate(leaves):
        for buffer in leaf.reads:
            writers = [j for j, other in enumerate(leaves) if other.target.same_as(buffer)]
            if writers and min(writers) > i:
                return True
    return False


def _chain(t: Translator, leaves: list[_Leaf], i: int) -> int:
    """Iterations of a statement that wait for each other: it updates what it reads, and nothing in the loop sets that anew."""
    leaf = leaves[i]
    if not any(b.same_as(leaf.target) for b in leaf.reads):
        return 1
    fresh = [x for x in leaves[:i] if x.target.same_as(leaf.target) and not any(b.same_as(leaf.target) for b in x.reads)]
    chain = 1
    for depth, loop in enumerate(leaf.loops):
        if int(loop.kind) == 1 or _indexed(t, leaf, loop):
            continue
        if any(len(x.loops) > depth and x.loops[depth].same_as(loop) for x in fresh):
            continue
        chain *= t.constant(loop.extent)
    return chain


def _varies(leaves: list[_Leaf], leaf: _Leaf) -> frozenset[Any]:
    written = [x for x in leaves if any(b.same_as(x.target) for b in leaf.reads)]
    return frozenset(loop.loop_var for depth, loop in enumerate(leaf.loops) if int(loop.kind) != 1 and any(
        len(x.loops) > depth and x.loops[depth].same_as(loop) for x in written))


def _sequence(statements: list[Any]) -> Any:
    import tvm

    return (getattr(tvm, "tirx", None) or tvm.tir).SeqStmt(statements)
