"""How busy the hardware is."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from .facts import Facts
from .style import Bar, columns, count, heat, percent, resource_name, titled

#: Resources busier than this are shown.
SHOWN = 0.01


def section(facts: Facts) -> RenderableType | None:
    """A bar a resource, the busiest first, and how long requests queued for it."""
    r = facts.result
    shown = sorted((n for n, share in r.utilization.items() if share > SHOWN), key=facts.utilization, reverse=True)
    if not shown:
        return None
    table = columns(("busy", "left"), ("", "bar"), ("", "right"), ("queueing, cycles a CTA", "right"))
    for name in shown:
        share, queued = facts.utilization(name), r.queued_cycles.get(name)
        table.add_row(resource_name(name), Bar(share, style=heat(share)), percent(share),
                      "" if queued is None or queued < 0.5 else count(queued))
    caption = "queueing: cycles that requests waited for the resource, summed over all requests of a CTA (they overlap)"
    return titled("Busy resources", table, Text(caption, style="dim"))
