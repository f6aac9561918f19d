"""The compiler's facts take the place of the rules in the kernel graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .compare import Fact, shared_bytes, swizzles
from .facts import KernelFacts

if TYPE_CHECKING:
    from ....graph import TileGraphBuilder
    from ..program import Storage
    from ..translate import Translator


def decided_swizzles(translator: Translator, exact: KernelFacts) -> dict[Storage, int]:
    """Swizzle spans of the shared buffers whose layout is known."""
    return {storage: span for _, storage, span in swizzles(translator, exact) if span is not None}


def apply_launch(builder: TileGraphBuilder, exact: KernelFacts) -> None:
    """Shared memory and registers of the launch."""
    if exact.shared_memory is not None:
        builder.smem_bytes = shared_bytes(exact.shared_memory)
    if exact.registers is not None and exact.registers.launch is not None:
        builder.registers_per_thread = exact.registers.launch


def comparison_meta(exact: KernelFacts, facts: Sequence[Fact]) -> dict[str, Any]:
    """For the graph: how many facts were compared, which differ, which are unknown and why."""
    unknown = dict(exact.unknown)
    if exact.registers is not None and exact.registers.source == "unknown":
        unknown["registers"] = "no setmaxnreg and no ptxas: the estimate by rule is used"
    for buffer in exact.buffers:
        if buffer.scope == "shared" and buffer.swizzle_bytes is None:
            unknown[f"swizzle of {buffer.name}"] = "the layout is none of the hardware's swizzles"
    known = exact.registers is not None and exact.registers.source != "unknown"
    return {"facts_compared": sum(f.fast is not None and f.exact is not None for f in facts),
            "facts_differ": [str(f) for f in facts if f.differs], "facts_unknown": unknown,
            "registers_from": exact.registers.source if exact.registers is not None and known else "rule"}


def comparison_warnings(exact: KernelFacts, facts: Sequence[Fact]) -> list[str]:
    """For the report."""
    made = [f"exact facts: {f}" for f in facts if f.differs]
    return made + [f"exact facts: {field} could not be read: {why}" for field, why in exact.unknown.items()]
