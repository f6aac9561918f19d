#!/usr/bin/env python3
"""Instructions of the CUDA math functions, by pipe: the tables of frontend/tilelang/math_functions.py.

    python validation/math_functions.py [--arch sm_90a]

Needs `nvcc` and `nvdisasm` on the PATH (pip packages bring both: nvidia-cuda-nvcc, nvidia-cuda-cccl, and triton for nvdisasm).
Each function is compiled alone; what the same kernel without it executes is taken off. The path counted is the one that ordinary
arguments take: code behind a branch that calls a subroutine or is long (huge angles, subnormal divisors) is not.
"""

from __future__ import annotations

import json
import re
from collections import Counter

from sass import arch_asked, disassembled

FMA = {"FFMA", "FMUL", "FADD", "HFMA2", "HMUL2", "HADD2", "IMAD"}
SFU = {"MUFU", "FCHK", "F2I", "FRND", "I2F", "F2F"}
CVT = {"F2FP"}
FREE = {"NOP", "EXIT", "LDC", "ULDC", "S2R", "LDG", "STG", "UMOV"}
#: Loads of constants: they stay in registers from one element to the next.
CONSTANT = re.compile(r"(MOV|IMAD\.MOV\.U32|HFMA2(\.MMA)?) R\d+, (-?RZ, RZ, )?-?(0x)?[0-9]")
LONG = 50  #: instructions; the argument reduction of huge angles has 80
UNARY = ("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "tanh", "sin", "cos", "tan", "erf",
         "sinh", "cosh", "asin", "acos", "atan", "floor", "ceil", "trunc", "nearbyint")
HALF = ("exp", "exp2", "exp10", "log", "log2", "log10", "sqrt", "rsqrt", "tanh", "sin", "cos", "floor", "ceil", "trunc")


def instructions(expression: str, arch: str, kind: str, flags: tuple[str, ...]) -> list[str]:
    """Opcodes on the ordinary path of a kernel that stores `expression` of x and z, without those that load constants."""
    header = {"half": "#include <cuda_fp16.h>\n", "__nv_bfloat16": "#include <cuda_bf16.h>\n"}.get(kind, "")
    source = f"""{header}extern "C" __global__ void k(const {kind}* a, const {kind}* b, {kind}* o) {{
        int i = threadIdx.x; {kind} x = a[i], z = b[i]; o[i] = {expression}; }}"""
    items: list[str] = []
    labels: dict[str, int] = {}
    for line in disassembled(source, arch, flags):
        if label := re.match(r"(\.L_x_\d+):", line.strip()):
            labels[label[1]] = len(items)
        elif item := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            items.append(item[1].strip())
    return _path(items, labels)


def _path(items: list[str], labels: dict[str, int]) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(items):
        found = re.match(r"(@!?U?P\d+ )?(\S+)\s*(.*)", items[at])
        assert found
        guard, op, rest = found.groups()
        if not CONSTANT.match(items[at]):
            out.append(op.split(".")[0])
        at += 1
        if op == "EXIT" and not guard:
            break
        if op.startswith("BRA"):
            target = re.search(r"\.L_x_\d+", rest)
            assert target
            to = labels[target[0]]
            if not guard and not re.match(r"!?U?P\d", rest):
                at = to
            elif to > at and _rare(items[at:to]):
                at = to
    return out


def _rare(region: list[str]) -> bool:
    return len(region) >= LONG or any(x.split()[0].startswith("CALL") or " CALL" in x for x in region)


def mix(ops: list[str]) -> Counter[str]:
    """Instructions by class of the graph's node types."""
    return Counter("fma" if op in FMA else "sfu" if op in SFU else "cvt" if op in CVT else "alu" for op in ops if op not in FREE)


def table(title: str, functions: dict[str, str], arch: str, kind: str, flags: tuple[str, ...] = ()) -> None:
    """Print one table."""
    sums = {"float": "x + z"}.get(kind, "__hadd(x, z)")
    base = {False: mix(instructions("x", arch, kind, flags)), True: mix(instructions(sums, arch, kind, flags))}
    base[True]["fma"] -= 1  # the addition itself
    print(f"# {title}, {arch}")
    for name, expression in functions.items():
        found = mix(instructions(expression, arch, kind, flags))
        found.subtract(base[bool(re.search(r"\bz\b", expression))])
        counts = {k: found[k] for k in ("fma", "alu", "sfu", "cvt") if found[k] > 0}
        print(f"    {json.dumps({name: counts})[1:-1]},")


def main() -> None:
    """Print all tables."""
    arch = arch_asked(__doc__)
    single = {name: f"{name}f(x)" for name in UNARY}
    single |= {"pow": "powf(x, z)", "pow_of_constant": "powf(10000.0f, z)"}
    single |= {"atan2": "atan2f(x, z)", "fmod": "fmodf(x, z)", "division": "x / z"}
    single |= {"sigmoid": "1.0f / (1.0f + expf(-x))"}
    table("fp32", single, arch, "float")
    table("fp32, fast math", single, arch, "float", ("-use_fast_math",))
    table("fp16", {name: f"h{name}(x)" for name in HALF} | {"division": "__hdiv(x, z)"}, arch, "half")
    table("bf16", {name: f"h{name}(x)" for name in HALF} | {"division": "__hdiv(x, z)"}, arch, "__nv_bfloat16")


if __name__ == "__main__":
    main()
