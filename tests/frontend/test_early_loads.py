"""Loads that the compiler issues ahead of their place, and loads that conditions hold back."""

import pytest

T = pytest.importorskip("tilelang.language")
NO_ROLES = {"tl.disable_warp_specialized": True}


def filled(read_only=True, dtype="float16", rows=128):
    """Two tiles go through registers into shared memory, one statement after the other."""
    @T.prim_func
    def kernel(a: T.Tensor((rows, 64), dtype), b: T.Tensor((rows, 64), dtype), c: T.Tensor((rows, 64), dtype)):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((rows, 64), dtype)
            r = T.alloc_shared((rows, 64), dtype)
            for i, j in T.Parallel(rows, 64):
                s[i, j] = a[i, j]
            for i, j in T.Parallel(rows, 64):
                r[i, j] = b[i, j]
            for i, j in T.Parallel(rows, 64):
                c[i, j] = s[i, j] + r[i, j]
            if not read_only:
                for i, j in T.Parallel(rows, 64):
                    b[i, j] = c[i, j]

    return kernel


def kinds(view, *wanted):
    return [(n.type, next(t.buffer.name for t in n.tiles if t.buffer.scope != "fragment")) for n in view.of(*wanted)]


@pytest.mark.parametrize(("kernel", "early"), [
    (filled(), True),
    (filled(read_only=False), True),  # b is written later; global and shared memory are different places
    (filled(dtype="float32", rows=256), False),  # 512 bytes a thread on their way
])
def test_a_load_overtakes_stores_to_shared_memory(view, kernel, early):
    from gtsim.frontend import lower

    order = [name for _, name in kinds(view(lower(kernel, arch="sm_90a", pass_configs=NO_ROLES)), "global_load", "shared_store")]
    assert order[:4] == (["a", "b", "s", "r"] if early else ["a", "s", "b", "r"])


