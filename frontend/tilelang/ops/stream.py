"""Programmatic dependent launch: what a kernel says to its neighbours in the stream."""

from __future__ import annotations

from typing import Any

from ...errors import FrontendError
from ..expr import text_of
from ..translate import Translator
from ..walk import Walk
from . import tile_op


@tile_op("tl.pdl_trigger")
def pdl_trigger(t: Translator, call: Any) -> None:
    """`T.pdl_trigger()`: the next kernel may start."""
    _signal(t, call, "pdl_trigger")


@tile_op("tl.pdl_sync")
def pdl_sync(t: Translator, call: Any) -> None:
    """`T.pdl_sync()`: wait until the kernels before have completed."""
    _signal(t, call, "pdl_wait")


def _signal(t: Translator, call: Any, kind: str) -> None:
    arch = t.program.arch
    if int("".join(c for c in arch if c.isdigit())) < 90:
        raise FrontendError(f"programmatic dependent launch does not exist on {arch}", where=text_of(call),
                            fix="It needs sm_90 or later: choose another GPU, or drop the call.")
    source = str(call.op.name).removeprefix("tl.")

    def issue(walk: Walk) -> None:
        for warps in walk.active.parts:
            walk.put(kind, warps, source)

    t.issue(issue)
