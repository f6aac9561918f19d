"""Storage and threads that a CTA of the target does not have: by how much, exactly."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...model import Buffer
from ..findings import Finding
from ..subject import Subject, rule

#: Named barriers of a CTA (PTX ISA, bar.sync), and arrivals that one mbarrier phase can count (PTX ISA, mbarrier.init).
NAMED_BARRIERS, MBARRIER_ARRIVALS = 16, (1 << 20) - 1
TMEM_LANES = 128


@rule("target")
def overflow(subject: Subject) -> Iterable[Finding]:
    """One finding a resource."""
    graph, limits = subject.graph, subject.limits
    launch, name = graph.launch, limits.name or "the target"

    def over(what: str, need: int, have: int, unit: str, fix: str, of: str = "") -> Iterable[Finding]:
        if have and need > have:
            amount = what if what.startswith(unit) or what.endswith(unit) else f"{unit} of {what}"
            text = f"a CTA needs {need} {amount}, {name} has {have}: {need - have} too many{of}"
            yield Finding(
                "overflow",
                "error",
                graph.name,
                text,
                fix,
                {"resource": what, "need": need, "limit": have, "over": need - have, "unit": unit},
            )

    yield from over(
        "shared memory",
        launch.smem_bytes,
        limits.smem_bytes,
        "bytes",
        "Use smaller tiles or fewer stages.",
        _largest(graph.buffers, "shared"),
    )
    yield from over("threads", launch.threads, limits.threads, "threads", "Launch fewer threads.")
    yield from over(
        "registers a thread", launch.registers_per_thread, limits.registers_per_thread, "registers", "Use smaller register tiles."
    )
    yield from over(
        "registers",
        register_file(launch.registers_per_thread, subject.warps, limits.register_unit),
        limits.registers,
        "registers",
        "Use fewer threads or smaller register tiles.",
    )
    yield from over(
        "tensor memory",
        tmem_columns(graph.buffers, launch.tmem_columns),
        limits.tmem_columns,
        "columns",
        "Use a smaller accumulator, or keep the other operand in shared memory.",
        _columns(graph.buffers),
    )
    barriers = {int(graph.attrs[t.node_attrs[i]].get("id", 0)) for t, i in subject.sites("cta_sync")}
    yield from over("named barriers", max(barriers, default=0) + 1, NAMED_BARRIERS, "barriers", "Use barrier numbers below 16.")
    yield from over("arrivals of one barrier phase", _arrivals(subject), MBARRIER_ARRIVALS, "arrivals", "Let one lane arrive.")


def register_file(per_thread: int, warps: int, unit: int) -> int:
    """Registers that the warps of a CTA take."""
    return warps * (-(-per_thread * 32 // unit) * unit)


def tmem_columns(buffers: Iterable[Buffer], at_least: int = 0) -> int:
    """Tensor-memory columns of all buffers: 128 lanes by 32 bits each, allocated by powers of two from 32 on."""
    return max(at_least, sum(n for _, n in _tmem(buffers)))


def _tmem(buffers: Iterable[Buffer]) -> list[tuple[Buffer, int]]:
    out = []
    for b in buffers:
        if b.scope == "tmem":
            rows = int(np.prod(b.shape[:-1])) if len(b.shape) > 1 else 1
            columns = -(-rows // TMEM_LANES) * -(-b.shape[-1] * b.bits // 32)
            out.append((b, max(32, 1 << (columns - 1).bit_length())))
    return out


def _columns(buffers: Iterable[Buffer]) -> str:
    parts = [f"{b.name} {n}" for b, n in _tmem(buffers)]
    return f" ({', '.join(parts)})" if parts else ""


def _largest(buffers: Iterable[Buffer], scope: str) -> str:
    found = sorted((b for b in buffers if b.scope == scope), key=lambda b: -b.nbytes)[:3]
    return f" (largest: {', '.join(f'{b.name} {b.nbytes}' for b in found)})" if found else ""


def _arrivals(subject: Subject) -> int:
    graph = subject.graph
    return max((int(graph.attrs[t.node_attrs[i]].get("count", 0)) for t, i in subject.sites("barrier_arrive")), default=0)
