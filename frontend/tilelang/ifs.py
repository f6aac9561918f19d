"""Branches that the compiler's passes had split, put together again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .locals import assigns


def join_ifs(parts: Iterable[Any]) -> list[Any]:
    """Consecutive `if c: ...` with one condition become one (a list); the compiler's binding pass had split them."""
    out: list[Any] = []
    for s in parts:
        if type(s).__name__ == "IfThenElse" and s.else_case is None:
            last = out[-1] if out else None
            if isinstance(last, list) and _equal(last[0].condition, s.condition) and not assigns(last[-1].then_case):
                last.append(s)
                continue
            out.append([s])
        else:
            out.append(s)
    return [p[0] if isinstance(p, list) and len(p) == 1 else p for p in out]


def _equal(a: Any, b: Any) -> bool:
    import tvm

    return bool(tvm.ir.structural_equal(a, b))
