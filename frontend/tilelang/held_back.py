"""Global loads and stores in the layout of a tensor-core fragment: how often lanes load, and what conditions hold back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .affine import Access
from .warps import Share

if TYPE_CHECKING:
    from .ops.nest import Group

#: Rows of a fragment after which the same thread has rows again: whether a bound that is a multiple of it is met, all threads of
#: a warpgroup know alike.
_UNIFORM_ROWS = 64


def by_fragment(group: Group, reads: Sequence[Access], writes: Sequence[Access], attrs: dict[str, dict[str, Any]],
                share: Share) -> None:
    """Complete the attributes of global accesses (by key) of one warpgroup's `share`.

    Row and column vectors: four lanes of a warp have a row, eight a column, and each warp loads for itself. Where a condition
    stands around the loads that is known at run time only, the compiler puts each element behind a branch: the loads of one
    follow those of the one before. So it does with stores, and with their addresses, where two conditions stand around them.
    """
    loads = [a for a in reads if a.storage.scope == "global" and all(code is not None for code, _ in a.dims)]
    stores = [a for a in writes if a.storage.scope == "global" and len(a.used) == 2]
    warps = len(share.warps)
    if len(group.loops) != 2 or not all(len(a.used) <= 1 for a in loads):
        return
    heights = [s for a in (*loads, *writes) if a.storage.scope == "global"
               for s, i in zip(a.storage.shape, a.simple, strict=True) if i == 0]
    halves = 1 if min([share.extent[0], *heights]) > 8 else 2  # of the two rows in 16 that a thread has, one is outside
    rounds = 0
    if _held_back(group, 0) or (_held_back(group) and any(a.used for a in loads)):
        rounds = max(share.elements // (32 * warps) // halves, 1)
    for n, a in enumerate(loads):
        lanes = 32 if not a.used else 4 if a.used[0] == 0 else 8  #: that want one element
        count = share.extent[a.used[0]] if a.used else 1
        each = rounds or count * lanes * (1 if a.used and a.used[0] == 0 else warps) / (32 * warps)
        if a.used or rounds:
            attrs[a.key]["copies"] = round(max(each * warps * 32 / count, 1.0), 4)
            attrs[a.key]["lines"] = 1 if a.inner == 1 or not a.used else 32 // lanes
        if rounds and n == 0:
            attrs[a.key]["rounds"] = rounds
    if not loads and _held_back(group, 0) and _held_back(group, 1) and any(h % _UNIFORM_ROWS for h in heights):
        for a in stores:
            attrs[a.key]["rounds"] = max(share.elements // (64 * warps) // halves, 1)


def _held_back(group: Group, dim: int | None = None) -> bool:
    """Whether a condition stands around the items that is not known before the kernel runs (and depends on that loop)."""
    conditions = [c for c in group.conditions if type(c).__name__ != "IntImm"]
    return bool(conditions) if dim is None else any(_mentions(c, group.loops[dim].var) for c in conditions)


def _mentions(value: Any, var: Any) -> bool:
    import tvm

    found = False

    def see(node: Any) -> None:
        nonlocal found
        found = found or node.same_as(var)

    (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.post_order_visit(value, see)
    return found
