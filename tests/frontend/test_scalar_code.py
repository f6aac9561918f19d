"""What element-wise code costs beyond its arithmetic: widths the compiler plans, branches, index arithmetic, threads that go
their own ways."""

import pytest

pytest.importorskip("tilelang")
import tilelang.language as T
from gtsim.frontend import lower

N = 4096


def nest(formula, reads=1, dtype="float16"):
    """A block of 256 threads writes 2048 elements, each by `formula(inputs, index)`."""
    @T.prim_func
    def kernel(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(N // 2048, threads=256) as block:
            for i, j in T.Parallel(256, 8):
                formula(A, B, Y, block * 2048 + i * 8 + j)

    return kernel


@T.macro
def plain(A, B, Y, i):
    Y[i] = A[i] + B[i]


@T.macro
def chosen(A, B, Y, i):
    Y[i] = T.if_then_else(A[i] > 0, A[i], T.cast(0, "float16"))


@T.macro
def reversed_(A, B, Y, i):
    Y[i] = A[N - 1 - i]


@T.macro
def either(A, B, Y, i):
    Y[i] = T.if_then_else(A[i] > 0, A[i], B[i])


@T.macro
def folded(A, B, Y, i):
    Y[i] = A[i % 96]


@T.macro
def sevenths(A, B, Y, i):
    Y[i] = A[i // 7]


@T.macro
def ratio(A, B, Y, i):
    Y[i] = A[i] / B[i]


@T.macro
def costly_side(A, B, Y, i):
    Y[i] = T.if_then_else(A[i] > 0, A[i], T.exp(A[i]))


def nodes(view, formula, kind, dtype="float16"):
    return view(lower(nest(formula, dtype=dtype), arch="sm_90a")).of(kind)


@pytest.mark.parametrize(("formula", "width"), [(plain, 8), (chosen, 1), (reversed_, 1), (folded, 8), (sevenths, 1)])
def test_the_planner_of_the_compiler_says_how_wide_a_nest_is(view, formula, width):
    """A condition on data, and an access that is not contiguous, make all of a nest scalar."""
    assert {n.attrs["access_bytes"] for n in nodes(view, formula, "global_store")} == {2 * width}


def test_divisions_that_jump_from_step_to_step_cost_integer_operations(view):
    def operations(formula):
        return sum(n.attrs.get("int", 0.0) for n in nodes(view, formula, "elementwise")[:1])

    # 2048 elements of 256 threads. plain: three addresses of two operations once a thread, of 8 elements.
    assert operations(plain) == pytest.approx(3 * 2 / 8)
    # The quotient by 7 (3 operations) and the address behind it (2) are new for each of 8 scalar steps, that of Y (2) is not.
    assert operations(sevenths) == pytest.approx(3 + 2 + 2 / 8)


def test_a_branch_makes_the_elements_of_a_thread_wait_for_each_other(view):
    for formula, dtype, serial in ((plain, "float32", None), (chosen, "float16", None), (ratio, "float32", 8),
                                   (ratio, "float16", None), (costly_side, "float16", 8)):
        found = nodes(view, formula, "elementwise", dtype)[0].attrs
        assert found.get("serial") == serial, (formula, dtype)
        assert found.get("branches", 0) == (1 if serial else 0)


def test_loads_behind_a_branch_on_data_follow_each_other(view):
    """The second tensor is loaded where the first says so: an element after the other, of eight a thread."""
    v = view(lower(nest(either), arch="sm_90a"))
    loads, work = v.of("global_load"), v.of("elementwise")
    assert len(work) == 2 * 8 and len(loads) == 2 * len(work)  # two warpgroups
    assert sum(n.attrs["elements"] for n in work) == 2048


def test_threads_that_leave_holes_touch_what_they_touch(view):
    """Lanes in pairs: even ones take rows from 0 on, odd ones from 64 on; both the column of their pair. The loop is unrolled."""
    @T.prim_func
    def kernel(S: T.Tensor((128, 16), "bfloat16"), w: T.Tensor((128,), "float32"), Y: T.Tensor((128, 16), "bfloat16")):
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding(0)
            w_s = T.alloc_shared((128,), "float32")
            T.copy(w, w_s)
            half = lane % 2
            for i in T.serial(64):
                value = T.cast(S[half * 64 + i, lane // 2], "float32") * w_s[half * 64 + i]
                Y[half * 64 + i, lane // 2] = T.cast(value, "bfloat16")

    v = view(lower(kernel, arch="sm_90a"))
    (load,) = [n for n in v.of("global_load") if n.reads[0].buffer.name == "S"]
    assert load.reads[0].nbytes == 128 * 16 * 2 and load.attrs["row_bytes"] == 32
    (factor,) = v.of("shared_load")
    assert (factor.attrs["lanes"], factor.attrs["lane_steps"]) == ((2, 16), (64, 0)), "two words, read by sixteen lanes each"


def test_a_name_for_data_is_loaded_once_where_it_is_bound(view):
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float32"), B: T.Tensor((2, 32), "float32")):
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding(0)
            a: T.float32 = A[lane] * 2.0
            B[0, lane] = a + 1.0
            B[1, lane] = a - 1.0

    v = view(lower(kernel, arch="sm_90a"))
    assert [n.reads[0].nbytes for n in v.of("global_load")] == [32 * 4]
    held = next(n for n in v.of("elementwise") if n.writes[0].buffer.name == "a")
    users = [n for n in v.of("elementwise") if any(r.buffer is held.writes[0].buffer for r in n.reads)]
    assert len(users) == 2
