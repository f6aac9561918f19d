"""Register reallocation: explicit calls, and the rule by which the compiler adds it to automatic roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..expr import op_name
from ..translate import Translator
from ..walk import Walk
from . import tile_op


class SetMaxNReg:
    """Each warpgroup changes its register count."""

    def __init__(self, registers: int, increase: bool) -> None:
        self.attrs = {"registers": registers, "increase": increase}

    def __call__(self, walk: Walk) -> None:
        """Record the reallocation."""
        for warps in walk.active.parts:
            walk.put("setmaxnreg", warps, f"set_max_nreg({self.attrs['registers']})", attrs=self.attrs)


@tile_op("tl.set_max_nreg", "tl.annotate_producer_reg_dealloc", "tl.annotate_consumer_reg_alloc")
def set_max_nreg(t: Translator, call: Any) -> None:
    """`T.set_max_nreg(n, is_increase)` and its annotations."""
    args = [t.constant(a) for a in call.args]
    increase = bool(args[1]) if len(args) > 1 else "consumer" in op_name(call)
    if args:
        t.issue(SetMaxNReg(args[0], increase))


def role_registers(t: Translator, then_sides: Sequence[Any], else_side: Any,
                   scope: tuple[int, int] | None) -> Callable[[int], None]:
    """What the compiler inserts at the start of each side of an automatic role split: 24/240 registers for one producer and
    up to two consumer warpgroups, 24/160 for three, 24/224 for two and two; nothing if the producer stores on chip or uses
    cp.async."""
    nothing: Callable[[int], None] = lambda side: None  # noqa: E731
    if scope is None or else_side is None:
        return nothing
    facts = [_facts(then_sides), _facts([else_side])]
    producer = 0 if facts[0][0] else 1
    if not facts[producer][0] or facts[producer][1] or any(f[2] for f in facts):
        return nothing
    pools = {(1, 1): (24, 240), (1, 2): (24, 240), (1, 3): (24, 160), (2, 2): (24, 224)}
    pool = pools.get((scope[0] // 128, scope[1] // 128))
    if pool is None:
        return nothing

    def insert(side: int) -> None:
        t.issue(SetMaxNReg(pool[0] if side == producer else pool[1], side != producer))

    return insert


def _facts(sides: Sequence[Any]) -> tuple[bool, bool, bool]:
    """Of the statements: do they issue TMA loads, block reallocation (cp.async, on-chip stores), set registers themselves?"""
    import tvm

    loads = blocked = own = False

    def see(node: Any) -> None:
        nonlocal loads, blocked, own
        kind = type(node).__name__
        if kind == "Call":
            name = op_name(node)
            if name in ("tl.tileop.tma_copy", "tl.tileop.im2col"):
                loads = True
            elif name in ("tl.ptx_cp_async", "tirx.ptx_cp_async", "tl.tileop.async_copy", "tirx.ptx_commit_group"):
                blocked = True
            elif name in ("tl.no_set_max_nreg", "tl.set_max_nreg", "tl.annotate_producer_reg_dealloc"):
                own = True
        elif kind == "BufferStore" and str(node.buffer.scope()) != "global":
            blocked = True

    for side in sides:
        (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.post_order_visit(side, see)
    loads_any = loads
    return loads_any, blocked, own
