"""What the pages say about files, keys and figures cannot drift from the program."""

import re
from pathlib import Path

import pytest
from gtsim.backend import Demand, demand, unit, warp
from gtsim.backend import simulate as run_backend
from gtsim.graph import Attr, NodeType, TileGraphBuilder, register_node_type
from gtsim.hwconfigs import list_hardware, load_hardware

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
ROOMS = "backend|benchmarks|docs|examples|frontend|graph|gtsim|hwconfigs|models|tests|validation"
NAMED_FILE = re.compile(rf"`((?:{ROOMS})/[\w./*-]*)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]+))?\)")
MARKS = ("calibrated", "ptxas 13.0 stall count")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def calibration_table(heading: str) -> dict[str, str]:
    """Key -> value, as a section of docs/calibration.md has them."""
    text = page("calibration.md").split(f"## {heading}")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([\w.]+)` \| ([\d.]+) \|", text, re.MULTILINE))


each_page = pytest.mark.parametrize("path", DOCS, ids=lambda p: p.name)


@each_page
def test_every_file_that_a_page_names_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [name for name in NAMED_FILE.findall(text) if not (ROOT / name).exists()]


@each_page
def test_every_link_leads_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [name for name, _ in LINK.findall(text) if not (path.parent / name).exists()]


@each_page
def test_every_key_that_a_page_names_exists(path: Path) -> None:
    known = {key for name in list_hardware() for key in load_hardware(name).flat()}
    tables = "|".join(sorted({key.split(".")[0] for key in known if "." in key} - {"resources", "tensor"}))
    named = re.findall(rf"`((?:{tables})\.[a-z0-9_]+)`", path.read_text(encoding="utf-8"))
    assert not [key for key in named if key not in known]


@pytest.mark.parametrize(("heading", "mark"), [("Fitted on measured kernels", MARKS[0]), ("Read off compiled code", MARKS[1])])
def test_constants_of_our_own_are_listed_with_their_values(heading: str, mark: str) -> None:
    hardware = load_hardware("h200_sxm")
    marked = {key: value for key, value in hardware.flat().items() if hardware.source_comment(key).startswith(mark)}
    assert marked == {key: float(value) for key, value in calibration_table(heading).items()}


@pytest.mark.parametrize("name", list_hardware())
def test_only_listed_constants_are_calibrated(name: str) -> None:
    hardware = load_hardware(name)
    marked = {key for key in hardware.flat() if hardware.source_comment(key).startswith(MARKS)}
    assert marked <= {*calibration_table("Fitted on measured kernels"), *calibration_table("Read off compiled code")}


def test_keys_listed_as_not_read_are_exactly_those() -> None:
    listed = re.findall(r"`([\w.]+)`", page("assumptions.md").split("## Keys that no model reads yet")[1])
    files = [f for room in ("backend", "frontend", "gtsim", "models") for f in (ROOT / room).rglob("*.py")]
    code = "\n".join(f.read_text(encoding="utf-8") for f in files)
    tables = {key for key in load_hardware("h200_sxm").flat() if not key.startswith("resources.")}
    keys = {key for key in tables if key.count(".") == 1 and not key.endswith(".supported")}
    unread = {key for key in keys if not re.search(rf"\b{re.escape(key)}\b", code)
              and not re.search(rf"\bsm\.{key.removeprefix('sm.')}\b", code)}  # fmt: skip
    assert unread == set(listed)


def test_the_worked_example_is_what_the_engine_does() -> None:
    text = page("model.md").split("## A worked example")[1]
    latency, service = map(int, re.findall(r"With L = (\d+) and s = (\d+)", text)[0])
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) % \|", text, re.MULTILINE)
    assert len(rows) == 4
    for slots, use, trip, interval, busy in (tuple(map(int, row)) for row in rows):
        assert (use, trip) == (slots * service, latency + service)
        assert ring_interval(slots, latency, service) == pytest.approx(interval, abs=1)
        assert round(100 * service / interval) == busy


def ring_interval(slots: int, latency: int, service: int) -> float:
    """Cycles between tiles of a ring on a machine whose barriers cost nothing."""
    def cycles(trips: int) -> int:
        b = TileGraphBuilder("ring", grid=(1, 1, 1), threads=64)
        full, empty = b.barrier("full", [1] * slots), b.barrier("empty", [1] * slots)
        t = b.template()
        for i in range(trips):
            slot, lap = i % slots, i // slots
            t.node("barrier_wait", [0], wait=(empty[slot], lap % 2 ^ 1))
            t.node("ring_load", [0], attrs={"cycles": float(latency)}, tx=full[slot], arrive=[(full[slot], 1)])
            t.node("barrier_wait", [1], wait=(full[slot], lap % 2))
            t.node("ring_use", [1], attrs={"cycles": float(service)})
            t.node("barrier_arrive", [1], arrive=[(empty[slot], 1)])
        b.add_instances(t, blocks=[(0, 0, 0)])
        free = {"mbarrier.wait_cycles": 0, "mbarrier.arrive_cycles": 0, "mbarrier.arrive_visible_cycles": 0,
                "resources.issue.rate_per_cycle": 1000000}  # fmt: skip
        return run_backend(b.build(), "h100_sxm", overrides=free).cycles

    laps = 12
    return (cycles(2 * laps * slots) - cycles(laps * slots)) / (laps * slots)


_CYCLES = {"cycles": Attr(float, "how long it takes", True)}
register_node_type(NodeType("ring_load", "a load that takes a fixed latency", "test", _CYCLES), replace=True)
register_node_type(NodeType("ring_use", "work that holds its warp", "test", _CYCLES), replace=True)


@demand("ring_load", replace=True)
def _ring_load(node, hw) -> Demand:
    return Demand([unit({"issue": 0.0}, latency_cycles=node.attrs["cycles"])])


@demand("ring_use", replace=True)
def _ring_use(node, hw) -> Demand:
    return Demand([warp({}, hold_cycles=node.attrs["cycles"])])


def test_sizes_that_the_model_page_states_are_the_programs() -> None:
    from gtsim.backend import blocks
    from gtsim.backend import compile as lowering
    from gtsim.backend.summary import BOUND_SHARE

    text = " ".join(page("model.md").split())
    assert f"up to {blocks.STREAM_BLOCK_LINES} lines ({blocks.REGISTER_BLOCK_LINES} where warps load into registers)" in text
    assert f"about {lowering.QUANTUM_CYCLES['warp']} cycles ({lowering.QUANTUM_CYCLES['unit']} in units)" in text
    assert f"at least {BOUND_SHARE:.0%} of the run".replace("%", " %") in text


def test_the_record_of_validate_is_documented() -> None:
    from gtsim.validation.cases import Case, Measured, Plan, Work
    from gtsim.validation.outcome import Outcome
    from gtsim.validation.registry import Suite
    from gtsim.validation.run import SuiteRun

    suite = Suite("s", "t", lambda inputs: (), "")
    case = Case("a", "f", "h200_sxm", Measured(1.0, 1000.0), Work(1, 1), lambda: Plan(()))
    made = Outcome.of("s", case).predicted(cycles=1000, clock_mhz=1000.0, tuned=False, seconds=0.0, floor_us=1.0)
    (family,) = SuiteRun(suite, [made], 1).families
    text = page("validate.md")
    for key in (*made.to_dict(), *family.to_dict()):
        assert re.search(rf"`[^`]*\b{key}`", text), key
