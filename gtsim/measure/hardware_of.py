"""Which hardware file is about a GPU, by its name, architecture and number of SMs."""

from __future__ import annotations

import re

from ..hwconfigs import Hardware, list_hardware, load_hardware
from .device import Gpu

#: Words of a GPU's name that say on which board it sits; files are named MODEL_BOARD ("h200_sxm").
_BOARDS = ("pcie", "nvl", "sxm")


def hardware_of(gpu: Gpu) -> tuple[str | None, str]:
    """Name of the hardware file for `gpu` and "", or None and why none fits."""
    words = set(re.split(r"[^a-z0-9]+", gpu.name.lower()))
    reasons = []
    for name in list_hardware():
        model, _, board = name.partition("_")
        if model not in words:
            continue
        found = load_hardware(name)
        why = _differs(gpu, words, board, found)
        if not why:
            return name, ""
        reasons.append(f"{name} is {why}")
    return None, "; ".join(reasons) or "no hardware file bears its name"


def _differs(gpu: Gpu, words: set[str], board: str, found: Hardware) -> str:
    other = next((b for b in _BOARDS if any(w.startswith(b) for w in words) and not board.startswith(b)), "")
    if board and other:
        return f"not its {other.upper()} board"
    if found.chip.sm_count != gpu.sm_count:
        return f"a GPU of {found.chip.sm_count} SMs, this one has {gpu.sm_count}"
    return "" if found.chip.arch == gpu.arch else f"for {found.chip.arch}, this one is {gpu.arch}"