@pytest.mark.parametrize("read_only", [True, False])
def test_weights_are_loaded_before_the_rows_are_reduced(view, read_only):
    """The barriers of the reduction hold back only what may be written."""
    from gtsim.frontend import lower

    @T.prim_func
    def kernel(x: T.Tensor((8, 1024), "float32"), w: T.Tensor((1024,), "float32"), y: T.Tensor((8, 1024), "float32")):
        with T.Kernel(8, threads=128) as row:
            a = T.alloc_fragment((1, 1024), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(x[row, 0], a)
            T.reduce_sum(a, total, dim=1)
            for i, j in T.Parallel(1, 1024):
                y[row + i, j] = a[i, j] * total[i] * w[j]
            if not read_only:
                for i in T.Parallel(1024):
                    w[i] = 0.0

    found = view(lower(kernel, arch="sm_90a", pass_configs=NO_ROLES))
    order = [n.type if n.type == "cta_sync" else n.reads[0].buffer.name for n in found.of("cta_sync", "global_load")]
    assert order.count("cta_sync") > 2 and (order.index("w") < order.index("cta_sync")) == read_only


def scaled(m, n, guarded_rows=False, guarded_columns=False, invariant=False):
    """A product of 128 x 128 tiles, scaled by row and column vectors that lie in global memory."""
    @T.prim_func
    def kernel(a: T.Tensor((m, 64), "float16"), b: T.Tensor((n, 64), "float16"), x: T.Tensor((m,), "float32"),
               y: T.Tensor((n,), "float32"), c: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=128) as (bx, by):
            s = T.alloc_shared((128, 64), "float16")
            r = T.alloc_shared((128, 64), "float16")
            p = T.alloc_fragment((128, 128), "float32")
            T.copy(a[by * 128, 0], s)
            T.copy(b[bx * 128, 0], r)
            T.gemm(s, r, p, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(128, 128):
                if (not guarded_rows or by * 128 + i < m) and (not guarded_columns or bx * 128 + j < n):
                    p[i, j] = p[i, j] * x[0 if invariant else by * 128 + i] * y[0 if invariant else bx * 128 + j]
            T.copy(p, c[by * 128, bx * 128])

    return kernel


def lowered(view, kernel):
    from gtsim.frontend import lower

    return view(lower(kernel, arch="sm_90a", pass_configs=NO_ROLES))


def test_loads_that_nothing_holds_back_are_issued_before_the_products_are_waited_for(view):
    def vectors_first(kernel):
        nodes = lowered(view, kernel).nodes
        product = next(i for i, n in enumerate(nodes) if n.type == "wgmma")  # which is waited for at once
        vectors = [i for i, n in enumerate(nodes) if n.type == "global_load" and n.reads[0].buffer.name in "xy"]
        return [i < product for i in vectors]

    assert vectors_first(scaled(128, 128)) == [True, True]
    assert vectors_first(scaled(100, 128, guarded_rows=True)) == [False, False]


def test_each_warp_loads_the_vectors_of_a_fragment_for_itself(view):
    loads = {n.reads[0].buffer.name: n.attrs for n in lowered(view, scaled(128, 128)).of("global_load")}
    # four warps of 32 rows: 4 of them a lane, wanted by four lanes; 32 columns a lane, wanted by eight lanes of each warp
    assert loads["x"]["copies"] == 4 and loads["y"]["copies"] == 8 * 4
    assert "rounds" not in loads["x"]


@pytest.mark.parametrize(("m", "n", "guards", "rounds"), [
    (128, 192, {"guarded_columns": True}, 128),  # 128 x 128 elements over 128 threads, one behind the other
    (100, 128, {"guarded_rows": True}, 128),
    (8, 128, {"guarded_rows": True}, 64),  # of the two rows a thread has in eight, one is inside
    (100, 128, {"guarded_rows": True, "invariant": True}, 128),
    (128, 192, {"guarded_columns": True, "invariant": True}, None),  # all threads decide alike: loaded once
])
def test_under_a_condition_known_at_run_time_loads_wait_for_each_other(view, m, n, guards, rounds):
    loads = lowered(view, scaled(m, n, **guards)).of("global_load")
    assert [x.attrs["rounds"] for x in loads if "rounds" in x.attrs] == ([rounds] if rounds else [])


def stored(m, n):
    @T.prim_func
    def kernel(a: T.Tensor((m, 64), "float16"), b: T.Tensor((n, 64), "float16"), c: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=128) as (bx, by):
            s = T.alloc_shared((128, 64), "float16")
            r = T.alloc_shared((128, 64), "float16")
            p = T.alloc_fragment((128, 128), "float32")
            T.copy(a[by * 128, 0], s)
            T.copy(b[bx * 128, 0], r)
            T.gemm(s, r, p, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(128, 128):
                if by * 128 + i < m and bx * 128 + j < n:
                    c[by * 128 + i, bx * 128 + j] = p[i, j]

    return kernel


@pytest.mark.parametrize(("m", "n", "rounds"), [(96, 192, 64), (96, 128, None), (64, 192, None), (128, 192, None)])
def test_stores_stand_behind_branches_where_conditions_on_rows_and_columns_meet(view, m, n, rounds):
    (store,) = lowered(view, stored(m, n)).of("global_store")
    assert store.attrs.get("rounds") == rounds


def test_a_predicated_load_selects_nothing(view):
    from gtsim.frontend import lower

    @T.prim_func
    def kernel(n: T.int32, a: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=128) as bx:
            s = T.alloc_shared((128, 64), "float16")
            for i, j in T.Parallel(128, 64):
                s[i, j] = T.if_then_else(bx * 2 + i < 100, a[i, j], T.Cast("float16", 0))

    v = view(lower(kernel, arch="sm_90a", symbols={"n": 1}, pass_configs=NO_ROLES))
    # at most the comparison, once a row: no select an element
    assert all(n.attrs.get("alu", 0) <= 1 / 8 + 1e-3 for n in v.of("elementwise"))
