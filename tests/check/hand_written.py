"""TileLang kernels with roles and barriers written by hand, right and wrong ones."""

from typing import Any

import tilelang.language as T


def ring(trips: int = 6, stages: int = 2, fault: str = "", count: int = 128) -> Any:
    """A GEMM of one tile: threads 128-255 load, 0-127 multiply. `fault` is what its author got wrong; `count` are the arrivals
    that a phase of `empty` needs."""

    @T.prim_func
    def ring_gemm(
        A: T.Tensor((128, 64 * trips), "float16"), B: T.Tensor((64 * trips, 128), "float16"), C: T.Tensor((128, 128), "float16")
    ):
        with T.Kernel(1, threads=256) as _:
            a_s, b_s = T.alloc_shared((stages, 128, 64), "float16"), T.alloc_shared((stages, 64, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float32")
            full, empty = T.alloc_barrier([128] * stages), T.alloc_barrier([count] * stages)
            tx = T.get_thread_binding()
            if tx >= 128:
                for k in T.serial(trips):
                    T.mbarrier_wait_parity(empty[k % stages], (k // stages) % 2 ^ (0 if fault == "parity" else 1))
                    T.tma_copy(A[0:128, k * 64 : k * 64 + 64], a_s[k % stages, :, :], barrier=full[k % stages])
                    T.tma_copy(B[k * 64 : k * 64 + 64, 0:128], b_s[k % stages, :, :], barrier=full[k % stages])
                    if fault == "one thread":
                        if tx == 128:
                            T.mbarrier_arrive(full[k % stages])
                    elif fault == "last":
                        if k < trips - 1:
                            T.mbarrier_arrive(full[k % stages])
                    else:
                        T.mbarrier_arrive(full[k % stages])
            else:
                T.clear(acc)
                for k in T.serial(trips):
                    T.mbarrier_wait_parity(full[k % stages], (k // stages) % 2)
                    T.gemm(a_s[k % stages, :, :], b_s[k % stages, :, :], acc)
                    if fault == "slot":
                        T.mbarrier_arrive(empty[0])
                    elif fault != "never":
                        T.mbarrier_arrive(empty[k % stages])
                T.copy(acc, C[0, 0])

    return ring_gemm


def persistent(trips: int, stages: int, tiles: int = 3, carry: bool = False) -> Any:
    """The same for several tiles, one after the other; `carry`: slots and phases go on counting from tile to tile."""
    rows = 128 * tiles

    @T.prim_func
    def persistent_gemm(
        A: T.Tensor((rows, 64 * trips), "float16"), B: T.Tensor((64 * trips, 128), "float16"), C: T.Tensor((rows, 128), "float16")
    ):
        with T.Kernel(1, threads=256) as _:
            a_s, b_s = T.alloc_shared((stages, 128, 64), "float16"), T.alloc_shared((stages, 64, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float32")
            full, empty = T.alloc_barrier([128] * stages), T.alloc_barrier([128] * stages)
            tx = T.get_thread_binding()
            if tx >= 128:
                for tile in T.serial(tiles):
                    for k in T.serial(trips):
                        n = T.meta_var((tile * trips + k) if carry else k)
                        T.mbarrier_wait_parity(empty[n % stages], (n // stages) % 2 ^ 1)
                        T.tma_copy(
                            A[tile * 128 : tile * 128 + 128, k * 64 : k * 64 + 64],
                            a_s[n % stages, :, :],
                            barrier=full[n % stages],
                        )
                        T.tma_copy(B[k * 64 : k * 64 + 64, 0:128], b_s[n % stages, :, :], barrier=full[n % stages])
                        T.mbarrier_arrive(full[n % stages])
            else:
                for tile in T.serial(tiles):
                    T.clear(acc)
                    for k in T.serial(trips):
                        n = T.meta_var((tile * trips + k) if carry else k)
                        T.mbarrier_wait_parity(full[n % stages], (n // stages) % 2)
                        T.gemm(a_s[n % stages, :, :], b_s[n % stages, :, :], acc)
                        T.mbarrier_arrive(empty[n % stages])
                    T.copy(acc, C[tile * 128, 0])

    return persistent_gemm


def wide(trips: int = 7) -> Any:
    """640 threads, four barriers: threads 512-639 load, each of four warpgroups takes 64 of 256 rows."""

    @T.prim_func
    def wide_sum(A: T.Tensor((256, 128 * trips), "float16"), C: T.Tensor((256, 128), "float32")):
        with T.Kernel(1, threads=640) as _:
            a_s = T.alloc_shared((2, 256, 128), "float16")
            c = T.alloc_fragment((64, 128), "float32")
            full, empty = T.alloc_barrier([128, 128]), T.alloc_barrier([512, 512])
            tx = T.get_thread_binding()
            if tx >= 512:
                for k in T.serial(trips):
                    T.mbarrier_wait_parity(empty[k % 2], (k // 2) % 2 ^ 1)
                    T.tma_copy(A[0:256, k * 128 : k * 128 + 128], a_s[k % 2, :, :], barrier=full[k % 2])
                    T.mbarrier_arrive(full[k % 2])
            for g in T.unroll(4):
                if tx >= 128 * g and tx < 128 * g + 128:
                    T.clear(c)
                    for k in T.serial(trips):
                        T.mbarrier_wait_parity(full[k % 2], (k // 2) % 2)
                        for i, j in T.Parallel(64, 128):
                            c[i, j] += a_s[k % 2, g * 64 + i, j]
                        T.mbarrier_arrive(empty[k % 2])
                    T.copy(c, C[g * 64, 0])

    return wide_sum


def one_trip(trips: int = 1, stages: int = 1) -> Any:
    """A GEMV with a pipelined loop, as automatic roles make it."""

    @T.prim_func
    def gemv(
        X: T.Tensor((64 * trips,), "bfloat16"), W: T.Tensor((64 * trips, 4096), "bfloat16"), P: T.Tensor((4096,), "float32")
    ):
        with T.Kernel(16, threads=256) as bx:
            w_s, x_s = T.alloc_shared((64, 256), "bfloat16"), T.alloc_shared((64,), "bfloat16")
            acc = T.alloc_fragment((256,), "float32")
            T.clear(acc)
            for ko in T.Pipelined(trips, num_stages=stages):
                T.copy(W[ko * 64, bx * 256], w_s)
                T.copy(X[ko * 64], x_s)
                for kk in T.serial(64):
                    for n in T.Parallel(256):
                        acc[n] += x_s[kk].astype("float32") * w_s[kk, n].astype("float32")
            T.copy(acc, P[bx * 256])

    return gemv


def handed_over(signalled: bool) -> Any:
    """One warpgroup stores a row to shared memory, another one reads it: behind a barrier, or not."""

    @T.prim_func
    def hand_over(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256) as _:
            s = T.alloc_shared((128,), "float32")
            ready = T.alloc_barrier([128])
            tx = T.get_thread_binding()
            if tx < 128:
                T.copy(X, s)
                if signalled:
                    T.mbarrier_arrive(ready[0])
            else:
                if signalled:
                    T.mbarrier_wait_parity(ready[0], 0)
                T.copy(s, Y)

    return hand_over


def stored_by_all() -> Any:
    """All threads store operands to shared memory; then the roles begin, and only the consumers read them."""

    @T.prim_func
    def roles(
        A: T.Tensor((64, 512), "float16"),
        B: T.Tensor((512, 64), "float16"),
        S: T.Tensor((64, 200), "float16"),
        C: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(1, threads=128) as _:
            a_s, b_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            scale_s, scale = T.alloc_shared((64,), "float16"), T.alloc_fragment((64,), "float32")
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(S[0, 0:64], scale_s)
            T.copy(scale_s, scale)
            for i, j in T.Parallel(64, 64):
                acc[i, j] = scale[i]
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 64], a_s)
                T.copy(B[k * 64, 0], b_s)
                T.gemm(a_s, b_s, acc)
            T.copy(acc, C)

    return roles
