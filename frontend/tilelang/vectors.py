"""How many elements of a parallel nest one thread takes at once, as TileLang's own planner decides.

The planner looks at every access, cast, call and condition of the innermost loop: one access that is not contiguous, or one
condition on data, makes the whole nest scalar (src/transform/loop_vectorize.cc of TileLang). It is asked itself, through the
pass that legalizes `T.vectorized` loops, so that its rules stand in one place.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from typing import Any

_VECTORIZED = 2  #: tirx.ForKind


def planned_width(nest: Any, target: Any) -> int:
    """Elements of the innermost loop in one vector; 128 where nothing limits it or the planner refuses the nest.

    Args:
        nest: the outermost loop of the nest.
        target: the TVM target it is compiled for.
    """
    import tilelang
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir

    def mark(node: Any) -> Any:
        if type(node).__name__ != "For" or _holds_loop(tir, node.body):
            return node
        return tir.For(node.loop_var, node.min, node.extent, _VECTORIZED, node.body)

    marked = tir.stmt_functor.ir_transform(nest, None, mark, ["tirx.For" if tir is getattr(tvm, "tirx", None) else "tir.For"])
    module = tvm.IRModule({"main": tir.PrimFunc([], marked)})
    try:
        with _silent(), target:
            planned = tilelang.transform.LegalizeVectorizedLoop()(module)["main"].body
    except Exception:  # noqa: BLE001  the planner asserts what it cannot do; the compiler would stop there too
        return 128
    widths: list[int] = []
    loops = 0

    def see(node: Any) -> None:
        nonlocal loops
        if type(node).__name__ == "For" and not _holds_loop(tir, node.body):
            loops += 1
            widths.append(int(node.extent) if int(node.kind) == _VECTORIZED else 1)

    tir.stmt_functor.post_order_visit(planned, see)
    return math.gcd(*widths) if widths else 128


def _holds_loop(tir: Any, body: Any) -> bool:
    found = False

    def see(node: Any) -> None:
        nonlocal found
        found = found or type(node).__name__ == "For"

    tir.stmt_functor.post_order_visit(body, see)
    return found


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """The pass warns of every loop that stays scalar."""
    try:
        saved = os.dup(2)
    except OSError:  # standard error is closed
        yield
        return
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
