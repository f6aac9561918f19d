"""Where the lanes of a warp reach in shared memory: what bank conflicts are counted from."""

import pytest

T = pytest.importorskip("tilelang.language")
NO_ROLES = {"tl.disable_warp_specialized": True}


def staged(write, dtype="float32", pitch=32):
    """A 32 x 32 tile through shared memory; `write(s, t)` is the nest that fills s from the register tile t."""
    @T.prim_func
    def kernel(a: T.Tensor((32, 32), dtype), b: T.Tensor((32, 32), dtype)):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((32, pitch), dtype)
            t = T.alloc_fragment((32, 32), dtype)
            T.copy(a, t)
            write(s, t)
            for i, j in T.Parallel(32, 32):
                b[i, j] = s[i, j] + 1

    return kernel


@T.macro
def straight(s, t):
    for i, j in T.Parallel(32, 32):
        s[i, j] = t[i, j] * 2


@T.macro
def turned(s, t):
    for i, j in T.Parallel(32, 32):
        s[j, i] = t[i, j] * 2


@pytest.mark.parametrize(("write", "pitch", "lanes", "steps"), [
    (straight, 32, (8, 4), (4, 32)),  # four elements a lane, eight lanes a row
    (turned, 32, (32,), (32,)),  # what is not contiguous is not vectorised: an element a lane, rows apart
    (turned, 33, (32,), (33,)),
])
def test_lanes_follow_the_iterations_of_a_parallel_nest(view, write, pitch, lanes, steps):
    from gtsim.frontend import lower

    v = view(lower(staged(write, pitch=pitch), arch="sm_90a", pass_configs=NO_ROLES))
    store = v.of("shared_store")[0]
    assert (store.attrs["lanes"], store.attrs["lane_steps"]) == (lanes, steps)


def test_threads_that_index_by_themselves_are_the_lanes(graph, view):
    from gtsim.frontend import lower

    @T.prim_func
    def kernel(a: T.Tensor((32, 4), "float32"), b: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32, 4), "float32")
            tx = T.get_thread_binding()
            s[tx, 0] = a[tx, 0]
            T.sync_threads()
            b[tx] = s[31 - tx, 0]

    v = view(lower(kernel, arch="sm_90a"))
    assert [(n.attrs["lanes"], n.attrs["lane_steps"]) for n in v.of("shared_store", "shared_load")] == [((32,), (4,))] * 2


def test_a_tensor_core_fragment_is_stored_by_stmatrix_on_hopper_and_by_pairs_on_ampere(graph, view):
    stores = {arch: view(graph("dense.product", arch)).of("shared_store")[-1] for arch in ("sm_90a", "sm_80")}
    columns = stores["sm_80"].writes[0].buffer.shape[-1]
    assert {arch: (n.attrs["access_bytes"], n.attrs["lanes"], n.attrs["lane_steps"]) for arch, n in stores.items()} == {
        "sm_90a": (16, (8, 4), (columns, 8)), "sm_80": (4, (4, 8), (2, columns))}


def flat(shape, tile, dtype):
    """x[i * columns + j] = 1"""
    @T.prim_func
    def kernel(a: T.Tensor(shape, dtype)):
        with T.Kernel(4, threads=128) as block:
            for i, j in T.Parallel(*tile):
                a[(block * tile[0] + i) * tile[1] + j] = T.Cast(dtype, 1)

    return kernel


def rows(shape, tile, dtype):
    """x[i, j] = 1"""
    @T.prim_func
    def kernel(a: T.Tensor(shape, dtype)):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(*tile):
                a[i, j] = T.Cast(dtype, 1)

    return kernel


@pytest.mark.parametrize(("kernel", "shape", "tile", "dtype", "row_bytes"), [
    (flat, (4096,), (128, 8), "float16", 512),  # neighbouring threads store neighbouring elements
    (flat, (4096,), (128, 4), "int8", 128),
    (rows, (64, 32), (64, 32), "float16", 512),  # whole rows follow each other
    (rows, (64, 64), (64, 32), "float16", 64),  # half rows do not
])
def test_a_warp_stores_what_follows_each_other_in_memory(view, kernel, shape, tile, dtype, row_bytes):
    from gtsim.frontend import lower

    v = view(lower(kernel(shape, tile, dtype), arch="sm_90a"))
    assert {n.attrs["row_bytes"] for n in v.of("global_store")} == {row_bytes}


def test_elements_that_several_lanes_read_are_loaded_for_each(view):
    """y[i] = x[i] * w[i // 64]: 16 elements of w, each for 64 iterations."""
    from gtsim.frontend import lower

    @T.prim_func
    def kernel(x: T.Tensor((1024,), "float32"), w: T.Tensor((16,), "float32"), y: T.Tensor((1024,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(1024):
                y[i] = x[i] * w[i // 64]

    loads = {n.reads[0].buffer.name: n for n in view(lower(kernel, arch="sm_90a")).of("global_load")}
    assert (loads["w"].reads[0].extent, loads["w"].attrs["copies"]) == ((16,), 64.0)
    assert "copies" not in loads["x"].attrs
