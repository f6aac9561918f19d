#!/usr/bin/env python3
"""What each mechanism of the memory system is worth: FlashAttention forward with one of them switched off at a time.

    python benchmarks/ablation.py                  # about a minute
    python benchmarks/ablation.py --fidelity line  # line by line, about half an hour
    python benchmarks/ablation.py --what-if resources.tensor.rate_per_cycle=1536   # on a machine that is changed first

`examples/flash_attention.py` for the heads of Llama 3 8B, 70B and 405B, one sequence, on h800_sxm at 1830 MHz: the models and the
GPU of the Sim-FA paper, which reports mean errors of 5.7 % with everything on, 16.8 % without the coalescer, 64.3 % with a plain
hash and 511 % without de-duplication. Its kernel is FlashAttention-3; docs/deviations.md compares.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from gtsim.hwconfigs import parse_override

import gtsim

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

#: Name, and what is set to switch it off.
SWITCHES: dict[str, dict[str, Any]] = {
    "all on": {},
    "no coalescer (l2.coalescer=false)": {"l2.coalescer": False},
    "no copies in the other partition (l2.remote_copy=false)": {"l2.remote_copy": False},
    "192 MSHRs a slice (l2.mshr_per_slice=192)": {"l2.mshr_per_slice": 192},
    "32 MSHRs a slice (l2.mshr_per_slice=32)": {"l2.mshr_per_slice": 32},
    "plain hash (l2.hash=plain)": {"l2.hash": "plain"},
    "no de-duplication (tma.deduplicate=false)": {"tma.deduplicate": False},
}
#: Query and key heads.
MODELS = {"8B": (32, 8), "70B": (64, 8), "405B": (128, 8)}


def main() -> None:
    """Print cycles a model and switch, and the mean change."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seq", type=int, nargs="+", default=[1024, 4096], help="sequence lengths")
    parser.add_argument("--fidelity", default="bulk", choices=["bulk", "line"])
    parser.add_argument("--hw", default="h800_sxm")
    parser.add_argument("--clock-mhz", type=float, default=1830.0)
    parser.add_argument("--what-if", action="append", default=[], metavar="PATH=VALUE", help="set first, for all rows")
    args = parser.parse_args()
    from flash_attention import flash_attention

    changed = dict(parse_override(text) for text in args.what_if)
    change: dict[str, list[float]] = {name: [] for name in SWITCHES}
    for model, (heads, kv_heads) in MODELS.items():
        for seq in args.seq:
            shape = {"batch": 1, "heads": heads, "kv_heads": kv_heads, "seq_q": seq, "seq_kv": seq}
            graph = gtsim.lower(flash_attention, (), shape, hw=args.hw)
            base = 0
            for name, overrides in SWITCHES.items():
                p = gtsim.simulate(graph, args.hw, clock_mhz=args.clock_mhz, fidelity=args.fidelity,
                                   overrides={**changed, **overrides})
                base = base or p.cycles
                change[name].append(p.cycles / base - 1)
                print(f"Llama 3 {model}, {seq:5} tokens: {p.cycles:10,} cycles {p.cycles / base - 1:+8.1%}, L2 reads "
                      f"{p.traffic.l2_read_bytes / 1e6:9,.0f} MB, L2 {p.result.utilization['l2']:4.0%} busy; {name}", flush=True)
    print(f"\n{'mean change of the cycles':60}")
    for name, values in change.items():
        print(f"{name:60} {statistics.fmean(values):+8.1%}, worst {max(values):+8.1%}")


if __name__ == "__main__":
    main()
