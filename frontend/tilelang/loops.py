"""Which loops and statements hold nothing but element-wise code, and which of those the compiler unrolls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .expr import op_name

if TYPE_CHECKING:
    from .translate import Translator

#: Trips of a loop without inner control flow that nvcc 13.0 unrolls whole (seen: 64)
MAX_UNROLLED = 64


def plain_loop(t: Translator, s: Any) -> bool:
    """Whether a loop only loads, computes and stores, by thread. The compiler unrolls such a loop and moves its loads to the
    front, so that they are under way together."""
    import tvm

    plain, memory = elementwise_only(s), False

    def see(node: Any) -> None:
        nonlocal plain, memory
        kind = type(node).__name__
        if kind in ("IfThenElse", "While", "Evaluate", "AttrStmt", "SBlockRealize") or (kind == "For" and int(node.kind) != 0):
            plain = False
        elif kind == "BufferStore":
            storage = t.program.storage(node.buffer)
            memory = memory or storage.scope == "global"
            plain = plain and not t.is_scalar(storage) and storage not in t.tracked
        elif kind == "BufferLoad":
            memory = memory or str(node.buffer.scope()).startswith(("global", "shared"))

    (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.post_order_visit(s.body, see)
    return plain and memory


def elementwise_only(s: Any) -> bool:
    """Whether a statement holds element-wise and thread-level code only: no tile operations, no synchronisation."""
    import tvm

    from .ops import handler

    found = True

    def see(node: Any) -> None:
        nonlocal found
        if type(node).__name__ == "Evaluate" and type(node.value).__name__ == "Call" and handler(op_name(node.value)) is not None:
            found = False

    (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.post_order_visit(s, see)
    return found


def has_loop(s: Any) -> bool:
    """Whether a statement holds a loop that is executed step by step."""
    kind = type(s).__name__
    if kind == "For":
        return int(s.kind) != 1 or has_loop(s.body)
    if kind == "While":
        return True
    if kind == "SeqStmt":
        return any(has_loop(p) for p in s.seq)
    if kind == "IfThenElse":
        return has_loop(s.then_case) or (s.else_case is not None and has_loop(s.else_case))
    if kind in ("SBlockRealize", "BlockRealize"):
        return has_loop(s.block.body)
    return has_loop(s.body) if getattr(s, "body", None) is not None else False
