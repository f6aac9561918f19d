"""Output files: refused early where they cannot be written, and written whole."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import UsageError
from .graph.files import write_whole


def check_writable(path: Path) -> None:
    """Refuse, before any work is done, a path that cannot be written. Raises UsageError."""
    target = Path(os.path.realpath(path))
    folder = target.parent
    if target.is_dir():
        raise UsageError(f"{path} is a folder. Give the name of a file.")
    if not folder.is_dir():
        raise UsageError(f"{path}: the folder {folder} does not exist. Create it first.")
    if not os.access(target if target.exists() and not target.is_file() else folder, os.W_OK):
        raise UsageError(f"{path}: cannot be written to.")


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` as :func:`write_whole` does. Raises UsageError if it cannot be written."""
    check_writable(path)
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
