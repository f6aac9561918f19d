"""What it costs to convert an element from one type to another: operations by class."""

from __future__ import annotations

import re


def conversion(source: str, target: str) -> dict[str, float]:
    """Operations to convert one element, as nvcc 13.0 compiles them for sm_90a: `validation/conversions.py` prints the
    instructions. Narrowing to 16 or 8 bits handles two elements at once; bfloat16 to fp32 is a shift, done by two pipes in
    turn."""
    if source == target or source == "bool" or target == "bool":
        return {}
    a, b = width_of(source), width_of(target)
    if not is_floating(source) and not is_floating(target):
        return {"int": 1.0} if a != b and b < 32 else {}
    if not is_floating(source):  # I2F; I2FP, of the ALU, from what needs no sign extension to fp32
        fast = b == 32 and (a == 32 or (a < 32 and source.startswith("u")))
        return {"alu": 1.0} if fast else {"sfu": 1.0, "cvt": 0.5} if a == 64 and b == 16 else {"sfu": 1.0}
    widened = _widening(source) if a == 16 else {}
    if not is_floating(target):
        return {**widened, "sfu": 1.0}
    if a == 8 or b == 8:
        return {"cvt": 1.5} if a == 8 and b == 32 else {"cvt": 0.5}
    narrowed = 0.5 if b == 16 else 0.0
    mix = {**widened, "cvt": widened.get("cvt", 0.0) + narrowed, "sfu": 1.0 if 64 in (a, b) else 0.0}
    return {op: n for op, n in mix.items() if n}


def _widening(source: str) -> dict[str, float]:
    return {"alu": 0.5, "fma": 0.5} if source.startswith("bfloat") else {"cvt": 1.0}


def width_of(dtype: str) -> int:
    """Bits of an element type."""
    match = re.match(r"\D+(\d+)", dtype)
    return int(match.group(1)) if match else 32


def is_floating(dtype: str) -> bool:
    """Whether an element type is floating point."""
    return dtype.startswith(("float", "bfloat"))
