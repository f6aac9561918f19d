"""Rules every hardware file that comes with gtsim keeps."""

import re
from collections.abc import Iterator
from pathlib import Path

import gtsim.hwconfigs
import pytest
from gtsim.hwconfigs import list_hardware, load_hardware

FOLDER = Path(gtsim.hwconfigs.__file__).resolve().parent
DOCS = Path(__file__).resolve().parents[2] / "docs" / "hardware.md"
NUMBER_LINE = re.compile(r"^(\w+) = (?:[\d.]|\{|\[)[^#]*(?:#\s*(.*))?$")

each_gpu = pytest.mark.parametrize("name", list_hardware())


def number_lines(name: str) -> Iterator[tuple[str, str]]:
    """(key, comment) of every line of a file that holds numbers."""
    for line in (FOLDER / f"{name}.toml").read_text().splitlines():
        if found := NUMBER_LINE.match(line):
            yield found.group(1), found.group(2) or ""


def documented_sources() -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", DOCS.read_text().split("## Source keys")[1], re.MULTILINE))


def test_the_four_gpus_are_there() -> None:
    assert {"a100_sxm", "h100_sxm", "h800_sxm", "h200_sxm"} <= set(list_hardware())


@each_gpu
def test_file_loads_under_its_own_name(name: str) -> None:
    assert load_hardware(name).name == name


@each_gpu
def test_every_number_names_a_documented_source_on_its_line(name: str) -> None:
    sources = documented_sources()
    unsourced = [key for key, comment in number_lines(name) if not any(source in comment for source in sources)]
    assert not unsourced


@each_gpu
def test_every_number_states_its_unit(name: str) -> None:
    units = ("cycles", "bytes", "mhz", "gbs", "gb", "us", "ns", "fraction", "per_cycle", "efficiency")
    counts = ("count", "ctas", "threads", "subpartitions", "registers", "max", "per_warp", "per_cta", "columns",
              "gpc_sms", "lines", "sectors", "speedup", "entries", "rate_vs_16bit", "slices", "partitions", "per_slice",
              "coalescer_sms", "channels", "banks")  # fmt: skip
    assert not [key for key, _ in number_lines(name) if not key.endswith(units + counts)]


@each_gpu
def test_every_key_has_a_comment_to_show(name: str) -> None:
    hardware = load_hardware(name)
    numbers = {path for path, value in hardware.flat().items() if isinstance(value, (int, float)) and value is not True}
    assert not [path for path in numbers if not path.endswith("supported") and not hardware.source_comment(path)]


@each_gpu
def test_tensor_peak_is_the_vendors(name: str) -> None:
    """Dense 16-bit TFLOPS at the clock the vendor's peak implies: 312 (A100 at 1410 MHz), 989 (Hopper at 1830)."""
    hardware = load_hardware(name)
    flop_per_cycle = hardware.chip.sm_count * hardware.sm.subpartitions * hardware.resources["tensor"].rate_per_cycle
    tflops, clock_mhz = (312, 1410) if hardware.chip.arch == "sm_80" else (989, 1830)
    assert flop_per_cycle * clock_mhz / 1e6 == pytest.approx(tflops, rel=0.005)


@each_gpu
def test_l2_ports_can_carry_what_l2_serves(name: str) -> None:
    hardware = load_hardware(name)
    ports = hardware.chip.sm_count * hardware.resources["l2_to_sm"].rate_per_cycle
    assert ports >= hardware.resources["l2"].rate_per_cycle


@each_gpu
def test_far_partition_is_farther(name: str) -> None:
    hardware = load_hardware(name)
    assert hardware.l2.latency_far_cycles > hardware.l2.latency_near_cycles > hardware.l1.latency_cycles


@each_gpu
def test_the_gpcs_hold_all_sms(name: str) -> None:
    chip = load_hardware(name).chip
    assert sum(chip.gpc_sms) == chip.sm_count


@each_gpu
def test_another_sm_is_farther_than_the_own_and_nearer_than_the_l2(name: str) -> None:
    hardware = load_hardware(name)
    if hardware.cluster.supported:
        assert hardware.smem.latency_cycles < hardware.cluster.load_cycles < hardware.l2.latency_near_cycles
        assert hardware.cluster.barrier_relaxed_cycles < hardware.cluster.barrier_cycles


def test_ampere_has_no_tma_wgmma_or_clusters() -> None:
    ampere = load_hardware("a100_sxm")
    assert (ampere.tma.supported, ampere.wgmma.supported, ampere.cluster.supported) == (False, False, False)
    assert ampere.chip.max_cluster_ctas == 1
    assert "tma" not in ampere.resources
