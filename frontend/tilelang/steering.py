"""Which on-chip integers steer control: they are computed while the program runs, everything else is only data.

A buffer steers if a loop bound, an `if` outside element-wise code, a barrier slot or a tile origin reads it, or if it flows into
one that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .expr import op_name
from .program import Program, Storage

_ON_CHIP = ("shared", "fragment", "local")


class _Uses:
    """What steers directly, and what flows where."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.roots: list[Any] = []  #: expressions that steer
        self.flows: list[tuple[Any, list[Any]]] = []  #: storage or variable, expressions that flow into it
        self.copies: list[tuple[Storage, Storage]] = []  #: (target, source)
        self.data: list[Any] = []  #: storages and variables written under a condition on floating-point data, or by atomics
        self.guards: list[tuple[Storage, list[Any]]] = []  #: storage, conditions around a store of it
        self._conditions: list[Any] = []

    def visit(self, s: Any, nest: bool) -> None:
        """Collect from a statement; `nest`: inside element-wise code."""
        kind = type(s).__name__
        if kind == "For":
            inner = nest or int(s.kind) in (1, 2)
            if not inner:
                self.roots += [s.min, s.extent]
            self.visit(s.body, inner)
        elif kind == "SeqStmt":
            for part in s.seq:
                self.visit(part, nest)
        elif kind == "IfThenElse":
            if not nest and not self._predicate(s):
                self.roots.append(s.condition)
            self._conditions.append(s.condition)
            self.visit(s.then_case, nest)
            if s.else_case is not None:
                self.visit(s.else_case, nest)
            self._conditions.pop()
        elif kind == "While":
            self.roots.append(s.condition)
            self.visit(s.body, nest)
        elif kind in ("SBlockRealize", "BlockRealize"):
            if not nest:
                self.roots.append(s.predicate)
            self.visit(s.block.body, nest)
        elif kind in ("Bind", "LetStmt"):
            self.flows.append((s.var, [s.value]))
        elif kind == "BufferStore":
            if self.program.barrier(s.buffer) is None and str(s.buffer.scope()) != "global":
                self.flows.append((self.program.storage(s.buffer), [s.value, *s.indices]))
                self.guards.append((self.program.storage(s.buffer), list(self._conditions)))
        elif kind == "Evaluate" and type(s.value).__name__ == "Call":
            self._call(s.value)
        if kind in ("AttrStmt", "LetStmt", "AllocBuffer", "DeclBuffer", "AssertStmt") and getattr(s, "body", None) is not None:
            self.visit(s.body, nest)

    def _predicate(self, s: Any) -> bool:
        """Whether an `if` only chooses what threads compute or move, by the contents of an on-chip tile."""
        from .locals import stores
        from .loops import elementwise_only

        tiles = [x for x in _read(self.program, s.condition) if isinstance(x, Storage) and x.scope in ("shared", "fragment")]
        sides = [side for side in (s.then_case, s.else_case) if side is not None]
        return bool(tiles) and all(elementwise_only(side) and not any(
            str(x.buffer.dtype).startswith(("int", "uint", "bool")) for x in stores(side)) for side in sides)

    def _call(self, call: Any) -> None:
        name = op_name(call)
        if name.startswith("tl.atomic") and "load" not in name:
            from .ops.nest import pointer

            target = pointer(call.args[0])
            if target is not None and str(target[0].buffer.scope()) != "global":
                self.data.append(self.program.storage(target[0].buffer))
        from .ops.nest import element_call_of

        if "assert" in name or "assume" in name or element_call_of(name) is not None:
            return
        regions = [a for a in call.args if type(a).__name__ == "Call" and op_name(a) == "tl.region"]
        for arg in call.args:
            if type(arg).__name__ == "Call" and op_name(arg) == "tl.region":
                self.roots += list(arg.args[0].indices)
            elif type(arg).__name__ == "BufferLoad" and self.program.barrier(arg.buffer) is not None:
                self.roots += list(arg.indices)
            elif not name.startswith(("tirx.call_extern", "tl.atomic")) and hasattr(arg, "dtype"):
                self.roots.append(arg)
        if name.startswith("tl.tileop.") and len(regions) > 1:
            loads = [r.args[0] for r in regions[:2]]
            if str(loads[1].buffer.scope()) != "global" and all(self.program.barrier(x.buffer) is None for x in loads):
                self.copies.append((self.program.storage(loads[1].buffer), self.program.storage(loads[0].buffer)))


def steering(program: Program) -> tuple[set[Storage], set[Any]]:
    """The on-chip integer buffers whose contents steer control, and the variables that do."""
    uses = _Uses(program)
    uses.visit(program.body, False)
    needed: set[Storage] = set()
    variables: set[Any] = set()
    queue = list(uses.roots)
    while queue:
        expr = queue.pop()
        for thing in _read(program, expr):
            if isinstance(thing, Storage):
                if thing in needed or thing.scope not in _ON_CHIP or thing.dtype.startswith(("float", "bfloat")):
                    continue
                needed.add(thing)
                for target, source in uses.copies:
                    if target is thing and source.scope in _ON_CHIP and source not in needed \
                            and not source.dtype.startswith(("float", "bfloat")):
                        needed.add(source)
                        queue += [e for t, es in uses.flows if t is source for e in es]
            elif thing in variables:
                continue
            else:
                variables.add(thing)
            queue += [e for t, es in uses.flows if t is thing or (not isinstance(t, Storage) and not isinstance(thing, Storage)
                                                                  and t.same_as(thing)) for e in es]
    return needed - _data(program, uses), variables


def _data(program: Program, uses: _Uses) -> set[Any]:
    """Storages whose contents follow from floating-point data: nobody can know them before the launch."""
    tainted: set[Any] = set(uses.data)
    changed = True

    def dirty(expr: Any) -> bool:
        return _reads_floats(expr) or any(x in tainted or any(not isinstance(y, Storage) and not isinstance(x, Storage)
                                                              and y.same_as(x) for y in tainted) for x in _read(program, expr))

    while changed:
        changed = False
        for target, exprs in (*uses.flows, *uses.guards):
            if target not in tainted and any(dirty(e) for e in exprs):
                tainted.add(target)
                changed = True
        for target, source in uses.copies:
            if source in tainted and target not in tainted:
                tainted.add(target)
                changed = True
    return tainted


def _reads_floats(expr: Any) -> bool:
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    found = False

    def see(node: Any) -> None:
        nonlocal found
        kind = type(node).__name__
        if kind == "BufferLoad" and str(node.buffer.dtype).startswith(("float", "bfloat")):
            found = True
        elif kind == "Call" and (op_name(node).startswith("tl.atomic") or "shuffle" in op_name(node) or "rng" in op_name(node)):
            found = True

    tir.stmt_functor.post_order_visit(tir.Evaluate(expr), see)
    return found


def _read(program: Program, expr: Any) -> Iterator[Any]:
    """Storages and variables that an expression reads."""
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    found: list[Any] = []

    def see(node: Any) -> None:
        kind = type(node).__name__
        if kind == "BufferLoad" and program.barrier(node.buffer) is None:
            if str(node.buffer.scope()) != "global":
                found.append(program.storage(node.buffer))
        elif kind in ("Var", "SizeVar"):
            found.append(node)

    tir.stmt_functor.post_order_visit(tir.Evaluate(expr), see)
    return iter(found)
