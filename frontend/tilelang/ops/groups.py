"""Commit and wait groups: cp.async, bulk stores, wgmma."""

from __future__ import annotations

from typing import Any

from ..translate import Translator
from ..walk import Walk
from . import tile_op


class Commit:
    """Close the open group of a queue; the issuing thread of bulk stores is the elected one."""

    def __init__(self, queue: str, elected: bool = False) -> None:
        self.queue, self.elected = queue, elected

    def __call__(self, walk: Walk) -> None:
        """Record the commits."""
        for warps in ((walk.active.warps[:1],) if self.elected else walk.active.parts):
            walk.put("commit", warps, "commit", attrs={"queue": self.queue})


class WaitGroup:
    """Wait until at most `pending` groups are outstanding."""

    def __init__(self, queue: str, elected: bool = False, until_read: bool = False) -> None:
        self.queue, self.elected = queue, elected
        self.attrs = {"queue": queue, **({"until_read": True} if until_read else {})}

    def __call__(self, walk: Walk, pending: int) -> None:
        """Record the waits; a barrier follows a wait for cp.async, whose completion is per thread."""
        for warps in ((walk.active.warps[:1],) if self.elected else walk.active.parts):
            walk.put("wait_group", warps, f"wait_group({pending})", attrs={**self.attrs, "pending": max(pending, 0)})
        if self.queue == "cp_async" and walk.shared.implicit_sync:
            walk.sync()


@tile_op("tirx.ptx_commit_group", "tl.ptx_commit_group")
def commit_group(t: Translator, call: Any) -> None:
    """`T.ptx_commit_group()`."""
    t.issue(Commit("cp_async"))


@tile_op("tirx.ptx_wait_group", "tl.ptx_wait_group")
def wait_group(t: Translator, call: Any) -> None:
    """`T.ptx_wait_group(n)`."""
    _wait(t, call.args[0], WaitGroup("cp_async"))


@tile_op("tl.wait_wgmma", "tl.warpgroup_wait")
def wait_wgmma(t: Translator, call: Any) -> None:
    """`T.wait_wgmma(n)`."""
    _wait(t, call.args[0], WaitGroup("wgmma"))


@tile_op("tl.tma_store_arrive")
def store_arrive(t: Translator, call: Any) -> None:
    """Commit the bulk stores of the elected thread."""
    t.issue(Commit("bulk", elected=True))


@tile_op("tl.tma_store_wait")
def store_wait(t: Translator, call: Any) -> None:
    """`T.tma_store_wait(n, read)`: wait for the bulk stores of the elected thread; unless `read` is false, until they have read
    shared memory."""
    operation = WaitGroup("bulk", elected=True, until_read=len(call.args) < 2 or bool(t.constant(call.args[1])))
    if len(call.args):
        _wait(t, call.args[0], operation)
    else:
        t.issue(operation, "0")


def _wait(t: Translator, expr: Any, operation: WaitGroup) -> None:
    value = t.compile(expr)
    t.charge(value)
    t.issue(operation, t.uniform(value))
