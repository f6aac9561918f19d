"""Which accesses of shared memory need a barrier between them."""

import numpy as np
import pytest
from gtsim.frontend.tilelang.program import Storage
from gtsim.frontend.tilelang.sync import Access, Hazards
from gtsim.frontend.tilelang.warps import Active
from gtsim.graph import check


def warps(first, last, of=12):
    """The active threads of a warp range."""
    mask = np.zeros(32 * of, dtype=bool)
    mask[32 * first:32 * last] = True
    return Active(mask)


EVERYONE, PRODUCER, CONSUMERS, HALF = warps(0, 12), warps(0, 4), warps(4, 12), warps(4, 8)
TILE = Storage(0, "tile", "shared", "float32", (64, 64))
READ, WRITE = Access(TILE, (0, 0), (64, 64), False), Access(TILE, (0, 0), (64, 64), True)


def waits(hazards, access, active):
    return set(hazards.conflicts(access, active))


def test_a_write_waits_for_reads_of_other_warps_of_its_set():
    hazards = Hazards()
    hazards.add(READ, CONSUMERS, "k=1, ")
    assert waits(hazards, WRITE, EVERYONE) == {"k=1, "}
    assert waits(hazards, READ, EVERYONE) == set()
    assert waits(hazards, WRITE, PRODUCER) == set()  # another role: only what the program says orders them


def test_a_barrier_of_the_readers_orders_them_and_nobody_else():
    hazards = Hazards()
    hazards.add(READ, CONSUMERS, "k=1, ")
    hazards.clear(CONSUMERS)
    assert waits(hazards, WRITE, CONSUMERS) == waits(hazards, WRITE, HALF) == set()
    assert waits(hazards, WRITE, EVERYONE) == {"k=1, "}
    hazards.clear(EVERYONE)
    assert waits(hazards, WRITE, EVERYONE) == set()


def test_a_wider_barrier_covers_what_stands_behind_a_narrower_one():
    hazards = Hazards()
    hazards.add(READ, HALF, "k=1, ")
    hazards.clear(HALF)
    assert waits(hazards, WRITE, CONSUMERS) == {"k=1, "}
    hazards.clear(CONSUMERS)
    assert waits(hazards, WRITE, CONSUMERS) == set() and waits(hazards, WRITE, EVERYONE) == {"k=1, "}


def test_a_tile_that_another_one_shares_bytes_with_is_looked_at_too():
    other = Storage(1, "other", "shared", "float32", (8,))
    hazards = Hazards({other: [TILE]})
    hazards.add(READ, CONSUMERS, "")
    assert waits(hazards, Access(other, (0,), (8,), True), EVERYONE) == {""}


@pytest.mark.parametrize("threads", [128, 256])
def test_rows_that_the_warpgroups_share_out_in_turn_are_not_told_apart(graph, view, threads):
    v = view(graph("rare.turned", "sm_90a", threads=threads))
    # Behind the first write, behind the last; of several warpgroups also in between: their boxes overlap.
    assert len(v.of("cta_sync")) == (2 if threads == 128 else 3)
    assert check(v.graph) == []


def test_a_branch_that_reads_what_all_warps_wrote_has_the_barrier_in_front(graph, view):
    v = view(graph("rare.alternating", "sm_90a", rounds=3))
    barriers = v.of("cta_sync")
    assert {n.warps for n in barriers} == {tuple(range(8))}
    assert len(barriers) == 3 + 2  # before each round's reads; before each write but the first
    assert check(v.graph) == []
