"""Which measured rows a calibrated constant saw: they are no test of the model."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CALIBRATION = Path(__file__).resolve().parent / "calibration.toml"

#: The family of those rows.
FAMILY = "calibration"


@cache
def calibration_rows(path: Path = CALIBRATION) -> frozenset[tuple[str, str, str]]:
    """File of the measurements, operator and case of each row that `[[constant.rows]]` of calibration.toml lists."""
    if not path.is_file():
        return frozenset()
    constants = tomllib.loads(path.read_text(encoding="utf-8")).get("constant", [])
    return frozenset((rows["file"], rows["op"], case) for c in constants for rows in c.get("rows", []) for case in rows["cases"])
