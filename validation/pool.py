"""Cases on worker processes: a case that crashes, hangs or prints harms no other."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .cases import Case
from .evaluate import Settings
from .inputs import Inputs
from .outcome import Outcome
from .worker import READY, work

#: Seconds after which a case is given up.
CASE_SECONDS = 1200.0


@dataclass
class _Worker:
    """A process, the parent's end of its pipe, the case it is at (None before it is ready), and until when it may take."""

    process: Any
    link: Connection
    case: Case | None = None
    until: float = 0.0


class Pool:
    """Predicts the cases of one suite on several processes.

    Args:
        source, name: of the suite, as for :func:`gtsim.validation.worker.work`.
        jobs: processes.
        log: file that takes what they print.
        seconds: that a case may take.
    """

    def __init__(self, source: str, name: str, inputs: Inputs, settings: Settings, *, jobs: int, log: str,
                 seconds: float = CASE_SECONDS) -> None:
        self._arguments = (source, name, inputs, settings, log)
        self._name, self._jobs, self._seconds = name, jobs, seconds

    def run(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        """Outcomes as they come. Ends all processes when it ends, also on Ctrl-C."""
        waiting = list(cases)[::-1]
        workers: list[_Worker] = []
        try:
            workers = [self._start() for _ in range(min(self._jobs, len(cases)))]
            while workers:
                limit = min((w.until for w in workers), default=0.0) - time.monotonic()
                wait([w.link for w in workers], timeout=max(limit, 0.05))
                for worker in list(workers):
                    outcome, alive = self._listen(worker)
                    if outcome is not None:
                        yield outcome
                    if not alive:
                        workers.remove(worker)
                        if waiting:
                            workers.append(self._start())
                    elif worker.case is None and worker.until == 0.0:
                        if waiting:
                            worker.case = waiting.pop()
                            worker.until = time.monotonic() + self._seconds
                            worker.link.send(worker.case.id)
                        else:
                            workers.remove(worker)
                            self._end(worker)
        finally:
            for worker in workers:
                self._end(worker)

    def _listen(self, worker: _Worker) -> tuple[Outcome | None, bool]:
        """The outcome that a worker has sent, if any, and whether it goes on."""
        case = worker.case
        try:
            if worker.link.poll():
                said: str | Mapping[str, Any] = worker.link.recv()
                worker.case, worker.until = None, 0.0
                return (None if said == READY else Outcome.from_dict(said)), True  # type: ignore[arg-type]
        except (EOFError, OSError):
            worker.process.join()
            self._end(worker)
            status = worker.process.exitcode
            if case is None:
                raise UsageError(f"a worker process of {self._name} ended with status {status} before its first case. It "
                                 f"printed: {_end_of(self._arguments[-1])}") from None
            return Outcome.of(self._name, case).failed(f"the process ended with status {status}"), False
        if time.monotonic() > worker.until:
            self._end(worker)
            if case is None:
                raise UsageError(f"a worker process of {self._name} was not ready after {self._seconds:.0f} s.")
            return Outcome.of(self._name, case).failed(f"took more than {self._seconds:.0f} s"), False
        return None, True

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        # Ctrl-C reaches the whole process group; a child that inherits a mask does not hear it, and the parent ends it.
        # Starting the first child would start the tracker too, which lifts the mask again.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = context.Process(target=work, args=(theirs, *self._arguments), daemon=True)
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        return _Worker(process, ours, until=time.monotonic() + self._seconds)

    @staticmethod
    def _end(worker: _Worker) -> None:
        with suppress(OSError):
            worker.link.close()
        with suppress(ValueError, OSError):
            worker.process.kill()
            worker.process.join()


def _end_of(path: str) -> str:
    with suppress(OSError):
        return " ".join(Path(path).read_text(errors="replace").split())[-300:] or "nothing."
    return "nothing."


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
