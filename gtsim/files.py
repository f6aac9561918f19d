"""Writing files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import UsageError


def check_writable(path: Path) -> None:
    """Refuse, before any work is done, a path that cannot be written. Raises UsageError."""
    folder = path.parent
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Give the name of a file.")
    if not folder.is_dir():
        raise UsageError(f"{path}: the folder {folder} does not exist. Create it first.")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{path}: the folder {folder} cannot be written to.")


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`; the file appears whole or not at all. Raises UsageError if it cannot be written."""
    check_writable(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
