"""Small kernels for the frontend tests: CUDA-core work."""

import tilelang.language as T


def scale_add(M=256, N=512, rows=16, cols=256, threads=128, via_shared=False):
    """Z = relu(X * 2 + Y)."""

    @T.prim_func
    def scale_add_kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32"), Z: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, cols), T.ceildiv(M, rows), threads=threads) as (c, r):
            if via_shared:
                x = T.alloc_shared((rows, cols), "float32")
                T.copy(X[r * rows, c * cols], x)
                for i, j in T.Parallel(rows, cols):
                    Z[r * rows + i, c * cols + j] = T.max(x[i, j] * 2.0 + Y[r * rows + i, c * cols + j], 0.0)
            else:
                for i, j in T.Parallel(rows, cols):
                    Z[r * rows + i, c * cols + j] = T.max(
                        X[r * rows + i, c * cols + j] * 2.0 + Y[r * rows + i, c * cols + j], 0.0)

    return scale_add_kernel


def row_norm(M=64, N=2048, threads=128):
    """Each row divided by its root mean square; one row a block."""

    @T.prim_func
    def row_norm_kernel(X: T.Tensor((M, N), "float16"), Y: T.Tensor((M, N), "float16")):
        with T.Kernel(M, threads=threads) as r:
            x = T.alloc_fragment((1, N), "float16")
            squares = T.alloc_fragment((1, N), "float32")
            mean = T.alloc_fragment((1,), "float32")
            T.copy(X[r, 0], x)
            for i, j in T.Parallel(1, N):
                squares[i, j] = T.cast(x[i, j], "float32") * T.cast(x[i, j], "float32")
            T.reduce_sum(squares, mean, dim=1)
            for i, j in T.Parallel(1, N):
                Y[r, j] = x[i, j] * T.rsqrt(mean[i] / N + 1e-6)

    return row_norm_kernel


def tail_guard(M=100, N=300, threads=128):
    """A loop whose trip count depends on the block."""

    @T.prim_func
    def tail_guard_kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(4, threads=threads) as b:
            x = T.alloc_fragment((8, 64), "float32")
            for k in T.serial(b + 5):
                T.copy(X[k * 8, b * 64], x)
                T.copy(x, Y[k * 8, b * 64])

    return tail_guard_kernel


def prefix(threads=128):
    """A running sum along the rows."""

    @T.prim_func
    def prefix_kernel(X: T.Tensor((128, 128), "float32"), Y: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=threads) as _:
            x = T.alloc_shared((128, 128), "float32")
            T.copy(X, x)
            T.cumsum(x, dim=1)
            T.copy(x, Y)

    return prefix_kernel


def cancelling():
    """Asks for the next cluster to run (Blackwell), which has no node type."""

    @T.prim_func
    def cancelling_kernel(X: T.Tensor((128, 128), "float32"), Y: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_shared((128, 128), "float32")
            answer = T.alloc_shared((4,), "uint32")
            bar = T.alloc_barrier([1])
            T.copy(X, x)
            T.clc_try_cancel(answer, bar[0])
            T.copy(x, Y)

    return cancelling_kernel


def uneven():
    """A trip count that differs between the threads of a warp."""

    @T.prim_func
    def uneven_kernel(X: T.Tensor((128, 128), "float32"), Y: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((1, 128), "float32")
            tx = T.get_thread_binding()
            for k in T.serial(tx + 1):
                T.copy(X[k, 0], x)
                T.copy(x, Y[k, 0])

    return uneven_kernel


def staged_by_tma(width=128):
    """Tiles go through shared memory by TMA both ways."""

    @T.prim_func
    def staged_kernel(X: T.Tensor((512, 512), "float16"), Y: T.Tensor((512, 512), "float16")):
        with T.Kernel(512 // width, 4, threads=128) as (bx, by):
            s = T.alloc_shared((128, width), "float16")
            loaded = T.alloc_barrier([128])
            T.tma_copy(X[by * 128, bx * width], s, barrier=loaded[0])
            T.mbarrier_arrive(loaded[0])
            T.mbarrier_wait_parity(loaded[0], 0)
            T.copy(s, Y[by * 128, bx * width])

    return staged_kernel
