"""Loading: bases, overrides, hashes, differences and sources."""

import pickle
import shutil
from pathlib import Path

import gtsim.hwconfigs
import pytest
from gtsim.hwconfigs import Resource, diff_hardware, load_hardware, load_override_file, parse_override

FOLDER = Path(gtsim.hwconfigs.__file__).resolve().parent
UNIT = {"scope": "tpc", "rate_per_cycle": 4, "unit": "byte"}


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_override_replaces_one_value_and_leaves_the_rest() -> None:
    changed = load_hardware("h200_sxm", {"l2.latency_near_cycles": 200})
    assert diff_hardware(load_hardware("h200_sxm"), changed) == [("l2.latency_near_cycles", 262.0, 200.0)]


def test_override_adds_a_resource_as_a_table_or_key_by_key() -> None:
    table = load_hardware("h200_sxm", {"resources.my_unit": UNIT})
    keys = load_hardware("h200_sxm", {f"resources.my_unit.{key}": value for key, value in UNIT.items()})
    assert table.resources["my_unit"] == Resource(scope="tpc", rate_per_cycle=4, unit="byte")
    assert table == keys


def test_override_reaches_into_a_one_line_table() -> None:
    tensor = load_hardware("h200_sxm", {"tensor.rate_vs_16bit.fp8": 1.5}).tensor
    assert (tensor.rate_vs_16bit["fp8"], tensor.rate_vs_16bit["bf16"]) == (1.5, 1.0)


def test_override_files_apply_in_order_and_below_overrides(tmp_path: Path) -> None:
    first = write(tmp_path / "first.toml", "[l2]\nlatency_near_cycles = 1\nlatency_far_cycles = 1\nline_bytes = 64\n")
    second = write(tmp_path / "second.toml", "[l2]\nlatency_near_cycles = 2\nlatency_far_cycles = 2\n")
    l2 = load_hardware("h200_sxm", {"l2.latency_near_cycles": 3}, override_files=[first, second]).l2
    assert (l2.latency_near_cycles, l2.latency_far_cycles, l2.line_bytes) == (3, 2, 64)


def test_override_file_may_be_given_as_loaded(tmp_path: Path) -> None:
    path = write(tmp_path / "o.toml", "[l2]\nline_bytes = 64\n")
    loaded = load_override_file(path)
    assert loaded == {"l2": {"line_bytes": 64}}
    assert load_hardware("h200_sxm", override_files=[loaded]) == load_hardware("h200_sxm", override_files=[path])


def test_loaded_hardware_can_be_overridden_again() -> None:
    once = load_hardware("h100_sxm", {"l2.line_bytes": 64})
    twice = load_hardware(once, {"chip.sm_count": 1})
    assert (twice.l2.line_bytes, twice.chip.sm_count) == (64, 1)
    assert once.chip.sm_count == 132


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=200", 200),
        ("a.b = 0.5", 0.5),
        ("a.b=true", True),
        ("a.b='x y'", "x y"),
        ("a.b=sm_90a", "sm_90a"),
        ("a.b={scope='sm'}", {"scope": "sm"}),
    ],
)
def test_command_line_values_are_toml_or_bare_words(text: str, value: object) -> None:
    path, parsed = parse_override(text)
    assert path == "a.b"
    assert parsed == value
    assert type(parsed) is type(value)


def test_file_with_a_base_holds_only_differences(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.toml", 'base = "h100_sxm"\ndescription = "mine"\n[l2]\nlatency_near_cycles = 100\n')
    differing = [path for path, _, _ in diff_hardware(load_hardware("h100_sxm"), load_hardware(path))]
    assert differing == ["name", "description", "l2.latency_near_cycles"]
    assert load_hardware(path).name == "mine"


def test_base_may_be_a_path_beside_the_file_and_may_have_a_base(tmp_path: Path) -> None:
    write(tmp_path / "below.toml", 'base = "a100_sxm"\n[l2]\nline_bytes = 64\nsector_bytes = 64\n')
    l2 = load_hardware(write(tmp_path / "above.toml", 'base = "below.toml"\n[l2]\nsector_bytes = 16\n')).l2
    assert (l2.line_bytes, l2.sector_bytes) == (64, 16)


def test_hash_ignores_comments_layout_and_labels(tmp_path: Path) -> None:
    lines = [line.split("  #")[0] for line in (FOLDER / "h200_sxm.toml").read_text().splitlines() if line[:1] != "#"]
    bare = load_hardware(write(tmp_path / "bare.toml", "\n".join(lines).replace("= 1830", "= 1830.0")))
    assert bare.hash == load_hardware("h200_sxm").hash
    assert bare.source_comment("chip.sm_count") == ""
    assert load_hardware("h200_sxm", {"name": "other", "description": "other"}).hash == bare.hash


def test_hash_changes_with_every_number() -> None:
    hardware = load_hardware("h200_sxm")
    numbers = {path: value for path, value in hardware.flat().items() if type(value) in (int, float)}
    free = [path for path in numbers if not path.startswith(("sm.", "l2.")) and not path.endswith(("efficiency", "channels"))]
    hashes = {load_hardware(hardware, {path: numbers[path] / 2 if type(numbers[path]) is float else 1}).hash
              for path in free if numbers[path] not in (0, 1)}  # fmt: skip
    assert len(hashes) == len([path for path in free if numbers[path] not in (0, 1)])
    assert hardware.hash not in hashes
    assert len(hardware.hash) == 16


def test_diff_shows_none_for_a_key_one_side_lacks() -> None:
    rows = diff_hardware(load_hardware("a100_sxm"), load_hardware("h100_sxm"))
    assert ("tma.launch_cycles", None, 40.0) in rows
    assert all(a != b for _, a, b in rows)


def test_source_comment_is_that_of_the_file_that_set_the_value() -> None:
    hardware = load_hardware("h800_sxm", {"l2.line_bytes": 64})
    assert hardware.source_comment("l1.latency_cycles") == "Luo24"
    assert hardware.source_comment("l2.capacity_bytes") == "NV-Hopper: 50 MB"
    assert hardware.source_comment("tensor.rate_vs_16bit.fp8").startswith("NV-Hopper: dense peaks; int4 assumed: ")
    assert hardware.source_comment("l2.line_bytes") == "set by override"


def test_source_comment_of_an_override_file_is_its_own(tmp_path: Path) -> None:
    path = write(tmp_path / "o.toml", '[l2]\nline_bytes = 64 # "why" # not\nsector_bytes = 16\n[chip]\narch = "a#b"\n')
    hardware = load_hardware("h200_sxm", {"chip.arch": "sm_90"}, override_files=[path])
    assert hardware.source_comment("l2.line_bytes") == '"why" # not'
    assert hardware.source_comment("l2.sector_bytes") == f"set in {path}"


def test_hardware_is_read_only_hashable_and_survives_pickling() -> None:
    hardware = load_hardware("a100_sxm")
    copy = pickle.loads(pickle.dumps(hardware))
    assert {hardware: 1}[copy] == 1
    assert copy.source_comment("l2.line_bytes") == hardware.source_comment("l2.line_bytes")
    with pytest.raises(ValueError, match="frozen"):
        hardware.l2.line_bytes = 64


def test_a_copied_file_loads_by_path(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "a100_sxm.toml", tmp_path / "copy.toml")
    assert load_hardware(tmp_path / "copy.toml") == load_hardware("a100_sxm")
