"""A progress bar on standard error for runs that take a while."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

#: Runs shorter than this show no bar.
PATIENCE_SECONDS = 1.0


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Callable[[float], None] | None]:
    """A callback that draws the share done (0 to 1) once the run takes longer than a second; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    started = time.perf_counter()
    bar = Progress(TextColumn(title), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
                   console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=1.0)
    running = False

    def update(done: float) -> None:
        nonlocal running
        if not running:
            if time.perf_counter() - started < PATIENCE_SECONDS:
                return
            bar.start()
            running = True
        bar.update(task, completed=done)

    try:
        yield update
    finally:
        if running:
            bar.stop()
