"""What a wait for bulk stores waits for: that shared memory has been read (PTX ISA: .read), or that the stores are done."""

import pytest

T = pytest.importorskip("tilelang.language")


def stores(**waits):
    @T.prim_func
    def kernel(a: T.Tensor((64, 64), "float16"), b: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), "float16")
            T.copy(a, s)
            T.tma_copy(s, b)
            T.tma_store_arrive()
            T.tma_store_wait(0, **waits)

    return kernel


@pytest.mark.parametrize(("waits", "until_read"), [({}, True), ({"read": True}, True), ({"read": False}, None)])
def test_a_wait_for_bulk_stores_says_whether_it_waits_for_the_read_only(view, waits, until_read):
    from gtsim.frontend import lower

    v = view(lower(stores(**waits), arch="sm_90a"))
    (wait,) = v.of("wait_group")
    assert (wait.attrs["queue"], wait.attrs.get("until_read")) == ("bulk", until_read)
    (store,) = v.of("tma_store")
    assert not store.blocking and "until_read" not in store.attrs
    assert store.index in {n.index for n in v.sources(wait)}


def test_a_copy_by_tma_waits_for_the_read(graph, view):
    store = view(graph("dense.product", "sm_90a")).of("tma_store")[-1]
    assert store.blocking and store.attrs["until_read"]
