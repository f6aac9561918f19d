"""A process that predicts cases, one after the other, as its parent asks for them. What compilers print goes to a log."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection

from .cases import Case
from .evaluate import Settings, evaluate
from .inputs import Inputs
from .outcome import Outcome
from .registry import find

#: What a worker answers when it is ready for its first case.
READY = "ready"


def work(link: Connection, source: str, name: str, inputs: Inputs, settings: Settings, log: str) -> None:
    """Answer each case id with its outcome, until the parent hangs up.

    Args:
        link: to the parent.
        source: name of a suite, or the file that registers it.
        name: of the suite.
        log: file that takes standard output and error of this process.
    """
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        suite = next(s for s in find(source) if s.name == name)
        cases = {case.id: case for case in suite.cases(inputs)}
        link.send(READY)
        while True:
            case = cases[link.recv()]
            print(f"== {name}: {case.id}", flush=True)
            link.send(_outcome(name, case, settings).to_dict())
            sys.stdout.flush()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        with suppress(OSError):
            link.close()
        os._exit(0)  # what TileLang leaves behind takes its time to be taken apart


def _end_with(parent: int) -> None:
    """A parent that was killed hangs up only once this process listens again, which may take minutes."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _outcome(name: str, case: Case, settings: Settings) -> Outcome:
    """What became of a case, whatever happens."""
    try:
        return evaluate(name, case, settings)
    except Exception as error:  # noqa: BLE001  one case must not end the run
        traceback.print_exc()
        return Outcome.of(name, case).failed(f"failed unexpectedly: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
