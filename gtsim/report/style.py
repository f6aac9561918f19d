"""How the report writes numbers, titles and bars."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

#: What people call the resources of the hardware files.
RESOURCE_NAMES = {
    "tensor": "tensor cores", "smem": "shared memory", "l2": "L2 bandwidth", "l2_write": "L2 write bandwidth",
    "dram": "DRAM bandwidth", "l2_to_sm": "L2 to SM port",
    "sm_to_l2": "SM to L2 port", "tma": "TMA unit", "issue": "instruction issue", "fma": "FP32 pipes", "fp64": "FP64 pipes",
    "alu": "ALU pipes",
    "sfu": "special functions", "cvt": "conversions", "shuffle": "warp shuffles", "lsu": "load/store unit",
    "sm_to_sm_out": "SM to SM, out", "sm_to_sm_in": "SM to SM, in",
}  # fmt: skip


def resource_name(name: str) -> str:
    """What people call a resource; its own name if it is not one of the usual."""
    return RESOURCE_NAMES.get(name, name)


def percent(share: float) -> str:
    """0.1234 -> 12 %; small shares keep a digit."""
    value = 100 * share
    return f"{value:.1f} %" if 0 < value < 9.95 else f"{value:.0f} %"


def count(value: float) -> str:
    """1234567 -> 1,234,567; fractions only where they matter."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.1f}"


def nbytes(value: float) -> str:
    """Bytes in decimal units: 67108864 -> 67.1 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def plural(number: float, noun: str) -> str:
    """1, "CTA" -> 1 CTA; 2, "CTA" -> 2 CTAs."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def titled(title: str, *parts: RenderableType) -> RenderableType:
    """A section: its title on a rule, its parts indented below."""
    grid = Table.grid(expand=True)
    grid.add_column()
    grid.add_row(Rule(f"[bold]{title}[/bold]", align="left", style="dim"))
    for part in parts:
        grid.add_row(Padding(part, (0, 0, 0, 2)))
    return grid

#: The first column never gets narrower than this, so that rows can be told apart.
FIRST = 10


def columns(*specs: tuple[str, str], header: bool = True) -> Table:
    """A borderless table; `specs` are (heading, "left", "right" or "bar"). Where room is short, bars and the first column
    give way: put :func:`shrinking` text there."""
    table = Table(box=None, show_header=header, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for i, (heading, justify) in enumerate(specs):
        table.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=i > 0 and justify != "bar",
                         min_width=None if i else FIRST)
    return table


def shrinking(text: str) -> Text:
    """Text on one line that ends in an ellipsis where room is short."""
    return Text(text, no_wrap=True, overflow="ellipsis")


class Bar:
    """A horizontal bar for a share of 1, a fixed number of columns wide."""

    def __init__(self, share: float, *, width: int = 24, style: str = "cyan") -> None:
        self.share, self.width, self.style = max(0.0, min(share, 1.0)), width, style

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(8, self.width), self.width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[RenderableType | Segment]:
        width = min(self.width, options.max_width)
        full, half, empty = ("#", "", ".") if options.ascii_only else ("█", "▌", "·")
        halves = round(2 * self.share * width)
        drawn = full * (halves // 2) + (half if halves % 2 else "")
        yield Segment(drawn, Style.parse(self.style))
        yield Segment(empty * (width - len(drawn)), Style.parse("dim"))


def heat(share: float) -> str:
    """Colour of a utilisation bar."""
    return "red" if share >= 0.85 else "yellow" if share >= 0.6 else "green"
