"""The scalar part of a serial loop as a function of its own: what every iteration decides, without issuing anything.

A loop may be cut short only if the iterations left out would have done the same as those that stay. The probe runs all of
them, but only the arithmetic that depends on the iteration: conditions, barrier slots and parities, and where tiles lie.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Probe:
    """Source of the probe function, its name, and the local variables that the loop carries from one iteration to the next."""

    name: str
    lines: tuple[str, ...]
    carried: tuple[str, ...]


class _Bare(ast.NodeTransformer):
    """Carried variables without the call that gives the active threads' value: a probe's are integers (anything else ends it)."""

    def __init__(self, carried: Sequence[str]) -> None:
        self.carried = set(carried)

    def visit_Call(self, call: ast.Call) -> ast.expr:
        """`R.lane(L)` becomes `L`."""
        self.generic_visit(call)
        arg = call.args[0] if call.args else None
        known = isinstance(arg, ast.Name) and arg.id in self.carried and ast.unparse(call.func) == "R.lane"
        return arg if known and arg is not None else call


class _Unfit(Exception):
    """The body holds something whose effect a probe cannot see."""


def probe_of(name: str, variable: str, body: Sequence[str]) -> Probe | None:
    """The probe of a loop over `variable` with the program lines `body`; None if the loop has to be walked step by step.

    The function is called as `name(R, rows, values, *carried)` and appends (carried values, decisions, tile origins, barrier
    parities) an iteration, and the carried values behind the last one.
    """
    tree = ast.parse("\n".join(["if 1:", *(f" {line}" for line in body), " pass"]))
    block = tree.body[0]
    assert isinstance(block, ast.If)
    changing = {variable} | {n.id for n in ast.walk(block) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    carried = tuple(sorted((n for n in changing if n[0] == "L" and n[1:].isdigit()), key=lambda n: int(n[1:])))
    block = _Bare(carried).visit(block)
    try:
        inside = _block(block.body, frozenset(changing))
    except _Unfit:
        return None
    state = f"({', '.join(carried)}{',' if len(carried) == 1 else ''})"
    lines = [f"def {name}({', '.join(('R', 'rows', 'values', *carried))}):", f"    for {variable} in values:",
             "        c, g, q = [], [], []", f"        rows.append(({state}, c, g, q))",
             *(f"        {line}" for line in inside), f"    rows.append(({state}, [], [], []))"]
    return Probe(name, tuple(lines), carried)


def _block(statements: Sequence[ast.stmt], changing: frozenset[str]) -> list[str]:
    lines: list[str] = []
    for s in statements:
        lines += _statement(s, changing)
    return lines or ["pass"]


def _statement(s: ast.stmt, changing: frozenset[str]) -> list[str]:
    if isinstance(s, ast.Pass):
        return []
    if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
        return _call(s.value, changing)
    if isinstance(s, ast.Assign):
        return _assign(s, changing)
    if isinstance(s, ast.If):
        test = ast.unparse(s.test)
        head = [f"if {test}:"]
        if _mentions(s.test, changing):
            head = [f"c.append(bool({test}))", "if c[-1]:"]
        lines = [*head, *(f"    {line}" for line in _block(s.body, changing))]
        if s.orelse:
            lines += ["else:", *(f"    {line}" for line in _block(s.orelse, changing))]
        return lines
    if isinstance(s, ast.For) and isinstance(s.iter, ast.Call) and ast.unparse(s.iter.func) == "range":
        trips = [f"c.append({ast.unparse(a)})" for a in s.iter.args if _mentions(a, changing)]
        return [*trips, f"for {ast.unparse(s.target)} in {ast.unparse(s.iter)}:",
                *(f"    {line}" for line in _block(s.body, changing))]
    raise _Unfit


def _call(call: ast.Call, changing: frozenset[str]) -> list[str]:
    function = ast.unparse(call.func)
    if function == "R.ctl":
        return []
    if not isinstance(call.func, ast.Name):  # on-chip contents change
        raise _Unfit
    decisions: list[str] = []
    origins: list[str] = []
    parities: list[str] = []
    for arg in call.args[1:]:
        if isinstance(arg, ast.Tuple):
            moving = [e for e in arg.elts if _mentions(e, changing)]
            decisions += [ast.unparse(e) for e in moving if _calls(e, "R.slot")]
            origins += [_bare(e) for e in moving if not _calls(e, "R.slot")]
        elif _mentions(arg, changing):
            (parities if _calls(arg, "R.parity") else decisions).append(ast.unparse(arg))
    out = []
    if parities:
        out.append(f"q += ({', '.join(parities)},)")
    if decisions:
        out.append(f"c += ({', '.join(decisions)},)")
    if origins:
        out.append(f"g += ({', '.join(origins)},)")
    return out


def _assign(s: ast.Assign, changing: frozenset[str]) -> list[str]:
    target = s.targets[0]
    text = ast.unparse(target)
    if text in ("R.loop", "R.at") or (isinstance(target, ast.Name) and text[0] == "p"):
        return []
    if any(isinstance(n, ast.Subscript) for n in ast.walk(target)):
        raise _Unfit
    if isinstance(s.value, ast.Call) and ast.unparse(s.value.func) == "R.split" and _mentions(s.value, changing):
        raise _Unfit
    return [ast.unparse(s)]


def _bare(e: ast.expr) -> str:
    """An origin without the call that makes a column of it."""
    if isinstance(e, ast.Call) and _calls(e, "R.origin"):
        e = e.args[0]
    return ast.unparse(e)


def _calls(e: ast.expr, function: str) -> bool:
    return isinstance(e, ast.Call) and ast.unparse(e.func) == function


def _mentions(e: ast.expr, names: frozenset[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(e))
