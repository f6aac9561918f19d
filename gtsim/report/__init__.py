"""The report: what a prediction says, and why, for a terminal, a notebook or a plain text file.

Each section is one file with a function `section(facts)`; hints are rules in `rules.py`.
"""

from __future__ import annotations

import io
import shutil
from typing import IO

from rich.console import Console, Group, RenderableType

from ..prediction import Prediction
from . import footer, headline, hints, launch, memory, operations, resources, roles, warnings
from .facts import Facts
from .hints import Hint, advice, hint

#: Sections from top to bottom.
SECTIONS = (headline, launch, resources, memory, roles, operations, hints, warnings, footer)
MIN_WIDTH, MAX_WIDTH = 72, 120
_HTML = '<pre style="font-family:monospace;line-height:1.25;overflow-x:auto">{code}</pre>'

__all__ = ["Facts", "Hint", "advice", "hint", "html_of", "print_report", "print_text", "report", "report_html",
           "report_text", "text_of"]


def report(prediction: Prediction) -> Group:
    """The report as something rich can print."""
    facts = Facts(prediction)
    parts: list[RenderableType] = [part for module in SECTIONS if (part := module.section(facts)) is not None]
    return Group(*parts)


def print_report(prediction: Prediction, *, file: IO[str] | None = None, width: int | None = None) -> None:
    """Print it; in colour if `file` (standard output by default) is a terminal."""
    print_text(report(prediction), file=file, width=width)


def report_text(prediction: Prediction, width: int | None = None, *, ascii_only: bool = False) -> str:
    """The report without colour; the width is the terminal's, or 100 where there is none."""
    return text_of(report(prediction), width, ascii_only=ascii_only)


def report_html(prediction: Prediction, width: int = 110) -> str:
    """The report as a piece of HTML."""
    return html_of(report(prediction), width)


def print_text(content: RenderableType, *, file: IO[str] | None = None, width: int | None = None) -> None:
    """Print `content`; in colour if `file` (standard output by default) is a terminal."""
    console = Console(file=file, highlight=False, width=width)
    if not console.is_terminal:
        console.file.write(text_of(content, width, ascii_only=not console.encoding.startswith("utf")) + "\n")
        return
    if width is None and console.width > MAX_WIDTH:
        console.width = MAX_WIDTH
    console.print(content)


def text_of(content: RenderableType, width: int | None = None, *, ascii_only: bool = False) -> str:
    """`content` without colour; the width is the terminal's, or 100 where there is none."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii" if ascii_only else "utf-8")
    columns = width or max(MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size((100, 24)).columns))
    Console(file=out, highlight=False, width=columns, color_system=None, force_terminal=False).print(content)
    out.seek(0)
    return "\n".join(line.rstrip() for line in out.read().splitlines())


def html_of(content: RenderableType, width: int = 110) -> str:
    """`content` as a piece of HTML."""
    console = Console(file=io.StringIO(), record=True, highlight=False, width=width, force_jupyter=False)
    console.print(content)
    return console.export_html(inline_styles=True, code_format=_HTML)
