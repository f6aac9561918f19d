"""What the user is told when a file or an override is wrong: where, which key, and what to write instead."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gtsim.hwconfigs
import pytest
from gtsim.hwconfigs import HardwareError, load_hardware, load_override_file, parse_override

FOLDER = Path(gtsim.hwconfigs.__file__).resolve().parent


def message(
    name: str | Path, overrides: dict[str, Any] | None = None, override_files: Sequence[str | Path] = ()
) -> str:
    with pytest.raises(HardwareError) as caught:
        load_hardware(name, overrides, override_files)
    return str(caught.value)


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_unknown_hardware_lists_the_nearest_and_the_available() -> None:
    text = message("h200")
    assert "'h200'" in text
    assert "did you mean 'h200_sxm'" in text
    assert "a100_sxm, h100_sxm, h200_sxm, h800_sxm" in text


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("l2.latency_near", "l2.latency_near_cycles"),
        ("latency_near_cycles", "l2.latency_near_cycles"),
        ("L2", "l2"),
        ("resources.fma.rate", "resources.fma.rate_per_cycle"),
        ("tma.inflight_line", "tma.inflight_lines"),
    ],
)
def test_unknown_key_names_its_path_and_the_nearest_key(path: str, nearest: str) -> None:
    assert message("h200_sxm", {path: 1}) == f"override: {path}: unknown key; the nearest valid key is '{nearest}'"


def test_unknown_key_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.toml", 'base = "h200_sxm"\n[dram]\npeak_gb = 1\n')
    assert message(path) == f"{path}: dram.peak_gb: unknown key; the nearest valid key is 'dram.peak_gbs'"
    path = write(tmp_path / "over.toml", "[dram]\npeak_gb = 1\n")
    assert message("h200_sxm", override_files=[path]).startswith(f"{path}: dram.peak_gb: unknown key")


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("l2.latency_near_cycles", "abc", "must be a valid number, got 'abc'"),
        ("l2.latency_near_cycles", True, "must be a valid number, got True"),
        ("l2.latency_near_cycles", -1, "must be greater than or equal to 0, got -1"),
        ("l2.latency_near_cycles", float("inf"), "must be a finite number, got inf"),
        ("sm.max_ctas", 3.0, "must be a valid integer, got 3.0"),
        ("sm.max_ctas", 0, "must be greater than 0, got 0"),
        ("chip.clock_mhz", 99, "must be greater than or equal to 100, got 99"),
        ("chip.clock_mhz", 10001, "must be less than or equal to 10000, got 10001"),
        ("dram.efficiency", 1.01, "must be less than or equal to 1, got 1.01"),
        ("resources.fma.rate_per_cycle", 0, "must be greater than or equal to 0.001, got 0"),
        ("resources.fma.scope", "die", "must be 'subpartition', 'sm', 'tpc', 'gpc' or 'chip', got 'die'"),
        ("tma.supported", 1, "must be a valid boolean, got 1"),
        ("l2", 3, "must be a table, got 3"),
        ("resources", 3, "must be a table, got 3"),
    ],
)
def test_wrong_value_is_named(path: str, value: object, problem: str) -> None:
    assert message("h200_sxm", {path: value}) == f"override: {path}: {problem}"


def test_smallest_and_largest_clock_pass() -> None:
    for clock_mhz in (100, 10000):
        assert load_hardware("h200_sxm", {"chip.clock_mhz": clock_mhz}).chip.clock_mhz == clock_mhz


def test_every_problem_has_its_line() -> None:
    text = message("h200_sxm", {"l2.line_bytes": "x", "dram.peak_gbs": 0})
    assert [line.split(": ")[1] for line in text.splitlines()] == ["l2.line_bytes", "dram.peak_gbs"]


def test_misspelt_resource_is_recognised() -> None:
    text = message("h200_sxm", {"resources.tensr.rate_per_cycle": 4})
    assert text.splitlines()[0] == (
        "override: resources.tensr.scope: missing in a new resource; did you mean 'resources.tensor'?"
    )


def test_missing_key_blames_the_file_that_opens_the_table(tmp_path: Path) -> None:
    text = (FOLDER / "a100_sxm.toml").read_text().replace("line_bytes = 128", "# gone")
    path = write(tmp_path / "mine.toml", text)
    assert message(path, {"l2.sector_bytes": 64}) == f"{path}: l2.line_bytes: missing"


def test_supported_unit_must_be_complete() -> None:
    text = message("a100_sxm", {"tma.supported": True, "tma.launch_cycles": 100})
    assert text.startswith("override: tma: supported = true, but these keys are missing: descriptor_setup_cycles, ")


def test_required_resource_is_missed(tmp_path: Path) -> None:
    text = (FOLDER / "h200_sxm.toml").read_text()
    without_fma = write(tmp_path / "fma.toml", text.replace("[resources.fma]", "[resources.other]"))
    assert message(without_fma) == f"{without_fma}: resources: missing fma"
    without_tma = write(tmp_path / "tma.toml", text.replace("[resources.tma]", "[resources.other]"))
    assert message(without_tma) == f"{without_tma}: resources: missing tma"


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("sm.smem_bytes", 1024, "sm: smem_per_cta_max_bytes = 232448 exceeds smem_bytes = 1024"),
        ("sm.max_threads", 2047, "sm: max_threads = 2047 is not a whole number of warps"),
        ("l2.line_bytes", 100, "l2: line_bytes = 100 is not a multiple of sector_bytes = 32"),
    ],
)
def test_values_must_fit_together(path: str, value: int, problem: str) -> None:
    assert message("h200_sxm", {path: value}) == f"override: {problem}"


def test_toml_syntax_error_names_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.toml", "[l2]\nline_bytes = \n")
    assert message(path).startswith(f"{path}:2: not valid TOML: ")
    unclosed = write(tmp_path / "unclosed.toml", "[l2]\n\nline_bytes = [1,")
    assert message(unclosed).startswith(f"{unclosed}:3: not valid TOML: ")


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "absent.toml")
    assert message(path) == f"{path}: cannot be read: No such file or directory"
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    assert message(tmp_path / "latin.toml").endswith("latin.toml: cannot be read: not UTF-8 text")


def test_wrong_base_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.toml", 'base = "h10_sxm"\n')
    assert message(path).startswith(f"{path}: base: unknown hardware 'h10_sxm'; did you mean 'h100_sxm'?")
    path = write(tmp_path / "mine.toml", "base = 3\n")
    assert message(path) == f"{path}: base: must be a name or a path, got 3"
    path = write(tmp_path / "mine.toml", 'base = "mine.toml"\n')
    assert message(path) == f"{path}: base: {path}: is its own base"


def test_override_file_may_not_have_a_base(tmp_path: Path) -> None:
    path = write(tmp_path / "over.toml", 'base = "h100_sxm"\n')
    with pytest.raises(HardwareError, match="an override file has no base"):
        load_override_file(path)


@pytest.mark.parametrize("text", ["l2.line_bytes", "l2.line_bytes=", "l2.line_bytes=[1", "a=1\nb=2", "a=90a"])
def test_malformed_set_is_refused(text: str) -> None:
    with pytest.raises(HardwareError, match="--set"):
        parse_override(text)


@pytest.mark.parametrize("path", ["", "l2..line_bytes", "l2."])
def test_path_must_be_dotted_names(path: str) -> None:
    assert message("h200_sxm", {path: 1}) == f"override: '{path}': not a dotted path such as l2.line_bytes"


def test_source_of_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(HardwareError, match=r"h200_sxm: l2\.capacity: unknown key; .*'l2\.capacity_bytes'"):
        load_hardware("h200_sxm").source_comment("l2.capacity")
