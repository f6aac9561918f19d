"""Arrivals that wait for the copies of their thread; signals between kernels."""

from gtsim.graph import Reason, check


def test_a_noinc_arrival_makes_the_phase_wait_for_the_copies(graph, view):
    v = view(graph("rare.signalled", "sm_90a"))
    for i, wait in enumerate(v.of("barrier_wait")):
        before = v.sources(wait, Reason.BARRIER)
        assert {n.type for n in before} == {"cp_async", "barrier_arrive"}
        assert {n.writes[0].offset[0] for n in before if n.type == "cp_async"} == {i}  # the copy of its own round only
        assert [n.attrs["count"] for n in before if n.type == "barrier_arrive"] == [128]
    assert check(v.graph) == []


def test_a_plain_arrival_does_not(graph, view):
    v = view(graph("rare.signalled", "sm_90a", asynchronous=False))
    assert {n.type for w in v.of("barrier_wait") for n in v.sources(w, Reason.BARRIER)} == {"barrier_arrive"}
    assert {f.kind for f in check(v.graph)} == {"race"}  # the reader may come before the data


def test_the_copying_threads_go_on_at_once(graph, view):
    v = view(graph("rare.signalled", "sm_90a"))
    arrive = v.of("barrier_arrive")[0]
    assert not arrive.blocking and v.of("wait_group") == []


def test_signals_between_kernels_are_nodes_of_their_own(graph, view):
    with_signals, without = (view(graph("rare.dependent", "sm_90a", signals=s)) for s in (True, False))
    kinds = [n.type for n in with_signals.nodes]
    assert {"pdl_wait", "pdl_trigger"} <= set(kinds)
    assert [k for k in kinds if not k.startswith("pdl")] == [n.type for n in without.nodes]
