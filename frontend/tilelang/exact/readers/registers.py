"""Registers a thread by TileLang's conventions, behind the pass that inserts `setmaxnreg`."""

from __future__ import annotations

from ..facts import RegisterFacts
from ..ir import called_name, integer, leaves
from . import View, reader

REGISTER_FILE = 65536  #: 32-bit registers of an SM
MAX_REGISTERS = 255  #: 32-bit registers of a thread
REALLOCATING = 240  #: what ptxas gives a kernel that uses setmaxnreg at launch, if the launch bounds allow it


@reader("registers", after="tl.LowerDeviceKernelLaunch")
def read(view: View) -> RegisterFacts:
    """A kernel that reallocates starts with what its launch bounds leave it, at most 240 (TILELANG_IR section 18: 168 for 384
    threads, 240 for 256). Of others only the cap is known."""
    blocks = max(int(view.func.attrs.get("tl.min_blocks_per_sm", 1)), 1)
    cap = min(REGISTER_FILE // (view.threads * blocks) // 8 * 8, MAX_REGISTERS)
    found = {integer(leaf.value.args[0]) or 0 for leaf, _ in leaves(view.body) if called_name(leaf) == "tl.set_max_nreg"}
    if not found:
        return RegisterFacts(launch=None, source="unknown", cap=cap)
    return RegisterFacts(launch=min(REALLOCATING, cap), source="convention", cap=cap, reallocated=tuple(sorted(found)))
