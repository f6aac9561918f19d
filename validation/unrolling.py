#!/usr/bin/env python3
"""How far nvcc unrolls the two loops of a kernel that combines split-KV attention: what frontend/tilelang/unroll.py takes over.

    python validation/unrolling.py [--arch sm_90a]

Needs `nvcc` and `nvdisasm` on the PATH. A loop that is unrolled n times has n times the loads of global memory in its code.
"""

from __future__ import annotations

import re

from sass import arch_asked, disassembled

#: name -> body of a loop over s, operations (loads of global memory and floating-point operations) an iteration, loads
BODIES = {
    "sum of exponentials": ("a += exp2f(g[blockIdx.x * 1024 + s] - m);", 4, 1),
    "weighted rows": ("a += p[blockIdx.x * 131072 + s * 128 + threadIdx.x] * exp2f(g[blockIdx.x * 1024 + s] - m);", 6, 2),
}
TRIPS = ("4", "16", "32", "64", "96", "128", "1024", "n")


def main() -> None:
    """Print a line for each loop and trip count."""
    arch = arch_asked(__doc__)
    print(f"{'loop':20} {'trips':>6} {'operations':>10} {'loads in the code':>18} {'unrolled':>9}")
    for name, (body, operations, loads) in BODIES.items():
        for trips in TRIPS:
            source = f"""extern "C" __global__ void __launch_bounds__(128, 1)
                k(float* __restrict__ o, const float* __restrict__ p, const float* __restrict__ g, int n, float m) {{
                float a = 0; for (int s = 0; s < {trips}; ++s) {{ {body} }}
                o[blockIdx.x * 128 + threadIdx.x] = a; }}"""
            code = disassembled(source, arch, ["--use_fast_math"])
            found = sum(bool(re.search(r"\bLDG", line)) for line in code)
            total = int(trips) * operations if trips.isdigit() else 0
            print(f"{name:20} {trips:>6} {total or '':>10} {found:18d} {found // loads:9d}")


if __name__ == "__main__":
    main()
