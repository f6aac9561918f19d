"""Where the time of each warp role goes."""

from __future__ import annotations

from rich.console import RenderableType

from .facts import Facts
from .style import Bar, columns, percent, plural, titled

#: Parts below this share are summed up as "other".
SHOWN = 0.02
MOST = 7
_STYLES = {"working": "green", "barrier": "red", "group": "red", "sync": "red", "data": "yellow", "queue": "magenta",
           "latency": "blue", "control": "yellow", "idle": "dim"}  # fmt: skip


def section(facts: Facts) -> RenderableType | None:
    """A row for each part of each role's time, the largest first."""
    # Warps that only take part in a common prologue are reported by the roles they have afterwards.
    busy = [r for r in facts.result.roles if r.waits.get("idle", 0.0) < 0.97] or facts.result.roles
    if not busy:
        return None
    table = columns(("role", "left"), ("", "left"), ("", "bar"), ("", "right"))
    for role in busy:
        parts = sorted({"working": role.working, **role.waits}.items(), key=lambda kv: -kv[1])
        shown = [p for p in parts if p[1] >= SHOWN][:MOST]
        rest = sum(v for _, v in parts) - sum(v for _, v in shown)
        heading = f"{role.role}, {plural(role.warps, 'warp')}"
        for wait, share in shown:
            style = _STYLES.get(wait.split(" ")[0], "cyan")
            table.add_row(heading, facts.describe(role, wait), Bar(share, style=style), percent(share))
            heading = ""
        if rest >= 0.005:
            table.add_row(heading, "other", Bar(rest, style="dim"), percent(rest))
    return titled("Where the time goes, from the start of a CTA to its end", table)
