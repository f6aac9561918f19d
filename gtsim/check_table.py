"""How `gtsim check` shows what it found: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import textwrap
from typing import IO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .checker import CheckReport

_STYLES = {"error": "bold red", "warning": "yellow"}
MAX_WIDTH = 120


def headline(report: CheckReport) -> str:
    """`gemm on h100_sxm: 1 error, 2 warnings`."""
    names = ", ".join(k.name for k in report.kernels)
    counts = [
        f"{n} {word}{'' if n == 1 else 's'}"
        for n, word in ((len(report.errors), "error"), (len(report.warnings), "warning"))
        if n
    ]
    return f"{names} on {report.hw.name}: {', '.join(counts) or 'nothing found'}"


def plain_text(report: CheckReport) -> str:
    """One paragraph a finding, then the headline."""
    lines = []
    for f in report.findings:
        first, *rest = f.text.split("\n")
        lines.append(f"{f.severity} {f.kind}: {f.where}: {first}")
        lines += [f"    {line}" for line in rest]
        if f.fix:
            lines.append(f"    fix: {f.fix}")
    return "\n".join([*lines, headline(report)])


def print_report(report: CheckReport, *, file: IO[str] | None = None, width: int | None = None) -> None:
    """Print it to `file`, standard output by default."""
    console = Console(file=file, highlight=False, width=width)
    if not console.is_terminal:
        text = plain_text(report)
        console.file.write(
            "\n".join(textwrap.fill(line, width, subsequent_indent="    ") if width else line for line in text.split("\n")) + "\n"
        )
        return
    if width is None and console.width > MAX_WIDTH:
        console.width = MAX_WIDTH
    if report.findings:
        console.print(_table(report))
    console.print(Text(headline(report), style="bold" if report.ok else "bold red"))


def _table(report: CheckReport) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="dim")
    table.add_column("finding", no_wrap=True)
    table.add_column("where", overflow="fold", ratio=1, max_width=32)
    table.add_column("what", overflow="fold", ratio=3)
    for f in report.findings:
        what = Text(f.text)
        if f.fix:
            what.append(f"\n{f.fix}", style="dim")
        table.add_row(Text(f.kind, style=_STYLES.get(f.severity, "")), Text(f.where), what)
    return table
