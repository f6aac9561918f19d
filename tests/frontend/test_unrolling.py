"""Loops that the compiler unrolls, and what the assembler moves within a basic block (docs/calibration.md)."""

import pytest


def loads_of(v, name):
    return [n for n in v.of("global_load") if n.reads[0].buffer.name == name]


def test_the_loads_of_all_iterations_of_a_short_loop_are_one_operation(graph, view):
    v = view(graph("unrolling.combine", "sm_90a"))
    assert [n.reads[0].extent for n in loads_of(v, "part")] == [(1, 16, 128)]
    assert [n.reads[0].extent for n in loads_of(v, "lse")] == [(1, 16), (1, 16)]
    assert v.of("control") == []


def test_what_an_iteration_takes_over_stays_a_chain(graph, view):
    short, long = (next(n for n in view(graph("unrolling.combine", "sm_90a", splits=s)).of("elementwise") if "total" in n.source
                        and n.attrs.get("sfu")) for s in (8, 16))
    assert long.attrs["depth"] - short.attrs["depth"] == 8


def test_a_longer_loop_is_a_loop_over_pieces(graph, view):
    v = view(graph("unrolling.combine", "sm_90a", splits=96))
    assert [n.reads[0].extent for n in loads_of(v, "part")] == [(1, 8, 128)] * 12  # 6 operations an iteration, 48 a piece
    assert [n.reads[0].extent for n in loads_of(v, "lse")] == [(1, 16)] * 6 + [(1, 8)] * 12
    assert sum(n.attrs["branches"] for n in v.of("control")) == 18


def test_a_value_set_anew_in_each_iteration_is_no_chain(graph, view):
    v = view(graph("unrolling.scores", "sm_90a"))
    dots = [n for n in v.of("elementwise") if n.source.startswith("thread(dot")]
    added = next(n for n in dots if n.attrs.get("fma") and not n.attrs.get("shuffle"))
    shuffled = next(n for n in dots if n.attrs.get("shuffle"))
    assert len(loads_of(v, "K")) == 1
    assert added.attrs["depth"] == 1 + 3  # over the vector, not over the rows
    assert shuffled.attrs["depth"] == 2
    assert shuffled.attrs["elements"] == 8 * 128


def test_statements_that_need_each_other_are_a_chain_behind_all_loads(graph, view):
    v = view(graph("unrolling.recurrence", "sm_90a"))
    assert len(loads_of(v, "X")) == 1
    assert max(n.attrs["depth"] for n in v.of("elementwise")) >= 16  # two operations a step


def test_loads_go_in_front_of_stores_to_shared_memory(graph, view):
    v = view(graph("unrolling.two_copies", "sm_90a"))
    assert [n.type for n in v.nodes][:4] == ["global_load", "global_load", "shared_store", "shared_store"]


def test_loads_stay_where_registers_end(graph, view):
    v = view(graph("unrolling.two_copies", "sm_90a", cols=128, threads=32))  # 128 words a thread and tile: two do not fit
    assert [n.type for n in v.nodes][:4] == ["global_load", "shared_store", "global_load", "shared_store"]


def test_waits_and_arrivals_go_in_front_of_arithmetic(graph, view):
    v = view(graph("unrolling.late_wait", "sm_90a"))
    kinds = [n.type for n in v.nodes if n.role == "consumer" and n.loop == "k=1" and n.type != "control"]
    assert kinds == ["barrier_wait", "wgmma", "wait_group", "barrier_arrive", "elementwise"]


def test_a_product_needs_no_fence_for_what_was_stored_after_it(graph, view):
    v = view(graph("unrolling.late_wait", "sm_90a"))
    first = next(n for n in v.nodes if n.type == "wgmma")
    assert not [n for n in v.of("fence", role="consumer") if n.index < first.index]


def test_what_all_elements_of_a_row_are_divided_by_is_inverted_once(graph, view):
    def divided(configs):
        v = view(graph("softmax.attention", "sm_90a", pass_configs=configs))
        return next(n for n in v.of("elementwise") if "/" in n.source).attrs

    assert divided({"tl.enable_fast_math": True})["sfu"] == pytest.approx(4 / 64)
    assert divided({})["sfu"] == 2
