"""Barriers between warps that the compiler adds, behind `ThreadSync`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..facts import BarrierFacts
from ..ir import called_name, integer, leaves, region, serial_names
from . import View, reader

_SYNC = "tirx.tvm_storage_sync"


@reader("barriers", after="tl.LowerDeviceKernelLaunch")
def read(view: View) -> tuple[BarrierFacts, ...]:
    """Those of the finished function without those that the kernel itself has."""
    known = serial_names(view.captured)
    found = _sites(view.body, known, view.threads)
    own = _sites(view.captured, known, view.threads)
    return tuple(BarrierFacts(region=at, threads=n, sites=count - own[at, n])
                 for (at, n), count in sorted(found.items()) if count > own[at, n])


def _sites(body: Any, known: frozenset[str], threads: int) -> Counter[tuple[str, int]]:
    sites: Counter[tuple[str, int]] = Counter()
    for leaf, loops in leaves(body):
        if called_name(leaf) == _SYNC and str(leaf.value.args[0].value) != "cluster":
            args = leaf.value.args
            count = integer(args[2]) if len(args) > 2 else 0
            sites[region(loops, known), 0 if count == threads else count or 0] += 1
    return sites
