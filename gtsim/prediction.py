"""A prediction: the backend's result together with the kernel graph and the GPU that it is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from .backend import Result
from .graph import KernelGraph
from .hwconfigs import Hardware

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType


@dataclass(frozen=True, repr=False, eq=False)
class Prediction:
    """What gtsim expects of one kernel on one GPU. Every field of :class:`Result` is an attribute of it too:
    `cycles`, `time_us`, `tflops`, `utilization["tensor"]`, `traffic.dram_read_bytes`, `waves`, `bound_by`, ...

    Shown in a REPL or a notebook, it is its report.

    Attributes:
        result: the numbers.
        graph: the kernel graph that was simulated.
        hw: the GPU, overrides applied.
    """

    result: Result
    graph: KernelGraph
    hw: Hardware

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("result", "graph", "hw") or name.startswith("__"):
                raise AttributeError(name)
            try:
                return getattr(self.result, name)
            except AttributeError:
                raise AttributeError(f"a Prediction has no attribute {name!r}") from None

    else:

        def __getattr__(self, name: str) -> Any: ...

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *dir(self.result)})

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented, versioned schema (docs/result.md)."""
        return self.result.to_dict()

    def report(self, *, file: IO[str] | None = None, width: int | None = None) -> None:
        """Print the report, in colour if it goes to a terminal.

        Args:
            file: where to; standard output if None.
            width: columns; the terminal's if None.
        """
        from .report import print_report

        print_report(self, file=file, width=width)

    def __repr__(self) -> str:
        from .report import report_text

        return report_text(self)

    def _repr_html_(self) -> str:
        from .report import report_html

        return report_html(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[RenderableType]:
        from .report import report

        yield report(self)
