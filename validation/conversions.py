#!/usr/bin/env python3
"""Instructions that convert one element from one type to another: what frontend/tilelang/conversions.py counts.

    python validation/conversions.py [--arch sm_90a]

Needs `nvcc` and `nvdisasm` on the PATH. Each pair of types is a kernel that converts eight elements a thread; printed is an
eighth of what it executes more than a kernel that copies them. Addresses and the bytes taken apart (PRMT) are among it.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations

from sass import arch_asked, disassembled

TYPES = {"int8": "signed char", "uint8": "unsigned char", "int32": "int", "int64": "long long", "float16": "__half",
         "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double"}
CONVERTING = re.compile(r"F2F|F2FP|F2I|I2F|I2FP|HADD2\.F32|IMAD\.U32|SHF\.L\.U32")
EACH = 8


def kernel(source: str, target: str) -> str:
    """CUDA of the kernel `source_target`; integers become 16-bit floats directly, everything else by a cast."""
    load = f"a[i * {EACH} + j]"
    load = {"float16": f"__half2float({load})", "bfloat16": f"__bfloat162float({load})"}.get(source, load)
    if target in ("float16", "bfloat16"):
        name = "half" if target == "float16" else "bfloat16"
        narrow = source in ("int8", "uint8", "int32")
        value = f"__int2{name}_rn((int){load})" if narrow else f"__float2{name}((float){load})"
    else:
        value = f"({TYPES[target]}){load}"
    return f"""extern "C" __global__ void {source}_{target}(
    const {TYPES[source]}* __restrict__ a, {TYPES[target]}* __restrict__ o) {{
    int i = threadIdx.x; {TYPES[target]} r[{EACH}];
    for (int j = 0; j < {EACH}; j++) r[j] = {value};
    for (int j = 0; j < {EACH}; j++) o[i * {EACH} + j] = r[j]; }}
"""


def main() -> None:
    """Print a line a pair of types."""
    arch = arch_asked(__doc__)
    pairs = list(permutations(TYPES, 2))
    text = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n" + "".join(kernel(*pair) for pair in pairs)
    found: dict[str, Counter[str]] = {}
    name = ""
    for line in disassembled(text, arch):
        if section := re.search(r"\.text\.(\w+):", line):
            name = section[1]
            found[name] = Counter()
        elif item := re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([\w.]+)", line):
            if name and CONVERTING.match(item[1]):
                found[name][item[1]] += 1
    for pair in pairs:
        counts = found["_".join(pair)]
        print(f"{pair[0]:9} {pair[1]:9}", ", ".join(f"{op} {n / EACH:g}" for op, n in counts.items() if n > 1))


if __name__ == "__main__":
    main()
