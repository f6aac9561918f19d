"""Grid barriers: every block must come to each of them, and all blocks must be resident at once."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..findings import Finding
from ..subject import Subject, rule
from .residency import resident


def _counts(subject: Subject) -> npt.NDArray[np.int64]:
    """Grid barriers that each instance comes to, summed over its CTAs, int64[n]."""
    graph = subject.graph
    kinds = [i for i, name in enumerate(graph.type_names) if name == "grid_sync"]
    out = np.zeros(len(graph.instances), dtype=np.int64)
    for i, t in enumerate(graph.templates):
        mine, repeat = np.isin(t.node_type, kinds), t.repeat_of()
        if mine.any():
            runs = graph.times(i)
            out[graph.instances.template == i] = (mine & (repeat < 0)).sum() + sum(
                (mine & (repeat == r)).sum() * runs[:, r] for r in range(runs.shape[1])
            )
    return out


@rule("structure")
def every_block_comes(subject: Subject) -> Iterable[Finding]:
    """All blocks pass as many grid barriers."""
    graph = subject.graph
    if "grid_sync" not in graph.type_names:
        return
    counts = _counts(subject)
    most, least = int(np.argmax(counts)), int(np.argmin(counts))
    if counts[most] == counts[least]:
        return
    blocks = [tuple(graph.instances.block[i].tolist()) for i in (most, least)]
    yield Finding(
        "deadlock",
        "error",
        graph.name,
        f"deadlock: block {blocks[0]} comes to {counts[most]} grid barriers and block {blocks[1]} only to {counts[least]}: the "
        "first waits for ever",
        "Let every block call T.sync_grid() as often.",
        {"barrier": "sync_grid", "most": int(counts[most]), "least": int(counts[least])},
    )


@rule("target")
def all_blocks_are_resident(subject: Subject) -> Iterable[Finding]:
    """A cooperative launch needs room for its whole grid."""
    if "grid_sync" not in subject.graph.type_names:
        return
    ctas_per_sm, limiter = resident(subject)
    places, ctas = ctas_per_sm * subject.limits.sms, math.prod(subject.graph.launch.grid)
    if 0 < places < ctas:
        yield Finding(
            "residency",
            "error",
            subject.graph.name,
            f"a kernel with a grid barrier needs all its {ctas} CTAs resident at once; {subject.limits.name} holds {places} "
            f"({ctas_per_sm} an SM, limited by {limiter}): {ctas - places} too many",
            "Launch a smaller grid whose blocks loop over the work, or make a CTA smaller.",
            {"ctas": ctas, "places": places, "over": ctas - places, "limiter": limiter},
        )
