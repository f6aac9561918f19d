"""Thread-level code, data that steers control, several kernels in a program."""

import numpy as np
import pytest
from gtsim.frontend import FrontendError, lower, lower_program


def test_thread_code_counts_what_all_threads_do(graph, view):
    v = view(graph("threads.row_dots", "sm_90a"))
    loads = [n for n in v.of("global_load") if n.reads[0].buffer.name == "M"]
    assert {n.reads[0].extent for n in loads} == {(4, 1024)}  # four steps of 32 lanes x 8 elements, unrolled
    assert {(n.attrs["access_bytes"], n.attrs["row_bytes"]) for n in loads} == {(16, 512)}
    work = next(n for n in v.of("elementwise") if n.attrs.get("fma"))
    assert work.attrs["elements"] * work.attrs["fma"] == pytest.approx(4096, rel=0.1)  # 4 x 8 fused steps of every thread
    assert work.attrs["depth"] >= 32


def test_a_warp_reduces_by_five_shuffles_and_one_lane_stores(graph, view):
    v = view(graph("threads.row_dots", "sm_90a"))
    assert [n.attrs["shuffle_steps"] for n in v.of("reduce")] == [5]
    assert v.of("global_store")[0].writes[0].extent == (4,)


def test_on_chip_integers_steer_control(kernels):
    wanted = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=np.int32)
    g = lower(kernels("threads.masked"), arch="sm_90a", metadata={"wanted": wanted})
    reads = [sum(n.type == "global_load" and n.reads[0].buffer.name == "X" for n in g.nodes_of(t)) for t in g.templates]
    assert sorted(reads) == [0, 1, 1, 4]


def test_their_metadata_is_asked_for(kernels):
    with pytest.raises(FrontendError, match=r"tensor 'wanted', shape \[4, 4\]"):
        lower(kernels("threads.masked"), arch="sm_90a")


@pytest.mark.parametrize(("data", "problem"), [
    (np.ones((4, 3), dtype=np.int32), r"'wanted' has shape \[4, 3\], the kernel needs \[4, 4\]"),
    (np.ones((4, 4), dtype=np.float32), r"'wanted' has type float32, the kernel reads int32")])
def test_wrong_metadata_is_named(kernels, data, problem):
    with pytest.raises(FrontendError, match=problem):
        lower(kernels("threads.masked"), arch="sm_90a", metadata={"wanted": data})


def test_metadata_that_leaves_a_tensor_is_named(kernels):
    data = {"owner": np.array([0, 0, 2, 3], dtype=np.int32), "used": np.array([128, 128, 0], dtype=np.int32)}
    with pytest.raises(FrontendError, match=r"'used' has shape \[3\]"):
        lower(kernels("dense.experts"), arch="sm_90a", metadata=data)


def test_a_gather_moves_as_many_bytes_as_it_has_elements(graph, view):
    load = next(n for n in view(graph("threads.gathered", "sm_90a")).of("global_load") if n.reads[0].buffer.name == "X")
    assert load.reads[0].elements == 64 * 64


def test_several_kernels_give_a_graph_each(kernels):
    first, second = lower_program(kernels("threads.two_launches"), arch="sm_90a")
    assert (first.launch.grid, second.launch.grid) == ((8, 1, 1), (4, 1, 1))
    assert (first.name, second.name) == ("two_launches_kernel.0", "two_launches_kernel.1")


def test_lower_names_lower_program(kernels):
    with pytest.raises(FrontendError, match=r"2 kernels in this program.*lower_program"):
        lower(kernels("threads.two_launches"), arch="sm_90a")


def test_one_kernel_is_a_program_too(kernels):
    assert len(lower_program(kernels("threads.picked"), arch="sm_90a")) == 1


def test_data_that_decides_a_branch_counts_as_taken_and_warns(graph, view):
    g = graph("threads.picked", "sm_90a")
    assert any("data decides the branch" in w for w in g.warnings)
    assert view(g).of("global_store")


def test_a_named_barrier_orders_roles(graph, view):
    v = view(graph("threads.met", "sm_90a"))
    wait = v.of("barrier_wait")[0]
    assert {w for n in v.sources(wait) if n.type == "barrier_arrive" for w in n.warps} == set(range(8))


def test_a_scan_is_a_node(graph, view):
    assert {n.type for n in view(graph("pointwise.prefix", "sm_90a")).nodes} >= {"shared_load", "scan", "shared_store"}
