"""The TMA unit: launch, descriptors, requests. Loads of one 128-byte line each, one after the other."""

from __future__ import annotations

import pytest

from .kernels import Kernel

MISS = 65


def loads(names: str, *, ctas: int = 1, type: str = "tma_load", attrs: dict[str, object] | None = None, columns: int = 64,
          **overrides: object) -> int:
    """Cycles of copies, each behind the one before; a letter is a tensor. 132 CTAs fill the chip once."""
    kernel = Kernel(ctas=ctas, registers_per_thread=255, smem_bytes=200000)
    tensors = {name: kernel.b.tensor(name, (1, columns), "float16") for name in sorted(set(names))}
    shared = kernel.b.buffer("s", (1, columns), "float16", scope="shared")
    for name in names:
        tiles = [[tensors[name].tile((0, 0), (1, columns))], [shared.tile()]]
        if type == "tma_store":
            tiles.reverse()
        kernel.t.node(type, [0], reads=tiles[0], writes=tiles[1], blocking=True, attrs=attrs or {})
    return kernel.run(overrides=overrides).cycles


def misses(names: str, **options: object) -> float:
    """How many descriptor fetches the copies wait for."""
    cold = {"tma.descriptor_miss_cycles": MISS, **options}
    warm = {"tma.descriptor_miss_cycles": 0, **options}
    return (loads(names, **cold) - loads(names, **warm)) / MISS  # type: ignore[arg-type]


@pytest.mark.parametrize(("names", "expected"), [("A", 1), ("AAAA", 1), ("AB", 2), ("ABAB", 2)])
def test_the_first_use_of_a_tensor_map_fetches_its_descriptor(names: str, expected: int) -> None:
    assert misses(names) == expected


def test_stores_and_reductions_need_descriptors_too() -> None:
    assert misses("AA", type="tma_store") == 1
    assert misses("AA", type="tma_store", attrs={"reduce": True}) == 1


def test_each_sm_fetches_for_itself_and_keeps_for_its_next_cta() -> None:
    assert misses("A", ctas=132) == 1
    assert misses("A", ctas=264) == 1


@pytest.mark.parametrize(("entries", "expected"), [(1, 5), (2, 4), (3, 3)])
def test_a_descriptor_that_others_drove_out_is_fetched_again(entries: int, expected: int) -> None:
    """A B A C B: with one place all miss, with two B was used longest ago when C comes, with three each is fetched once."""
    assert misses("ABACB", **{"tma.descriptor_cache_entries": entries}) == expected


def test_copies_that_start_together_wait_for_one_fetch() -> None:
    def cycles(miss: int) -> int:
        kernel = Kernel()
        a = kernel.b.tensor("A", (2, 64), "float16")
        s = kernel.b.buffer("s", (2, 64), "float16", scope="shared")
        full = kernel.b.barrier("full", [1])
        for i in range(2):
            kernel.t.node("tma_load", [0], reads=[a.tile((i, 0), (1, 64))], writes=[s.tile((i, 0), (1, 64))], tx=full[0],
                          arrive=[(full[0], 1)] if i else [])
        kernel.t.node("barrier_wait", [0], wait=(full[0], 0))
        return kernel.run(overrides={"tma.descriptor_miss_cycles": miss}).cycles

    assert 1000 - 40 < cycles(1000) - cycles(0) < 1000  # the second one is issued some 36 cycles into the fetch


def test_a_plain_bulk_copy_needs_no_descriptor_and_no_set_up() -> None:
    plain = {"tensor_map": False, "box": (64,)}
    assert misses("AA", attrs=plain) == 0
    equal = {"tma.descriptor_miss_cycles": 0, "tma.bulk_issue_cycles": 33}
    assert loads("A", **equal) - loads("A", attrs=plain, **equal) == 65  # type: ignore[arg-type]


def test_reductions_are_issued_more_slowly_than_stores() -> None:
    same = {"tma.reduce_issue_cycles": 14}
    slow = loads("AA", type="tma_store", attrs={"reduce": True})
    assert slow - loads("AA", type="tma_store", attrs={"reduce": True}, **same) == 2 * (45 - 14)  # type: ignore[arg-type]


def test_without_deduplication_each_element_is_a_request() -> None:
    """A row of 4096 half-precision elements: 64 requests of 128 bytes, or 4096 of one element, at one a cycle."""
    together, apart = (loads("A", columns=4096, **{"tma.deduplicate": on}) for on in (True, False))  # type: ignore[arg-type]
    assert apart - together == pytest.approx(4096 - 64, rel=0.05)


def test_the_first_of_several_boxes_is_under_way_while_the_others_are_issued() -> None:
    """Launch and set-up of the first take 105 cycles, the issue of two 66: the data comes as if there were one box."""
    one, two = (loads("A", attrs={"tensor_map": True, "box": (1, columns)}) for columns in (64, 32))
    assert two - one == 4  # the second one's instructions
