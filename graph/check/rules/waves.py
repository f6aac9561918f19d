"""How the grid meets the chip."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...clusters import clusters_at_once
from ..findings import Finding
from ..subject import Subject, rule
from .residency import resident

_NEARLY_EMPTY, _MANY = 0.2, 8.0
_SMALL_TILE = 128 * 128


@rule("cost")
def last_wave(subject: Subject) -> Iterable[Finding]:
    """The last round of CTAs uses less than a fifth of the chip."""
    ctas_per_sm, _ = resident(subject)
    slots = ctas_per_sm * subject.limits.sms
    if not slots:
        return
    launch = subject.graph.launch
    if launch.cluster_ctas > 1 and subject.limits.gpc_sms:
        slots = launch.cluster_ctas * clusters_at_once(subject.limits.gpc_sms, ctas_per_sm, launch.cluster_ctas) or slots
    ctas = math.prod(launch.grid)
    waves, last = ctas / slots, ctas % slots / slots
    if 1 < waves <= _MANY and 0 < last < _NEARLY_EMPTY:
        yield Finding(
            "tail-wave",
            "warning",
            subject.graph.name,
            f"{ctas} CTAs are {waves:.2f} waves of {slots}: the last one fills {100 * last:.0f} % of the chip and takes "
            "as long as the others",
            "Use another tile size, split K, or make the kernel persistent.",
            {"ctas": ctas, "slots": slots, "waves": waves, "last": last},
        )


@rule("cost")
def alone_with_small_tiles(subject: Subject) -> Iterable[Finding]:
    """One CTA an SM although its tile is small: nothing overlaps its start and end."""
    ctas_per_sm, limiter = resident(subject)
    graph = subject.graph
    if ctas_per_sm != 1 or math.prod(graph.launch.grid) <= subject.limits.sms or limiter not in ("shared memory", "registers"):
        return
    tiles = [graph.node(t, i) for t, i in subject.sites("mma", "wgmma", "tcgen05_mma")]
    outputs: dict[str, int] = {}
    for node in tiles:
        for w in node.writes:
            outputs[w.buffer.name] = max(outputs.get(w.buffer.name, 0), math.prod(w.buffer.shape[-2:]))
    if not outputs or max(outputs.values()) >= _SMALL_TILE:
        return
    launch = graph.launch
    need = (
        f"{launch.smem_bytes} bytes of shared memory"
        if limiter == "shared memory"
        else f"{launch.registers_per_thread} registers x {launch.threads} threads"
    )
    yield Finding(
        "occupancy",
        "warning",
        graph.name,
        f"one CTA fills an SM ({need}) although its largest product tile has only {max(outputs.values())} elements: "
        "nothing overlaps its start and end",
        f"Use {'fewer' if limiter == 'registers' else 'less'} {limiter}, larger tiles, or a persistent kernel.",
        {"limiter": limiter, "elements": max(outputs.values())},
    )
