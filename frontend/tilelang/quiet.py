"""What TileLang prints while it works: its C++ logs go past Python, straight to standard error; its own logger dumps programs."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator

from ..errors import FrontendError

_STDERR = 2
MAX_BYTES = 1 << 20  #: of what was printed that is kept, from the end


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Hold back standard error and TileLang's log. A :class:`FrontendError` takes along what was printed, in its attribute
    `printed`: it says the same in one line. In every other case it is printed afterwards, to standard error."""
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    try:
        saved = os.dup(_STDERR)
    except OSError:  # standard error is closed
        yield
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), _STDERR)
        kept = False
        try:
            with _log_to(_STDERR):
                yield
        except FrontendError as error:
            kept = True
            error.printed = error.printed or _restore(saved, file.fileno()).decode(errors="replace")
            raise
        finally:
            if not kept:
                text = _restore(saved, file.fileno())
                with contextlib.suppress(OSError):
                    os.write(_STDERR, text)


@contextlib.contextmanager
def _log_to(descriptor: int) -> Iterator[None]:
    """TileLang's log goes to a file descriptor, in its own format."""
    log = logging.getLogger("tilelang")
    before = log.handlers
    handler = _Descriptor(descriptor)
    if before:
        handler.setFormatter(before[0].formatter)
    log.handlers = [handler]
    try:
        yield
    finally:
        log.handlers = before


class _Descriptor(logging.Handler):
    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.descriptor = descriptor

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            os.write(self.descriptor, (self.format(record) + "\n").encode())


def _restore(saved: int, held: int) -> bytes:
    """Put standard error back and return what was printed meanwhile."""
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    os.dup2(saved, _STDERR)
    os.close(saved)
    size = os.fstat(held).st_size
    return os.pread(held, MAX_BYTES, max(size - MAX_BYTES, 0))
