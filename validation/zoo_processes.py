"""Run steps of the survey in child processes: a step that crashes, hangs or changes the interpreter harms no other.

Children are forked, so they share what the parent has imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Task = Callable[[], None]


def fork(task: Task) -> int:
    """Run `task` in a child that leads its own process group, so that it can be ended together with its children."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        code = 1
        with contextlib.suppress(BaseException):
            task()
            code = 0
        os._exit(code)
    return pid


def end(pid: int) -> None:
    """End a child and the children it has."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def pool(tasks: Sequence[Task], seconds: float, jobs: int) -> Iterator[tuple[int, str]]:
    """Run tasks, `jobs` at a time and each for `seconds` at most.

    Yields:
        Its index and "" when a task has ended; else its index and why it did not end.
    """
    waiting = list(enumerate(tasks))[::-1]
    running: dict[int, tuple[int, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                index, task = waiting.pop()
                running[fork(task)] = index, time.monotonic() + seconds
            for pid, (index, stop) in list(running.items()):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    del running[pid]
                    yield index, "" if status == 0 else f"the process ended with status {status}"
                elif time.monotonic() > stop:
                    end(pid)
                    del running[pid]
                    yield index, f"more than {seconds:.0f} s"
            time.sleep(0.02)
    finally:
        for pid in running:
            end(pid)


def quiet(path: Path) -> None:
    """Send everything this process prints to a file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(fd, 1)
    os.dup2(fd, 2)


def leave(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(text)
    os.replace(part, path)


def guarded(work: Callable[..., dict[str, Any]], target: Path, *args: Any, state: str = "") -> Task:
    """A task that leaves the result of `work`, or its exception, in the file `target`, with the `state` it is for."""

    def run() -> None:
        quiet(target.with_suffix(".log"))
        try:
            result = work(*args)
        except BaseException as e:  # noqa: BLE001  everything is a result here
            lines = [ln for ln in str(e).strip().splitlines() if ln.strip()]
            text = str(e) if type(e).__module__.startswith("gtsim") else (lines[-1] if lines else "")
            result = {"error": f"{type(e).__name__}: {text[:500]}"}
            target.with_suffix(".trace").write_text(traceback.format_exc())
        leave(target, json.dumps({**result, "state": state}))

    return run
