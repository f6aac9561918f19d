"""Scalar TIR expressions become Python source text.

An expression is compiled once and evaluated many times as plain Python: constants and loop variables are ints, values that
differ by block are numpy arrays [blocks], values that differ by thread are arrays [threads, 1], so that both broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import FrontendError, shorten

#: What a value depends on: the block, the thread, a scalar that exists at run time (serial loop counters, local counters).
BLOCK, THREAD, RUN, LOOP, NEST = 1, 2, 4, 8, 16
#: What may stand for an array when an expression is evaluated: blocks, threads, the iterations of a parallel nest.
VARIES = BLOCK | THREAD | NEST

_BINARY = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%"}
_COMPARE = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_BITWISE = {"tirx.bitwise_and": "&", "tirx.bitwise_or": "|", "tirx.bitwise_xor": "^", "tirx.shift_left": "<<",
            "tirx.shift_right": ">>"}


@dataclass(frozen=True)
class Value:
    """Python source of an expression, what it depends on, and the run-time integer operations it costs (key, cost)."""

    src: str
    flags: int = 0
    work: tuple[tuple[str, int], ...] = ()

    @property
    def const(self) -> int | None:
        """The value if it is an integer literal."""
        try:
            return int(self.src.strip("()"))
        except ValueError:
            return None


def _power_of_two(n: int | None) -> bool:
    return n is not None and n > 0 and n & (n - 1) == 0


@dataclass
class ExprCompiler:
    """Compiles expressions; `env` maps TIR variables to values, `load` compiles buffer loads, `hoist` names block-only parts."""

    load: Callable[[Any], Value]
    env: dict[Any, Value] = field(default_factory=dict)
    hoisted: dict[str, str] = field(default_factory=dict)
    guarded: int = 0  #: conditions around the expression that are evaluated together with it

    def __call__(self, expr: Any) -> Value:
        """The value of `expr` with its block-only parts hoisted out of the program."""
        return self.hoist(self._compile(expr))

    def hoist(self, value: Value) -> Value:
        """Move a value that depends on nothing but the block in front of the program."""
        if value.flags != BLOCK or value.src.isidentifier():
            return value
        name = self.hoisted.setdefault(value.src, f"g{len(self.hoisted)}")
        return Value(name, BLOCK)

    def _join(self, form: str, *parts: Value, cost: int = 1) -> Value:
        flags = 0
        for part in parts:
            flags |= part.flags
        if flags & ~BLOCK:
            parts = tuple(self.hoist(p) for p in parts)
        src = form.format(*(p.src for p in parts))
        if not flags and "R." not in src:
            try:
                folded = eval(src, {"__builtins__": {}}, {})  # noqa: S307  literals and operators only
            except (ArithmeticError, NameError, TypeError):
                folded = None
            if isinstance(folded, (bool, int)):
                return Value(repr(int(folded)) if folded >= 0 else f"({int(folded)})")
        work = tuple(w for p in parts for w in p.work)
        if flags & RUN and cost:
            work += ((src, cost),)
        return Value(src, flags, work)

    def _compile(self, e: Any) -> Value:
        kind = type(e).__name__
        method: Callable[[Any], Value] | None = getattr(self, "_" + kind, None)
        if method is not None:
            return method(e)
        if kind in _BINARY:
            return self._binary(e, _BINARY[kind])
        if kind in _COMPARE:
            self._no_float(e.a, e)
            return self._join(f"({{}} {_COMPARE[kind]} {{}})", self._compile(e.a), self._compile(e.b))
        raise FrontendError(f"cannot evaluate a {kind} expression", where=text_of(e))

    def _binary(self, e: Any, op: str) -> Value:
        if is_float(e):
            return OPAQUE
        a, b = self._compile(e.a), self._compile(e.b)
        cost = 1
        if op in ("//", "%"):
            cost = 1 if _power_of_two(b.const) else 4
        return self._join(f"({{}} {op} {{}})", a, b, cost=cost)

    @staticmethod
    def _no_float(operand: Any, whole: Any) -> None:
        if is_float(operand):
            raise FrontendError("floating-point data steers control flow", where=text_of(whole),
                                fix="Only integers known before the launch can; pass them as metadata.")

    def _IntImm(self, e: Any) -> Value:
        value = int(e.value)
        return Value(str(value) if value >= 0 else f"({value})")

    def _FloatImm(self, e: Any) -> Value:
        return OPAQUE

    def _StringImm(self, e: Any) -> Value:
        return Value(repr(str(e.value)))

    def _Var(self, e: Any) -> Value:
        value = self.env.get(e)
        if value is None:
            raise FrontendError(f"the variable {e.name!r} has no value", where=text_of(e),
                                fix=f"Bind it: symbols={{{e.name!r}: ...}}.")
        return value

    _SizeVar = _Var

    def _Cast(self, e: Any) -> Value:
        if is_float(e) or is_float(e.value):
            return OPAQUE
        return self._compile(e.value)

    def _Min(self, e: Any) -> Value:
        return OPAQUE if is_float(e) else self._extremum("min", e)

    def _Max(self, e: Any) -> Value:
        return OPAQUE if is_float(e) else self._extremum("max", e)

    def _extremum(self, name: str, e: Any) -> Value:
        a, b = self._compile(e.a), self._compile(e.b)
        uniform = not (a.flags | b.flags) & VARIES
        if a.const is not None and b.const is not None:
            return Value(str(min(a.const, b.const) if name == "min" else max(a.const, b.const)))
        return self._join(f"{name}({{}}, {{}})" if uniform else f"R.{name}({{}}, {{}})", a, b)

    def _And(self, e: Any) -> Value:
        return self._logic(e, "and", "&")

    def _Or(self, e: Any) -> Value:
        return self._logic(e, "or", "|")

    def _logic(self, e: Any, word: str, sign: str) -> Value:
        a, b = self._compile(e.a), self._compile(e.b)
        op = sign if (a.flags | b.flags) & VARIES else word
        return self._join(f"({{}} {op} {{}})", a, b)

    def _Not(self, e: Any) -> Value:
        a = self._compile(e.a)
        return self._join("R.invert({})" if a.flags & VARIES else "(not {})", a, cost=0)

    def _Select(self, e: Any) -> Value:
        return self._choose(e.condition, e.true_value, e.false_value, e)

    def _choose(self, c: Any, t: Any, f: Any, whole: Any) -> Value:
        if is_float(whole):
            return OPAQUE
        cond = self._compile(c)
        self.guarded += 1
        yes, no = self._compile(t), self._compile(f)
        self.guarded -= 1
        if cond.flags & VARIES:
            return self._join("R.where({}, {}, {})", cond, yes, no)
        return self._join("({1} if {0} else {2})", cond, yes, no)

    def _Div(self, e: Any) -> Value:
        return self._truncating("R.truncdiv({}, {})", e)

    def _Mod(self, e: Any) -> Value:
        return self._truncating("R.truncmod({}, {})", e)

    def _truncating(self, form: str, e: Any) -> Value:
        if is_float(e):
            return OPAQUE
        a, b = self._compile(e.a), self._compile(e.b)
        return self._join(form, a, b, cost=1 if _power_of_two(b.const) else 4)

    def _BufferLoad(self, e: Any) -> Value:
        return self.load(e)

    def _Call(self, e: Any) -> Value:
        name = op_name(e)
        if name in _BITWISE:
            return self._join(f"({{}} {_BITWISE[name]} {{}})", self._compile(e.args[0]), self._compile(e.args[1]))
        if name == "tirx.bitwise_not":
            return self._join("(~{})", self._compile(e.args[0]))
        if name == "tirx.if_then_else":
            return self._choose(e.args[0], e.args[1], e.args[2], e)
        if name in ("tirx.likely", "tl.likely", "tirx.reinterpret") and not is_float(e):
            return self._compile(e.args[0])
        if name in ("tl.tl_shuffle_elect", "tl.shuffle_elect"):
            every = self._compile(e.args[0])
            return Value(f"R.elect({every.src})", THREAD)
        if name == "tl.block_rank_in_cluster":
            return Value("rank", BLOCK)
        if is_float(e):
            return OPAQUE
        raise FrontendError(f"cannot evaluate {name} in a scalar expression", where=text_of(e))


#: Floating-point data is never computed; it may flow but not steer.
OPAQUE = Value("NAN")


def op_name(call: Any) -> str:
    """Name of a call's operator as TileLang 0.1.10 and newer spell it (`tirx.`, not `tir.`)."""
    name = str(call.op.name)
    return "tirx." + name[4:] if name.startswith("tir.") else name


