"""The operations that take most time."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from .facts import Facts
from .style import columns, count, shrinking, titled

MOST = 10
_CAPTION = ("cycles an execution. wait: until what it needs is there; queue: until its unit is free; "
            "hold: keeps its warps; latency: then until it completes")


def section(facts: Facts) -> RenderableType | None:
    """The source operations, the most time-consuming first."""
    r = facts.result
    table = columns(("operation", "left"), ("type", "left"), ("role", "left"), ("per CTA", "right"), ("wait", "right"),
                    ("queue", "right"), ("hold", "right"), ("latency", "right"))
    shown = [o for o in r.operations if o.executions][:MOST]
    if not shown:
        return None
    for o in shown:
        cycles = (o.wait_cycles, o.queue_cycles, o.service_cycles, o.latency_cycles)
        table.add_row(shrinking(o.source or o.type), o.type, o.role, count(o.executions / max(r.ctas, 1)),
                      *(count(round(c, 1)) for c in cycles))
    left = len(r.operations) - len(shown)
    more = f"; {left} smaller ones left out" if left > 0 else ""
    return titled("Operations", table, Text(_CAPTION + more, style="dim"))
