"""Operations per element of an element-wise statement, by class.

Classes as in the graph's node types: fma (fp32 multiply, add, fused), fp64 (the same of fp64, and its comparisons), alu (min,
max, compare, select, logic), sfu (exp2, log2, rsqrt, reciprocal, tanh; rounding; conversions between integers and floats), cvt
(conversions between floats), int (integer arithmetic on data). 16-bit floating point runs in pairs: half an operation an
element. Index arithmetic is counted elsewhere (ops/addresses.py). A product that is added to something is one fused operation, a
subexpression that occurs twice counts once, and one that does not depend on all loop variables counts less. What mathematical
functions cost stands in `math_functions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import UnknownStatement
from .conversions import conversion, is_floating, width_of
from .expr import op_name, text_of
from .math_functions import branches, function_mix

#: intrinsic -> operations of one call
FUNCTIONS: dict[str, dict[str, float]] = {
    "fabs": {"alu": 1}, "abs": {"alu": 1}, "fma": {"fma": 1}, "clamp": {"alu": 2}, "isnan": {"alu": 1}, "isinf": {"alu": 1},
    "isfinite": {"alu": 1}, "max": {"alu": 1}, "min": {"alu": 1}, "popcount": {"int": 1}, "ieee_add": {"fma": 1},
    "ieee_sub": {"fma": 1}, "ieee_mul": {"fma": 1}, "ieee_fmaf": {"fma": 1}, "ieee_frcp": {"fma": 2, "sfu": 1},
    "ieee_fsqrt": {"fma": 2, "sfu": 2}, "ieee_frsqrt": {"sfu": 1}, "ieee_fdiv": {"fma": 2, "sfu": 1},
    "mul_hi": {"int": 1}, "tvm_warp_shuffle": {"shuffle": 1}, "tvm_warp_shuffle_up": {"shuffle": 1},
    "tvm_warp_shuffle_down": {"shuffle": 1}, "tvm_warp_activemask": {"int": 1}, "any_sync": {"int": 1}, "all_sync": {"int": 1},
    "ballot_sync": {"int": 1}, "shfl_sync": {"shuffle": 1}, "shfl_xor_sync": {"shuffle": 1}, "shfl_down_sync": {"shuffle": 1},
    "shfl_up_sync": {"shuffle": 1}, "shuffle_xor_sync": {"shuffle": 1}, "rng_rand": {"int": 20}, "rng_rand_float": {"int": 22},
    "dp4a": {"int": 1}, "clz": {"int": 1}, "ctz": {"int": 1}, "ffs": {"int": 1}, "hash": {"int": 8},
}
_FREE = ("infinity", "reinterpret", "likely", "min_value", "max_value", "access_ptr", "address_of", "tvm_access_ptr",
         "type_annotation", "get_lane_idx", "get_warp_idx", "get_warp_idx_sync", "get_warp_group_idx", "__ldg", "ldg", "pack_b16",
         "loop_break", "block_rank_in_cluster")


#: Instructions that ptxas rather executes for nothing than branches around (seen: 5 predicated, 8 behind a branch).
_PREDICATED = 6


def _chain(mix: Mapping[str, float]) -> int:
    """Dependent steps of a function: those of its polynomial follow each other, what selects its case runs beside them."""
    return max(int(mix.get("fma", 0)), int(mix.get("alu", 0)), 1)


@dataclass
class _Seen:
    key: str
    depth: int
    variables: frozenset[Any]
    data: bool


@dataclass
class OpCounter:
    """Counts the operations of the stores of one nest.

    Attributes:
        variables: the loop variables of the nest.
        weight: how often an expression over a subset of the variables is evaluated, an element of the full space.
        bound: variables bound inside the nest.
        fast: the compiler may use fast math.
    """

    variables: frozenset[Any]
    weight: Callable[[frozenset[Any]], float]
    bound: dict[Any, _Seen] = field(default_factory=dict)
    fast: bool = False
    ops: dict[str, float] = field(default_factory=dict)
    depth: int = 0
    scale: float = 1.0
    branches: float = 0.0  #: an element, that its warp takes instead of predicating what follows
    held: float = 0.0  #: dependent steps between such a branch and the one before it, an element
    special: float = 0.0  #: special functions among them (the reciprocal of a shared divisor is there before)
    late: bool = False  #: a load stands behind a branch that data decides
    _done: dict[str, _Seen] = field(default_factory=dict)
    _loaded: set[str] = field(default_factory=set)

    def statement(self, value: Any) -> _Seen:
        """Count the right-hand side of a store (or a condition)."""
        seen = self._visit(value)
        self.depth = max(self.depth, seen.depth)
        return seen

    def _add(self, mix: Mapping[str, float], variables: frozenset[Any], half: bool = False, double: bool = False) -> None:
        weight = self.scale * (1.0 if variables == self.variables else self.weight(variables))
        for op, n in mix.items():
            if double and op in ("fma", "alu"):
                op = "fp64"
            self.ops[op] = self.ops.get(op, 0.0) + n * weight * (0.5 if half and op in ("fma", "alu") else 1.0)

    def _leaf(self, key: str, variables: frozenset[Any] = frozenset(), data: bool = False) -> _Seen:
        return _Seen(key, 0, variables, data)

    def _visit(self, e: Any) -> _Seen:
        kind = type(e).__name__
        if kind in ("IntImm", "FloatImm", "StringImm"):
            return self._leaf(str(e.value))
        if kind in ("Var", "SizeVar"):
            if e in self.bound:
                return self.bound[e]
            return self._leaf(f"{e.name}@{hash(e)}", frozenset([e]) if e in self.variables else frozenset())
        if kind == "BufferLoad":
            parts = [self._visit(i) for i in e.indices]
            key = f"{e.buffer.name}[{','.join(p.key for p in parts)}]"
            if str(e.buffer.scope()) == "global":
                self._loaded.add(key)
            return self._leaf(key,
                              frozenset().union(*(p.variables for p in parts)), True)
        if kind == "Cast":
            inner = self._visit(e.value)
            real = inner.data or (is_floating(str(e.dtype)) and inner.variables)
            mix = conversion(str(e.value.dtype), str(e.dtype)) if real else {}
            return self._node(f"cast:{e.dtype}", [inner], mix, str(e.dtype), inner.data, False)
        if kind in ("Add", "Sub") and is_floating(str(e.dtype)):
            return self._sum(e, kind)
        if kind == "Call":
            return self._call(e)
        if kind in ("Select",):
            return self._choice(e.condition, (e.true_value, e.false_value), str(e.dtype))
        if hasattr(e, "a") and hasattr(e, "b"):
            return self._binary(e, kind)
        if kind == "Not":
            return self._node("not", [self._visit(e.a)], {}, str(e.dtype), True)
        if kind in ("Ramp", "Broadcast"):
            return self._visit(e.base if kind == "Ramp" else e.value)
        raise UnknownStatement(f"a {kind} expression in element-wise code is not supported", where=text_of(e))

    def _node(self, name: str, parts: list[_Seen], mix: Mapping[str, float], dtype: str, data: bool, pack: bool = True, *,
              steps: int = 1, branch: bool = False, repeated: int | None = None) -> _Seen:
        key = f"{name}({','.join(p.key for p in parts)})"
        found = self._done.get(key)
        if found is None:
            variables = frozenset().union(*(p.variables for p in parts))
            steps = steps if mix else 0
            if branch:
                often = self.scale * (1.0 if variables == self.variables else self.weight(variables))
                self.branches += often
                self.held += often * (steps if repeated is None else repeated)
                self.special += often * (name != "Div" or parts[1].variables == variables)
            found = self._done[key] = _Seen(key, max((p.depth for p in parts), default=0) + steps, variables, data)
            self._add(mix, variables, pack and width_of(dtype) == 16 and is_floating(dtype), dtype == "float64")
        return found

    def _sum(self, e: Any, kind: str) -> _Seen:
        """Addition; a product among its operands that nobody else needs is fused."""
        products = [x for x in (e.a, e.b) if type(x).__name__ == "Mul"]
        best: tuple[int, Any, list[_Seen]] | None = None
        for x in products:
            parts = [self._visit(x.a), self._visit(x.b)]
            if f"Mul({parts[0].key},{parts[1].key})" not in self._done:
                size = len(parts[0].variables | parts[1].variables)
                if best is None or size > best[0]:
                    best = (size, x, parts)
        if best is None:
            return self._node(kind, [self._visit(e.a), self._visit(e.b)], {"fma": 1.0}, str(e.dtype), True)
        other = self._visit(e.b if best[1] is e.a or best[1].same_as(e.a) else e.a)
        return self._node(f"fused{kind}", [*best[2], other], {"fma": 1.0}, str(e.dtype), True)

    def _binary(self, e: Any, kind: str) -> _Seen:
        parts = [self._visit(e.a), self._visit(e.b)]
        data = parts[0].data or parts[1].data
        operand = str(e.a.dtype)
        mix: Mapping[str, float]
        if kind in ("EQ", "NE", "LT", "LE", "GT", "GE"):
            mix = {"alu": 1.0} if data or parts[0].variables | parts[1].variables else {}
            return self._node(kind, parts, mix, operand, data)
        if kind in ("And", "Or"):
            return self._node(kind, parts, {"alu": 1.0} if parts[0].variables | parts[1].variables else {}, operand, data, False)
        if not is_floating(operand):
            cost = {"FloorDiv": 4.0, "FloorMod": 4.0, "Div": 4.0, "Mod": 4.0}.get(kind, 1.0)
            constant = type(e.b).__name__ == "IntImm" and int(e.b.value) > 0 and int(e.b.value) & (int(e.b.value) - 1) == 0
            return self._node(kind, parts, {"int": 1.0 if constant else cost} if data else {}, operand, data)
        if kind in ("Min", "Max"):
            mix = {"alu": 1.0}
        elif kind == "Div":
            exact = type(e.b).__name__ == "FloatImm" and abs(math.frexp(float(e.b.value))[0]) == 0.5
            # by a power of two: a product
            mix = {"fma": 1.0} if exact else function_mix("division", operand, fast=self.fast) or {}
            if self.fast and not exact and width_of(operand) == 32 and parts[1].data:
                # the reciprocal of what several elements are divided by is computed once (MUFU.RCP in the SASS of nvcc 13.0)
                parts[1] = self._node("reciprocal", [parts[1]], {"sfu": mix["sfu"]}, operand, True, False)
                mix = {k: n for k, n in mix.items() if k != "sfu"}
        else:
            mix = {"fma": 1.0}
        slow = kind == "Div" and mix != {"fma": 1.0}
        return self._node(kind, parts, mix, operand, True, kind != "Div", steps=_chain(mix) if slow else 1,
                          branch=slow and branches("division", operand, fast=self.fast))

    def _choice(self, condition: Any, sides: Any, dtype: str) -> _Seen:
        """A selection. Short sides are both computed; the compiler branches around special functions, long code and loads."""
        decides = self._visit(condition)
        before, loaded = dict(self.ops), set(self._loaded)
        parts = [decides, *(self._visit(side) for side in sides)]
        more = {op: n - before.get(op, 0.0) for op, n in self.ops.items()}
        late = decides.data and bool(self._loaded - loaded)
        self.late = self.late or late
        costly = more.get("sfu", 0.0) > 0 or sum(more.values()) > _PREDICATED
        longest = max(max(p.depth for p in parts[1:]) - decides.depth, 1)
        mix = {} if _predicated(*sides) else {"alu": 1.0}
        return self._node("select", parts, mix, dtype, True, branch=decides.data and (costly or late), repeated=longest)

    def _call(self, e: Any) -> _Seen:
        name = op_name(e).rsplit(".", 1)[-1]
        if name in _FREE:
            parts = [self._visit(a) for a in e.args if type(a).__name__ != "StringImm"]
            return self._node(name + str(e.dtype), parts, {}, str(e.dtype), any(p.data for p in parts))
        if name == "if_then_else":
            return self._choice(e.args[0], e.args[1:], str(e.dtype))
        parts = [self._visit(a) for a in e.args]
        data = any(p.data for p in parts)
        if name.startswith(("bitwise_", "shift_")):
            return self._node(name, parts, {"int": 1.0} if data else {}, str(e.dtype), data)
        plain, dtype = name.lstrip("_").removeprefix("fast_"), str(e.dtype)
        quick = self.fast or plain != name
        if plain == "pow" and type(e.args[0]).__name__ == "FloatImm" and dtype == "float32" and not quick:
            plain = "pow_of_constant"  # the compiler knows its logarithm
        mix = FUNCTIONS.get(plain) or function_mix(plain, dtype, fast=quick)
        if mix is None and "atomic" in name:
            mix = {"int": 1.0}
        if mix is None and name in ("call_pure_extern", "call_extern"):
            outer = str(getattr(e.args[0], "value", ""))
            inner = outer.strip("_").removeprefix("h").removesuffix("f")
            mix = FUNCTIONS.get(inner) or function_mix(inner, dtype, fast=self.fast or outer.startswith("_")) or {"int": 2.0}
        if mix is None:
            raise UnknownStatement(f"the function {op_name(e)} in element-wise code is not supported", where=text_of(e))
        return self._node(name, parts, mix, str(e.dtype), data, name in ("max", "min", "fma"), steps=_chain(mix),
                          branch=branches(plain, dtype, fast=quick))


def _predicated(value: Any, other: Any) -> bool:
    """Whether a selection is a load under a condition, a constant elsewhere: the load is predicated, nothing is selected."""
    if type(other).__name__ in ("Cast", "Broadcast"):
        other = other.value
    return type(value).__name__ == "BufferLoad" and type(other).__name__ in ("IntImm", "FloatImm")
