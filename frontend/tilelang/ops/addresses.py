"""Integer operations that a parallel nest spends on its indices.

Offsets that move by the same amount from one step of a thread to the next cost nothing there: the compiler unrolls and keeps
them in the instruction, and computes the rest once a thread. What is left are divisions, remainders and selections whose value
jumps. Counts are the SASS of ptxas 13.0 for sm_90a, signed 32-bit: a division by a constant is IMAD.HI, SHF and LEA.HI (3), its
remainder one IMAD more, by a power of two one shift or mask; by a variable the 19 instructions of the inlined division; a
selection is a comparison and a SEL; an address is an IMAD and an IMAD.WIDE.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..affine import evaluate
from ..expr import loads_of, op_name
from .nest import Group

if TYPE_CHECKING:
    from ..translate import Translator

_DIVISIONS = ("FloorDiv", "FloorMod", "Div", "Mod")
_BY_CONSTANT, _BY_VARIABLE, _REMAINDER, _SELECT, _ADDRESS = 3, 19, 1, 2, 2
_THREADS, _STEPS = 16, 8  #: samples


@dataclass
class _Part:
    """A jump in an index, or a whole address: compiled value, and its operations each time it is computed anew."""

    code: Any
    operations: int


@dataclass
class Addresses:
    """The index arithmetic of one group of a nest."""

    t: Translator
    group: Group
    binds: list[tuple[Any, Any]]
    parts: list[_Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bound = dict(self.binds)
        self._seen: set[str] = set()
        self._divided: set[str] = set()
        for access in self._accesses():
            if str(access.buffer.scope()) in ("global", "shared", "shared.dyn"):
                for index in access.indices:
                    self._visit(index)
                self._address(access)

    def _accesses(self) -> Iterator[Any]:
        for item in self.group.items:
            if item.target is not None:
                yield item.target
            for value in (item.value, *(load for load, _ in item.sources)):
                if value is not None:
                    yield from loads_of(value)
        for value in (*self.group.conditions, *self._bound.values()):
            yield from loads_of(value)

    def _address(self, access: Any) -> None:
        """The place in memory as one number."""
        shape = [int(n) if type(n).__name__ == "IntImm" else 1 << 12 for n in access.buffer.shape]
        codes = [self._code(i) for i in access.indices]
        key = f"{access.buffer.name}{[str(i) for i in access.indices]}"
        if None not in codes and key not in self._seen:
            self._seen.add(key)
            scale = [math.prod(shape[d + 1:]) for d in range(len(shape))]
            self.parts.append(_Part([(c, s) for c, s in zip(codes, scale, strict=True)], _ADDRESS))

    def _visit(self, e: Any) -> None:
        kind = type(e).__name__
        if kind in ("Var", "SizeVar"):
            if e in self._bound and (key := f"bound {e.name}") not in self._seen:
                self._seen.add(key)
                self._visit(self._bound[e])
            return
        if kind == "BufferLoad":
            return
        operands = list(e.args) if kind == "Call" else [getattr(e, n) for n in ("a", "b", "value", "condition", "true_value",
                                                                               "false_value") if hasattr(e, n)]
        for part in operands if kind not in ("IntImm", "FloatImm", "StringImm") else ():
            if type(part).__name__ not in ("int", "str", "float"):
                self._visit(part)
        operations = self._operations(e, kind)
        if operations and (key := str(e)) not in self._seen:
            self._seen.add(key)
            if (code := self._code(e)) is not None:
                self.parts.append(_Part([(code, 1)], operations))

    def _operations(self, e: Any, kind: str) -> int:
        if kind in _DIVISIONS:
            divisor = int(e.b.value) if type(e.b).__name__ == "IntImm" else 0
            if divisor > 0 and divisor & (divisor - 1) == 0:
                return 1
            key, remainder = f"{e.a} by {e.b}", kind in ("FloorMod", "Mod")
            first = key not in self._divided  # the remainder needs the quotient, which may be there already
            self._divided.add(key)
            return (0 if not first else _BY_CONSTANT if divisor else _BY_VARIABLE) + (_REMAINDER if remainder else 0)
        if kind == "Select" or (kind == "Call" and op_name(e).endswith("if_then_else")):
            return _SELECT
        return 0

    def _code(self, e: Any) -> Any:
        try:
            return compile(self.t.compile(e).src, "<index>", "eval")
        except Exception:  # noqa: BLE001  data
            return None

    def operations(self, extents: Sequence[int], width: int, threads: int) -> float:
        """Integer operations an element, for threads that take `width` elements at a time, one vector after the other."""
        total = math.prod(extents)
        steps = -(-total // (threads * width))
        thread = np.unique(np.linspace(0, min(threads, max(total // width, 1)) - 1, _THREADS).astype(np.int64))
        step = np.arange(min(steps, _STEPS))
        place = np.minimum((step[None, :] * threads + thread[:, None]) * width, total - 1)
        at = {f"x{i}": x for i, x in enumerate(np.unravel_index(place, tuple(extents)))}
        found = 0.0
        for part in self.parts:
            values = sum(np.broadcast_to(evaluate(code, at), place.shape) * scale for code, scale in part.code)
            moves = np.diff(values, axis=1)
            even = moves.size == 0 or bool((moves == moves.flat[0]).all())
            found += part.operations / (width * (steps if even else 1))
        return found