def is_float(e: Any) -> bool:
    """Whether a TIR expression has a floating-point type."""
    dtype = str(e.dtype)
    return dtype.startswith(("float", "bfloat"))


def text_of(node: Any, width: int = 110) -> str:
    """The printed IR of a statement or expression without the declarations in front, shortened."""
    try:
        lines = [ln for ln in str(node).split("\n") if ln.strip() and not ln.lstrip().startswith("#")]
    except Exception:  # noqa: BLE001  printing must never hide the real problem
        return type(node).__name__
    body = [ln for ln in lines if " = T.Buffer(" not in ln and not ln.rstrip().endswith(("T.int32()", "T.int64()"))]
    return shorten("\n".join(body or lines), width)


def loads_of(value: Any) -> list[Any]:
    """The loads in an expression."""
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    found: list[Any] = []

    def see(node: Any) -> None:
        if type(node).__name__ == "BufferLoad":
            found.append(node)

    tir.stmt_functor.post_order_visit(tir.Evaluate(value), see)
    return found


def in_register(var: Any, value: Any) -> tuple[Any, Any]:
    """The statement that puts a value into a register of each thread, and the expression that reads it there."""
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    buffer = tir.decl_buffer((1,), value.dtype, name=var.name, scope="local")
    zero = tir.IntImm("int32", 0)
    return tir.BufferStore(buffer, value, [zero]), tir.BufferLoad(buffer, [zero])
