"""validation/calibration.toml says the same as the hardware files, and can take in measurements."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gtsim.errors import UsageError
from gtsim.measure import calibration as module
from gtsim.measure.calibration import Measured, add_measured, differences, load_calibration

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "validation" / "calibration.toml"
TEXT = FILE.read_text(encoding="utf-8")


def changed(tmp_path: Path, old: str, new: str) -> Path:
    """A copy of the file with the first `old` replaced."""
    assert old in TEXT
    path = tmp_path / "calibration.toml"
    path.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    return path


def candidate(value: float = 41.5, constant: str = "setmaxnreg_inc") -> Measured:
    return Measured(key="control.setmaxnreg_cycles", constant=constant, value=value, unit="cycles", spread=2.0, samples=132,
                    gpu='NVIDIA "H200"', clock_mhz=1500.0, source="h200_kit")


def test_every_constant_of_ours_stands_in_the_file_with_the_value_in_use() -> None:
    assert differences(load_calibration(FILE)) == []


@pytest.mark.parametrize(("old", "new", "said"), [
    ("value = 0.54", "value = 0.6", "launch.kernel_us = 0.54, the calibration file has 0.6"),
    ('key = "dram.efficiency"', 'key = "dram.latency_cycles"', "dram.efficiency = 0.92 is marked"),
    ('key = "dram.efficiency"', 'key = "dram.latency_cycles"', "dram.latency_cycles stands in the calibration file and is not"),
    ('carried_to = ["h100_sxm", "h800_sxm"]\nvalue = 0.0', "value = 0.0", "h100_sxm: dram.turnaround_fraction"),
    ('hardware = ["h200_sxm"]\ncarried_to = ["a100_sxm",', 'hardware = ["a100_sxm"]\ncarried_to = ["h200_sxm",', "otherwise"),
])  # fmt: skip
def test_a_difference_is_found(tmp_path, old, new, said) -> None:
    assert any(said in text for text in differences(load_calibration(changed(tmp_path, old, new))))


@pytest.mark.parametrize(("old", "new", "said"), [
    ("value = 0.54", 'value = "much"', "constant.0.value"),
    ("spread = 0.224", "", "constant.0.spread"),
    ("spread = 0.224", "spraed = 0.2\nspread = 0.224", "spraed"),
    ('source = "measured kernels"', 'source = "compiled code"', "rows are what a constant"),
    ("\n[[constant]]", "\n[constant", "calibration.toml"),
])  # fmt: skip
def test_a_wrong_file_is_one_clear_error(tmp_path, old, new, said) -> None:
    with pytest.raises(UsageError) as raised:
        load_calibration(changed(tmp_path, old, new))
    assert said in str(raised.value) and "\n" not in str(raised.value).strip()


def test_rows_that_constants_saw_exist_in_our_copies() -> None:
    for constant in load_calibration(FILE).constant:
        for rows in constant.rows:
            copy = ROOT / "validation" / "measured" / rows.file
            if copy.is_file():
                with copy.open(newline="") as file:
                    there = {r["case"] for r in csv.DictReader(file) if r["op"] == rows.op}
                assert set(rows.cases) <= there, constant.key


def test_measured_constants_are_added_and_replaced(tmp_path) -> None:
    path = tmp_path / "calibration.toml"
    path.write_text(TEXT, encoding="utf-8")
    add_measured(path, [candidate(41.5), candidate(7.0, "other")])
    add_measured(path, [candidate(39.0)])
    made = load_calibration(path)
    assert [(m.constant, m.value) for m in made.measured] == [("other", 7.0), ("setmaxnreg_inc", 39.0)]
    assert made.constant == load_calibration(FILE).constant
    assert path.read_text(encoding="utf-8").startswith(TEXT.rstrip())


def test_a_candidate_is_not_in_use(tmp_path) -> None:
    path = tmp_path / "calibration.toml"
    path.write_text(TEXT, encoding="utf-8")
    add_measured(path, [candidate()])
    assert differences(load_calibration(path)) == []


def test_a_write_that_fails_leaves_the_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "calibration.toml"
    path.write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(module, "write_text", lambda *_: (_ for _ in ()).throw(UsageError("no space")))
    with pytest.raises(UsageError):
        add_measured(path, [candidate()])
    assert path.read_text(encoding="utf-8") == TEXT
