"""What suites read: CSV files of measurements, and a checkout of TileOPs if one is given."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..errors import UsageError

T = TypeVar("T")

#: Our copies of the measurements.
MEASURED = Path(__file__).resolve().parent / "measured"

#: Configurations that are tried where the measured program chose the best of many.
CANDIDATES = 8

#: Cases of a sampled suite in each family.
SAMPLE = 4


class Row(Mapping[str, str]):
    """A row of a measured table, whose cells become numbers with an error that names the place."""

    def __init__(self, cells: Mapping[str, str], where: str) -> None:
        self._cells = cells
        self.where = where

    def __getitem__(self, column: str) -> str:
        return self._cells[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def number(self, column: str) -> float:
        """A cell as a number. Raises UsageError."""
        value = self.maybe(column)
        if value is None:
            raise UsageError(f"{self.where}: column {column} is empty.")
        return value

    def positive(self, column: str) -> float:
        """A cell as a number above zero. Raises UsageError."""
        value = self.number(column)
        if not value:
            raise UsageError(f"{self.where}: column {column} holds {self._cells[column]}, which cannot be.")
        return value

    def integer(self, column: str) -> int:
        """A cell as a whole number. Raises UsageError."""
        value = self.number(column)
        if not value.is_integer():
            raise UsageError(f"{self.where}: column {column} holds {self._cells[column]}, which is no whole number.")
        return int(value)

    def maybe(self, column: str) -> float | None:
        """A cell as a number; None if it is empty. Raises UsageError."""
        text = (self._cells.get(column) or "").strip()
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise UsageError(f"{self.where}: column {column} holds {text!r}, which is not a number.") from None
        if not 0 <= value < float("inf"):
            raise UsageError(f"{self.where}: column {column} holds {text}, which cannot be.")
        return value


@dataclass(frozen=True)
class Inputs:
    """What a suite is given.

    Attributes:
        measured: folder with the CSV files.
        tileops: a checkout of tile-ai/TileOPs, if there is one.
        candidates: how many configurations may be tried where the best of many counts.
        sample: how many cases of a family a sampled suite takes; 0 for all.
    """

    measured: Path = MEASURED
    tileops: Path | None = None
    candidates: int = CANDIDATES
    sample: int = SAMPLE

    def rows(self, name: str, columns: Sequence[str]) -> list[Row]:
        """The rows of a CSV file that has at least these columns. Raises UsageError, which names the file and what it lacks."""
        path = self.measured / name
        try:
            with path.open(newline="", encoding="utf-8-sig") as f:
                reader = csv.DictReader(f, strict=True)  # strict: a quote that is left open would swallow the rows behind it
                head = reader.fieldnames or []
                missing = [c for c in columns if c not in head]
                if missing:
                    raise UsageError(f"{path}: no column {missing[0]!r}. It needs {', '.join(columns)}.")
                return [_row(cells, f"{path}, line {reader.line_num}", columns) for cells in reader]
        except FileNotFoundError:
            raise UsageError(f"{path}: no such file. --measured takes a folder with the file names of {MEASURED}; "
                             "--suite chooses which of them are read.") from None
        except csv.Error as error:
            raise UsageError(f"{path}, line {reader.line_num}: no CSV from here on, a quote may be left open: {error}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: cannot be read: {error}") from None


def _row(cells: Mapping[str, str | None], where: str, columns: Sequence[str]) -> Row:
    """A row of the file. Raises UsageError if it was cut off before a column that is needed."""
    if lost := [c for c in columns if cells[c] is None]:
        raise UsageError(f"{where}: the row ends before column {lost[0]}.")
    return Row({c: cell or "" for c, cell in cells.items() if c is not None}, where)


def spread(things: Sequence[T], limit: int) -> list[T]:
    """At most `limit` things, the first one and others evenly spread behind it; all if `limit` is 0."""
    if not limit or len(things) <= limit:
        return list(things)
    return [things[i * (len(things) - 1) // max(limit - 1, 1)] for i in range(limit)]
