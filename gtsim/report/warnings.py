"""What the frontend wants the user to know."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from .facts import Facts
from .style import titled


def section(facts: Facts) -> RenderableType | None:
    """One line a warning; nothing if there are none."""
    if not facts.result.warnings:
        return None
    grid = Table.grid(padding=(0, 1, 0, 0))
    for text in facts.result.warnings:
        grid.add_row(Text("!", style="bold yellow"), Text(text))
    return titled("Warnings", grid)
