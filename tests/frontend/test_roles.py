"""Hand-written roles: who executes what, and what broken barriers are told."""

import pytest
from gtsim.frontend import FrontendError, lower
from gtsim.graph import GraphError, Reason


def test_roles_follow_from_what_the_warpgroups_do(graph, view):
    g = graph("dense.ring", "sm_90a")
    assert g.meta["roles"] == ["producer", "consumer"]
    assert {n.role for n in view(g).of("tma_load", "setmaxnreg")} == {"producer", "consumer"}


def test_a_load_is_issued_by_one_elected_warp_and_an_arrive_counts_all_lanes(graph, view):
    v = view(graph("dense.ring", "sm_90a"))
    assert {n.warps for n in v.of("tma_load")} == {(0,)}
    assert {n.attrs["count"] for n in v.of("barrier_arrive")} == {128}


def test_an_asynchronous_gemm_completes_at_its_wait(graph, view):
    v = view(graph("dense.ring", "sm_90a"))
    for gemm, wait in zip(v.of("wgmma"), v.of("wait_group"), strict=True):
        assert not gemm.blocking
        assert gemm in v.sources(wait, Reason.GROUP)


def test_the_accumulator_goes_straight_to_memory_in_pairs(graph, view):
    store = view(graph("dense.ring", "sm_90a")).of("global_store")[0]
    assert (store.attrs["access_bytes"], store.attrs["row_bytes"]) == (4, 16)


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
@pytest.mark.parametrize("slots", [2, 3])
def test_any_number_of_steps_runs_through_any_ring(graph, steps, slots):
    assert graph("dense.ring", "sm_90a", K=64 * steps, slots=slots).templates[0].nodes > 0


def test_a_missing_arrive_is_a_deadlock_that_names_the_barrier(kernels):
    with pytest.raises(GraphError, match=r"deadlock.*drained\[0\]"):
        lower(kernels("dense.ring"), kwargs={"forget": True}, arch="sm_90a")


def test_a_ring_that_never_laps_needs_no_arrive(kernels):
    assert lower(kernels("dense.ring"), kwargs={"forget": True, "K": 128}, arch="sm_90a").total_nodes > 0


def test_too_many_arrivals_name_the_barrier(kernels):
    with pytest.raises(GraphError, match=r"drained\[0\] takes 64 arrivals"):
        lower(kernels("dense.ring"), kwargs={"arrivals": 64}, arch="sm_90a")


def test_too_few_arrivals_are_a_deadlock(kernels):
    with pytest.raises(GraphError, match=r"drained\[0\] phase 0 has 128 of 256"):
        lower(kernels("dense.ring"), kwargs={"arrivals": 256}, arch="sm_90a")


def test_hopper_instructions_are_refused_elsewhere(kernels):
    with pytest.raises(FrontendError, match="does not exist on sm_80"):
        lower(kernels("dense.ring"), arch="sm_80")
