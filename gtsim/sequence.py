"""Several kernels of one program as a stream runs them: one after the other, or overlapped by programmatic dependent launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import IO, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from .backend import DeviceMemory, Earlier, EarlyStart, early_start, waits_for_earlier
from .backend.stream import Schedule
from .graph import KernelGraph
from .prediction import Prediction
from .report import html_of, print_text, report, text_of
from .report.style import count

#: Version of the dictionary that :meth:`SequencePrediction.to_dict` returns; documented in docs/result.md.
SEQUENCE_SCHEMA = 1


@dataclass(frozen=True)
class Placement:
    """One kernel in its stream. Times are microseconds from the launch of the first kernel.

    Attributes:
        kernel: its name.
        start_us: its launch. One that overlaps is launched at the last trigger of the kernel before.
        end_us: its last result.
        alone_us: what it takes by itself.
        overlaps: it was launched before the kernel before it had completed.
        prologue_us: mean time from the start of a CTA to its first `pdl_sync`; 0 if it has none.
        trigger_us: when every CTA has triggered or ended, so that a dependent kernel may be launched.
        saved_us: how much earlier it ends than if it had been launched a gap after the kernel before.
    """

    kernel: str
    start_us: float
    end_us: float
    alone_us: float
    overlaps: bool = False
    prologue_us: float = 0.0
    trigger_us: float = 0.0
    saved_us: float = 0.0


@dataclass(frozen=True, repr=False, eq=False)
class SequencePrediction:
    """What gtsim expects of a program that launches several kernels. Each starts with what the one before left in the L2, unless
    `l2.carried` is off.

    Attributes:
        name: of the program.
        kernels: the predictions, in stream order, each as if the ones before had ended.
        gap_us: idle time between two kernels that do not overlap, `launch.gap_us` of the hardware file.
        placements: when each of them runs.
    """

    name: str
    kernels: tuple[Prediction, ...]
    gap_us: float
    placements: tuple[Placement, ...]

    @property
    def time_us(self) -> float:
        """From the first launch to the last result, gaps and overlaps included."""
        return max(p.end_us for p in self.placements)

    @property
    def serial_us(self) -> float:
        """The same if no kernel overlapped another."""
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
        totals = {key: getattr(self, key) for key in ("cycles", "time_us", "serial_us", "gap_us", "flops", "tflops")}
        return {
            "schema": SEQUENCE_SCHEMA,
            "program": self.name,
            **totals,
            "placements": [asdict(p) for p in self.placements],
            "kernels": [p.to_dict() for p in self.kernels],
        }

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
        overlapped = any(p.overlaps for p in self.placements)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
        for title in ("kernel", "cycles", "us", *(("from", "to") if overlapped else ("share",)), "bound by"):
            table.add_column(title, justify="left" if title in ("kernel", "bound by") else "right")
        for p, at in zip(self.kernels, self.placements, strict=True):
            r = p.result
            when = (f"{at.start_us:,.2f}", f"{at.end_us:,.2f}") if overlapped else (f"{r.time_us / self.time_us:.0%}",)
            table.add_row(r.kernel, count(r.cycles), f"{r.time_us:,.1f}", *when, r.bound_by)
        gaps = self.gap_us * sum(not p.overlaps for p in self.placements[1:])
        table.add_row("between kernels", "", f"{gaps:,.1f}", *(("", "") if overlapped else (f"{gaps / self.time_us:.0%}",)), "")
        first = self.kernels[0].result
        figures = f"{count(self.cycles)} cycles   {self.time_us:,.1f} us"
        head = Text.assemble((self.name, "bold"), f": {len(self.kernels)} kernels on ", (first.hardware, "bold"),
                             f" at {first.clock_mhz:g} MHz\n", (figures, "bold green"))
        return Group(head, table, *self._overlaps(), *(Group(Text(""), report(p)) for p in self.kernels))

    def _overlaps(self) -> Iterable[RenderableType]:
        """A line a kernel that overlaps the one before, and the total without overlap."""
        saved = self.serial_us - self.time_us
        for before, p in zip(self.placements, self.placements[1:], strict=False):
            if p.overlaps:
                ahead = before.end_us - p.start_us
                yield Text(f"{p.kernel} is launched when {before.kernel} has triggered, {ahead:,.2f} us before its end; its CTAs "
                           f"reach their wait after {p.prologue_us:,.2f} us. It saves {p.saved_us:,.2f} us.")
        if any(p.overlaps for p in self.placements):
            yield Text(f"without overlap: {self.serial_us:,.1f} us; programmatic dependent launch saves {saved:,.2f} us "
                       f"({saved / self.serial_us:.0%})")


#: Simulates a graph, by itself or in the shadow of earlier kernels, with what those left in memory.
Simulate = Callable[[KernelGraph, EarlyStart | None, DeviceMemory], Prediction]


def run_in_order(name: str, graphs: Iterable[KernelGraph], simulate: Simulate) -> SequencePrediction:
    """Predict `graphs` as one stream runs them. A kernel that waits for earlier ones is simulated twice: by itself, and from the
    last trigger of the kernel before it on, in the places that its CTAs leave (gtsim/backend/stream.py has the rules). Both find
    in the L2 what the kernel before left at its end."""
    alone: list[Prediction] = []
    placements: list[Placement] = []
    earlier: list[Earlier] = []
    memory = DeviceMemory()
    for graph in graphs:
        own = simulate(graph, None, memory)
        clock, launch = own.result.clock_mhz, own.hw.launch
        made, launched, early = own, 0.0, False
        if earlier:
            end = max(k.end_cycles for k in earlier)
            launched = end + launch.gap_us * clock
            early = waits_for_earlier(graph)
            if early:
                launched = earlier[-1].launched_cycles + _schedule(earlier[-1].schedule).trigger_cycles
                made = simulate(graph, early_start(graph, own.hw, earlier, launched), memory)
        memory = made.result.memory or DeviceMemory()
        schedule = _schedule(made.result.schedule)
        ends = launched + made.result.cycles
        serial = end + launch.gap_us * clock + own.result.cycles if earlier else ends
        placements.append(
            Placement(
                graph.name,
                launched / clock,
                ends / clock,
                own.result.time_us,
                early,
                schedule.prologue_cycles / clock,
                (launched + schedule.trigger_cycles) / clock,
                (serial - ends) / clock,
            )
        )
        alone.append(own)
        earlier.append(Earlier(graph.launch, schedule, launched, ends))
    return SequencePrediction(name, tuple(alone), alone[0].hw.launch.gap_us, tuple(placements))


def _schedule(found: Schedule | None) -> Schedule:
    assert found is not None, "every simulation records its schedule"
    return found
