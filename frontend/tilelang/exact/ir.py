"""Walking statements of TVM's IR with the loops around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..expr import op_name

SERIAL, PARALLEL, VECTORIZED, UNROLLED = 0, 1, 2, 3
#: Statements that hold no others.
_LEAVES = ("Evaluate", "BufferStore", "Bind", "AllocBuffer", "DeclBuffer")


def leaves(statement: Any, loops: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Leaf statements in program order, each with the loops (`For` and `While`) around it; a shared one once an occurrence."""
    kind = type(statement).__name__
    if kind in _LEAVES:
        yield statement, loops
        body = getattr(statement, "body", None)
        if body is not None:
            yield from leaves(body, loops)
    elif kind == "SeqStmt":
        for part in statement.seq:
            yield from leaves(part, loops)
    elif kind == "IfThenElse":
        yield from leaves(statement.then_case, loops)
        if statement.else_case is not None:
            yield from leaves(statement.else_case, loops)
    elif kind in ("SBlockRealize", "BlockRealize"):
        yield from leaves(statement.block.body, loops)
    elif kind in ("For", "While"):
        yield from leaves(statement.body, (*loops, statement))
    elif getattr(statement, "body", None) is not None:
        yield from leaves(statement.body, loops)


def find(statement: Any, kind: str) -> list[Any]:
    """All nodes of a kind, such as "Call" or "SBlock", below a statement; a shared node comes once."""
    import tvm

    found: list[Any] = []
    visit = (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.post_order_visit
    visit(statement, lambda n: found.append(n) if type(n).__name__ == kind else None)
    return found


def called(leaf: Any) -> Any | None:
    """The call that a leaf statement consists of; None if it is something else."""
    return leaf.value if type(leaf).__name__ == "Evaluate" and type(leaf.value).__name__ == "Call" else None


def called_name(leaf: Any) -> str:
    """Name of the operator that a leaf statement calls; empty if it calls none."""
    call = called(leaf)
    return op_name(call) if call is not None and hasattr(call.op, "name") else ""


def tile_operation(leaf: Any) -> str:
    """Name of the tile operation that a leaf calls, without its prefix; empty if it calls none."""
    name = called_name(leaf)
    return name.removeprefix("tl.tileop.") if name.startswith("tl.tileop.") else ""


def trips(loops: tuple[Any, ...]) -> int | None:
    """How often a leaf executes in these loops; None if a trip count is not constant."""
    total = 1
    for loop in loops:
        extent = integer(getattr(loop, "extent", None))
        if extent is None:
            return None
        total *= extent
    return total


def integer(expr: Any) -> int | None:
    """The value of an integer constant; None if it is none."""
    if isinstance(expr, int):
        return expr
    if type(expr).__name__ == "IntImm":
        return int(expr.value)
    if expr is None:
        return None
    from tvm import arith

    value = arith.Analyzer().simplify(expr)
    return int(value.value) if type(value).__name__ == "IntImm" else None


def serial_names(statement: Any) -> frozenset[str]:
    """Names of the loops that are executed step by step, "while" for those without a name."""
    names = {_label(x) for _, loops in leaves(statement) for x in loops}
    return frozenset(n for n in names if n)


def region(loops: tuple[Any, ...], known: frozenset[str]) -> str:
    """The place of a leaf in the program: names of the loops around it that the captured kernel has too."""
    return "/".join(n for n in map(_label, loops) if n and n in known)


def _label(loop: Any) -> str:
    if type(loop).__name__ == "While":
        return "while"
    return str(loop.loop_var.name) if int(loop.kind) in (SERIAL, UNROLLED) else ""
