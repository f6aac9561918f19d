"""What the mathematical functions of CUDA cost: instructions by class (fma, alu, sfu, cvt) of one call.

The tables are the SASS of nvcc 13.5 for sm_90a (sm_80 differs by an instruction here and there), counted on the path that
ordinary arguments take; `validation/math_functions.py` makes them. TileLang calls the precise functions unless fast math is asked
for, by the pass config `tl.enable_fast_math` or the compiler flag `--use_fast_math`.
"""

from __future__ import annotations

from collections.abc import Mapping

from .conversions import conversion

Mix = Mapping[str, float]

_PRECISE: dict[str, Mix] = {
    "exp": {"fma": 6, "alu": 1, "sfu": 1}, "exp2": {"fma": 2, "alu": 1, "sfu": 1}, "exp10": {"fma": 6, "alu": 1, "sfu": 1},
    "expm1": {"fma": 13, "alu": 8}, "log": {"fma": 14, "alu": 13}, "log2": {"fma": 16, "alu": 13},
    "log10": {"fma": 15, "alu": 13}, "log1p": {"fma": 15, "alu": 16}, "sqrt": {"fma": 4, "alu": 5, "sfu": 1},
    "rsqrt": {"fma": 2, "alu": 1, "sfu": 1}, "tanh": {"fma": 9, "alu": 4, "sfu": 2}, "sin": {"fma": 11, "alu": 13, "sfu": 1},
    "cos": {"fma": 11, "alu": 14, "sfu": 1}, "tan": {"fma": 11, "alu": 11, "sfu": 2},
    "erf": {"fma": 8, "alu": 13, "sfu": 1}, "sinh": {"fma": 14, "alu": 6, "sfu": 3},
    "cosh": {"fma": 8, "alu": 4, "sfu": 3}, "asin": {"fma": 14, "alu": 7, "sfu": 1},
    "acos": {"fma": 15, "alu": 7, "sfu": 1}, "atan": {"fma": 11, "alu": 6, "sfu": 1}, "floor": {"sfu": 1}, "ceil": {"sfu": 1},
    "trunc": {"sfu": 1}, "nearbyint": {"sfu": 1},
    "pow": {"fma": 42, "alu": 44, "sfu": 5},
    "pow_of_constant": {"fma": 30, "alu": 15, "sfu": 2}, "atan2": {"fma": 16, "alu": 23, "sfu": 2}, "fmod": {"alu": 10},
    "division": {"fma": 5, "alu": 3, "sfu": 2}, "sigmoid": {"fma": 9, "alu": 7, "sfu": 2},
}
_FAST: dict[str, Mix] = {
    "exp": {"fma": 1, "sfu": 1}, "exp2": {"sfu": 1}, "exp10": {"fma": 1, "sfu": 1}, "expm1": {"fma": 13, "alu": 8},
    "log": {"fma": 1, "sfu": 1}, "log2": {"sfu": 1}, "log10": {"fma": 1, "sfu": 1}, "log1p": {"fma": 15, "alu": 16},
    "sqrt": {"sfu": 1}, "rsqrt": {"sfu": 1}, "tanh": {"sfu": 1}, "sin": {"fma": 1, "sfu": 1}, "cos": {"fma": 1, "sfu": 1},
    "tan": {"fma": 2, "sfu": 3}, "erf": {"fma": 11, "alu": 12, "sfu": 1}, "sinh": {"fma": 14, "alu": 6, "sfu": 3},
    "cosh": {"fma": 8, "alu": 4, "sfu": 3}, "asin": {"fma": 15, "alu": 6, "sfu": 1},
    "acos": {"fma": 17, "alu": 6, "sfu": 1}, "atan": {"fma": 12, "alu": 5, "sfu": 1}, "floor": {"sfu": 1}, "ceil": {"sfu": 1},
    "trunc": {"sfu": 1}, "nearbyint": {"sfu": 1}, "pow": {"fma": 1, "sfu": 2},
    "atan2": {"fma": 18, "alu": 23, "sfu": 2}, "fmod": {"alu": 10}, "division": {"fma": 1, "sfu": 1},
    "sigmoid": {"fma": 2, "sfu": 2},
}
_HALF: dict[str, Mix] = {
    "exp": {"fma": 6, "alu": 2, "sfu": 1, "cvt": 1}, "exp2": {"fma": 2, "sfu": 1, "cvt": 1},
    "exp10": {"fma": 7, "alu": 3, "sfu": 1, "cvt": 1}, "log": {"fma": 6, "alu": 2, "sfu": 1, "cvt": 1},
    "log2": {"fma": 3, "alu": 2, "sfu": 1, "cvt": 1}, "log10": {"fma": 6, "alu": 2, "sfu": 1, "cvt": 1},
    "sqrt": {"fma": 1, "sfu": 1, "cvt": 1}, "rsqrt": {"fma": 1, "sfu": 1, "cvt": 1},
    "tanh": {"fma": 10, "alu": 4, "sfu": 2, "cvt": 1}, "sin": {"fma": 12, "alu": 12, "cvt": 1},
    "cos": {"fma": 11, "alu": 13, "cvt": 1}, "floor": {"sfu": 1}, "ceil": {"sfu": 1}, "trunc": {"sfu": 1},
    "division": {"fma": 4, "alu": 7, "sfu": 1, "cvt": 2},
}
_BFLOAT: dict[str, Mix] = {
    "exp": {"fma": 3, "alu": 2, "sfu": 1, "cvt": 1}, "exp2": {"fma": 2, "alu": 2, "sfu": 1, "cvt": 1},
    "exp10": {"fma": 3, "alu": 5, "sfu": 1, "cvt": 1}, "log": {"fma": 3, "alu": 2, "sfu": 1, "cvt": 1},
    "log2": {"fma": 2, "alu": 2, "sfu": 1, "cvt": 1}, "log10": {"fma": 3, "alu": 2, "sfu": 1, "cvt": 1},
    "sqrt": {"fma": 2, "alu": 2, "sfu": 1, "cvt": 1}, "rsqrt": {"fma": 2, "alu": 2, "sfu": 1, "cvt": 1},
    "tanh": {"alu": 1, "sfu": 1, "cvt": 1}, "sin": {"fma": 12, "alu": 13, "sfu": 1, "cvt": 1},
    "cos": {"fma": 12, "alu": 14, "sfu": 1, "cvt": 1},
    "floor": {"sfu": 1}, "ceil": {"sfu": 1}, "trunc": {"sfu": 1}, "division": {"fma": 4, "alu": 7, "sfu": 1, "cvt": 1},
}
#: Functions whose code has a branch for rare arguments (BSSY in the SASS): elements of a thread wait for each other there.
_BRANCHING = {"float32": ("division", "sqrt", "sin", "cos", "tan", "log1p", "pow", "pow_of_constant", "atan2", "fmod"),
              "bfloat16": ("sin", "cos")}
_FAST_BRANCHING = ("log1p", "atan2", "fmod")
_SAME = {"power": "pow", "rint": "nearbyint", "round": "nearbyint"}  #: other names


def function_mix(name: str, dtype: str, *, fast: bool) -> Mix | None:
    """Instructions of one call of `name` on an argument of type `dtype`; None if it is no mathematical function.

    16-bit functions that CUDA lacks run in fp32 between two conversions.
    """
    name = _SAME.get(name, name)
    single = (_FAST if fast else _PRECISE).get(name)
    if dtype not in ("float16", "bfloat16"):
        return single
    own = (_HALF if dtype == "float16" else _BFLOAT).get(name)
    if own is not None and not fast:
        return own
    if single is None:
        return None
    mix = dict(single)
    for op, n in (*conversion(dtype, "float32").items(), *conversion("float32", dtype).items()):
        mix[op] = mix.get(op, 0) + n
    return mix


def branches(name: str, dtype: str, *, fast: bool) -> bool:
    """Whether the code of a function has a branch for rare arguments."""
    name = _SAME.get(name, name)
    if fast and dtype == "float32":
        return name in _FAST_BRANCHING
    return name in _BRANCHING.get(dtype, ())
