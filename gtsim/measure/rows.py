"""A measurement as one row of a CSV file in the validation format, appended so that the file cannot be damaged."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Mapping
from pathlib import Path

from ..errors import UsageError
from ..files import check_writable
from ..graph.files import write_whole

#: Columns of the measured rows in validation/measured.
FORMAT = ("gpu", "kernel", "op", "case", "dtype", "acc_dtype", "m", "n", "k", "trans_a", "trans_b", "scale_mode", "tile_m",
          "tile_n", "tile_k", "stages", "clock_mhz", "latency_us", "cycles", "p10_us", "p90_us", "n_kernels", "n_samples",
          "tflops", "gbps", "flops", "bytes", "source")
#: What we know besides.
EXTRA = ("shape", "clock_before_mhz", "clock_after_mhz", "timer", "flush_bytes")
COLUMNS = (*FORMAT[:-1], *EXTRA, "source")
#: Without these a file is none of measured rows.
NEEDED = ("gpu", "kernel", "op", "case", "clock_mhz", "latency_us", "cycles", "source")


def check_rows_file(path: Path) -> None:
    """Refuse, before anything is measured, a file that no row can be appended to. Raises UsageError."""
    check_writable(path)
    if path.is_file():
        _header(path, _read(path))


def append_row(path: Path, row: Mapping[str, object]) -> list[str]:
    """Append a row; the file appears whole with it or stays as it is, also if several processes append at once.

    A new file gets all COLUMNS; a file that is there keeps its own. Returns the columns of `row` that it has no place for.
    Raises UsageError: the file holds something else, or cannot be written.
    """
    check_writable(path)
    try:
        with _locked(path) as file:
            before = file.read()
            header = _header(path, before) if before.strip() else list(COLUMNS)
            ending = "\r\n" if b"\r\n" in before else "\n"
            text = io.StringIO()
            writer = csv.DictWriter(text, header, restval="", extrasaction="ignore", lineterminator=ending)
            if not before.strip():
                before = b""
                writer.writeheader()
            elif not before.endswith(b"\n"):
                before += ending.encode()
            writer.writerow({k: "" if v is None else v for k, v in row.items()})
            write_whole(path, before + text.getvalue().encode())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
    return [name for name, value in row.items() if name not in header and value not in (None, "")]


def _locked(path: Path) -> io.BufferedRandom:
    """The file, opened and locked, made if it is not there. Who replaces it makes another file: wait for the one of this name."""
    while True:
        file = open(os.path.realpath(path), "a+b")  # noqa: SIM115  the caller closes it
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            same = os.stat(os.path.realpath(path)).st_ino == os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            same = False
        if same:
            file.seek(0)
            return file
        file.close()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None


def _header(path: Path, data: bytes) -> list[str]:
    """The columns of the file. Raises UsageError if it is no CSV of measured rows."""
    if not data.strip():
        return list(COLUMNS)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text file. Give a CSV of measured rows, or a new file.") from None
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        header = next(reader, [])
        for _ in reader:  # a quote that is left open would swallow the row that is appended
            pass
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.line_num}: no CSV from here on, a quote may be left open: {error}. Repair it, or "
                         "give another file.") from None
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise UsageError(f"{path} is no CSV of measured rows: its first line has no column {missing[0]}. Give another file.")
    return header
