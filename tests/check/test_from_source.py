"""The public cases written in TileLang, through the command as a user would run it."""

from __future__ import annotations

from pathlib import Path

import pytest

import gtsim
from gtsim.cli import run

pytest.importorskip("tilelang")
FILE = Path(__file__).with_name("hand_written.py")


def check(capsys: pytest.CaptureFixture[str], factory: str, *arguments: str) -> tuple[int, list[str]]:
    options = [part for a in arguments for part in ("--arg", a)]
    status = run(["check", f"{FILE}:{factory}", *options])
    return status, [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_a_right_ring_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "ring") == (0, ["ring_gemm on h100_sxm: nothing found"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["fault='one thread'"],
            [
                "consumer waits at wait(full) [k=0]: full[0] phase 0 has 1 of 128 arrivals (from producer)",
                "only 2 of the 127 arrivals that phase lacks are left to come: producer should arrive at arrive(full) [k=2]",
                "fix: full[0] counts 128 arrivals a phase, and each arrival on it brings 1: make the count match the "
                "threads that arrive.",
            ],
        ),
        (
            ["fault=last", "trips=3"],
            [
                "consumer waits at wait(full) [k=2]: full[0] phase 1 has 0 of 128 arrivals",
                "nothing that is left to run arrives on full[0], although copy(A -> a_s) [k=2] completes its bytes there",
                "fix: The last arrival on full[0] was at arrive(full) [k=0]: one is missing for wait(full) [k=2].",
            ],
        ),
        (
            ["fault=parity"],
            [
                "producer waits at wait(empty) [k=0]: empty[0] phase 0 has 0 of 128 arrivals",
                "consumer should arrive at arrive(empty) [k=0], but consumer waits at wait(full) [k=0]: full[0] phase 0 has 0 of "
                "128 arrivals",
                "producer should arrive at arrive(full) [k=0], but waits for that itself: a circle",
                "fix: No phase of empty[0] has completed yet. If wait(empty) [k=0] is meant to pass the first time, it needs the "
                "other parity.",
            ],
        ),
        (
            ["fault=slot"],
            [
                "producer waits at wait(empty) [k=3]: empty[1] phase 0 has 0 of 128 arrivals",
                "nothing that is left to run arrives on empty[1]; nothing ever does",
                "fix: Let someone arrive on empty[1], or wait for the slot that is meant.",
            ],
        ),
        (
            ["count=256"],
            [
                "producer waits at wait(empty) [k=2]: empty[0] phase 0 has 128 of 256 arrivals (from consumer)",
                "consumer should arrive at arrive(empty) [k=2], but consumer waits at wait(full) [k=2]: full[0] phase 1 has 0 of "
                "128 arrivals",
                "producer should arrive at arrive(full) [k=2], but waits for that itself: a circle",
                "fix: empty[0] counts 256 arrivals a phase, and each arrival on it brings 128: make the count match the "
                "threads that arrive.",
            ],
        ),
    ],
    ids=lambda v: " ".join(v) if isinstance(v[0], str) and "=" in v[0] and len(v[0]) < 30 else "",
)
def test_a_hang_is_told_in_the_kernels_own_words(
    capsys: pytest.CaptureFixture[str], arguments: list[str], expected: list[str]
) -> None:
    status, lines = check(capsys, "ring", *arguments)
    assert status == 3
    assert lines == ["error deadlock: every block: deadlock: " + expected[0], *expected[1:], "ring_gemm on h100_sxm: 1 error"]


def test_too_many_arrivals(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = check(capsys, "ring", "count=64")
    assert status == 3
    assert lines[0] == (
        "error arrivals: every block: barrier empty[0] takes 64 arrivals a phase but phase 0 received 128, the last from "
        "consumer at arrive(empty) [k=0]"
    )


def test_a_hang_and_an_overflow_are_told_together(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = check(capsys, "ring", "fault=last", "stages=9", "trips=20")
    assert status == 3 and [x.split(":")[0] for x in lines if x.startswith("error")] == ["error deadlock", "error overflow"]


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_a_persistent_loop_needs_its_phase_carried(stages: int) -> None:
    """tile-ai/tilelang#2674, for 1 to 9 trips."""
    from .hand_written import persistent

    for trips in range(1, 10):
        assert gtsim.check(persistent, (trips, stages), {"carry": True}).errors == ()
        found = gtsim.check(persistent, (trips, stages)).errors
        assert (found == ()) == (trips % (2 * stages) == 0), (trips, stages)
        assert all(f.kind in ("race", "deadlock") and "tile=1" in f.text + f.fix for f in found[:1])


def test_pairs_behind_one_idle_wait_are_one_finding(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = check(capsys, "persistent", "trips=3", "stages=2")
    assert status == 3 and lines[-1] == "persistent_gemm on h100_sxm: 2 errors"
    for words in ("consumer's", "[k=1 of tile=1]", "1 more such pair behind the same wait (b_s)"):
        assert words in lines[0]
    assert "barrier_wait wait(full) [k=1 of tile=1] in front of it passes at once" in lines[1]


def test_640_threads_and_four_barriers_pass() -> None:
    """tile-ai/tilelang#2346"""
    from .hand_written import wide

    for trips in (1, 2, 7):
        assert gtsim.check(wide, (trips,)).errors == ()


@pytest.mark.parametrize(("trips", "stages"), [(1, 1), (1, 3), (2, 2), (8, 3)])
def test_a_pipelined_loop_of_one_trip(trips: int, stages: int) -> None:
    """tile-ai/tilelang#2566: releases that drop the arrival do so behind the point that gtsim reads; what it reads is right. The
    graph of the dropped arrival is refuted in test_deadlock."""
    from .hand_written import one_trip

    assert gtsim.check(one_trip, (trips, stages)).errors == ()


def test_a_row_handed_over_without_a_signal() -> None:
    from .hand_written import handed_over

    assert gtsim.check(handed_over, (True,)).errors == ()
    (finding,) = gtsim.check(handed_over, (False,)).errors
    assert finding.kind == "race" and "reads 's' while" in finding.text and "may not have written it yet" in finding.text


def test_all_meet_before_roles_that_read_what_all_have_stored() -> None:
    """As the compiler lets them: a barrier in front of the branch, none behind it."""
    from .hand_written import stored_by_all

    graph = gtsim.lower(stored_by_all)
    nodes = list(graph.nodes_of(graph.templates[0]))
    store = next(n for n in nodes if n.type == "shared_store" and "scale_s" in n.source)
    meeting = next(n for n in nodes[store.index :] if n.type == "cta_sync")
    assert len(meeting.warps) == 8 and meeting.attrs.get("implicit")
    assert gtsim.check(stored_by_all).errors == ()
