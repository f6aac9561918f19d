"""Several kernels of one program, predicted one after the other as a stream runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from .prediction import Prediction
from .report import html_of, print_text, report, text_of
from .report.style import count

#: Version of the dictionary that :meth:`SequencePrediction.to_dict` returns; documented in docs/result.md.
SEQUENCE_SCHEMA = 1


@dataclass(frozen=True, repr=False, eq=False)
class SequencePrediction:
    """What gtsim expects of a program that launches several kernels. Each starts with a cold L2.

    Attributes:
        name: of the program.
        kernels: the predictions, in stream order.
        gap_us: idle time between two kernels, `launch.gap_us` of the hardware file.
    """

    name: str
    kernels: tuple[Prediction, ...]
    gap_us: float

    @property
    def time_us(self) -> float:
        """From the first launch to the last result, gaps included."""
        return sum(p.result.time_us for p in self.kernels) + self.gap_us * (len(self.kernels) - 1)

    @property
    def cycles(self) -> int:
        """The same in SM cycles."""
        return round(self.time_us * self.kernels[0].result.clock_mhz)

    @property
    def flops(self) -> int:
        """Floating-point operations of all kernels."""
        return sum(p.result.flops for p in self.kernels)

    @property
    def tflops(self) -> float:
        """`flops` over the time, 1e12 a second."""
        return self.flops / self.time_us / 1e6

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented schema: totals, and the dictionary of each kernel."""
        totals = {key: getattr(self, key) for key in ("cycles", "time_us", "gap_us", "flops", "tflops")}
        return {"schema": SEQUENCE_SCHEMA, "program": self.name, **totals, "kernels": [p.to_dict() for p in self.kernels]}

    def report(self, *, file: IO[str] | None = None, width: int | None = None) -> None:
        """Print totals, and the report of each kernel; arguments as for :meth:`Prediction.report`."""
        print_text(self._content(), file=file, width=width)

    def __repr__(self) -> str:
        return text_of(self._content())

    def _repr_html_(self) -> str:
        return html_of(self._content())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._content()

    def _content(self) -> RenderableType:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
        for title in ("kernel", "cycles", "us", "share", "bound by"):
            table.add_column(title, justify="left" if title in ("kernel", "bound by") else "right")
        for p in self.kernels:
            r = p.result
            table.add_row(r.kernel, count(r.cycles), f"{r.time_us:,.1f}", f"{r.time_us / self.time_us:.0%}", r.bound_by)
        gaps = self.gap_us * (len(self.kernels) - 1)
        table.add_row("between kernels", "", f"{gaps:,.1f}", f"{gaps / self.time_us:.0%}", "")
        first = self.kernels[0].result
        figures = f"{count(self.cycles)} cycles   {self.time_us:,.1f} us"
        head = Text.assemble((self.name, "bold"), f": {len(self.kernels)} kernels on ", (first.hardware, "bold"),
                             f" at {first.clock_mhz:g} MHz\n", (figures, "bold green"))
        return Group(head, table, *(Group(Text(""), report(p)) for p in self.kernels))
