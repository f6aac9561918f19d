"""Ctrl-C that ends the command at once, also inside a compiler that does not listen to it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator

#: Seconds that Python gets to raise KeyboardInterrupt; then the process is ended.
PATIENCE_SECONDS = 0.2

_asked = threading.Event()


def asked() -> bool:
    """Whether Ctrl-C came while the body of :func:`ends_at_once` runs. A compiler that it interrupts may raise what it likes."""
    return _asked.is_set()


@contextlib.contextmanager
def ends_at_once(end: Callable[[int], None]) -> Iterator[None]:
    """While the body runs, `end` is called (from another thread) if a Ctrl-C has not ended the body after a short while: Python
    raises it only between two of its own steps, and a pass of the compiler is one step. Only in the main thread. `end` gets a
    file descriptor of standard error as it was at the start: the body may have redirected it."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "set_wakeup_fd"):
        yield
        return
    stderr = -1
    receive, send = socket.socketpair()
    with contextlib.suppress(OSError):
        stderr = os.dup(2)
    send.setblocking(False)
    done = threading.Event()
    _asked.clear()
    before = signal.set_wakeup_fd(send.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        while signal.SIGINT not in (got := receive.recv(64)):
            if not got:  # the body has ended
                return
        _asked.set()
        if not done.wait(PATIENCE_SECONDS):
            end(stderr)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before)
        send.close()
        watcher.join()
        _asked.clear()
        receive.close()
        if stderr >= 0:
            os.close(stderr)


@contextlib.contextmanager
def heeded_by_python() -> Iterator[None]:
    """While the body runs, a Ctrl-C is a KeyboardInterrupt and nothing more, inside :func:`ends_at_once` too: for a body that
    lets other processes do what takes long, and keeps what they have finished. So is a request to terminate."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "set_wakeup_fd"):
        yield
        return
    before = signal.set_wakeup_fd(-1)
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        signal.set_wakeup_fd(before)


def leave(status: int) -> None:
    """End the process without taking anything apart: a large graph would take seconds."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(status)
