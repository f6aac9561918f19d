"""Small kernels for the frontend tests: constructs that few kernels use."""

import tilelang.language as T


def transposed(M=64, N=32, threads=128):
    """B = A^T through shared memory."""

    @T.prim_func
    def transposed_kernel(A: T.Tensor((M, N), "float16"), B: T.Tensor((N, M), "float16")):
        with T.Kernel(1, threads=threads) as _:
            s = T.alloc_shared((M, N), "float16")
            t = T.alloc_shared((N, M), "float16")
            T.copy(A, s)
            T.transpose(s, t)
            T.copy(t, B)

    return transposed_kernel


def scanned(shape=(64, 96), dim=1, threads=256, reverse=False):
    """Running sums of a tile in shared memory."""

    @T.prim_func
    def scanned_kernel(X: T.Tensor(shape, "float32"), Y: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=threads) as _:
            x = T.alloc_shared(shape, "float32")
            T.copy(X, x)
            T.cumsum(x, dim=dim, reverse=reverse)
            T.copy(x, Y)

    return scanned_kernel


def sparse(M=128, N=128, K=128, bm=64, bn=128, bk=64, threads=128, stages=0):
    """C = A B, of A two of four elements are stored, and which ones they are (16 elements in an int16)."""

    @T.prim_func
    def sparse_kernel(A: T.Tensor((M, K // 2), "float16"), E: T.Tensor((M, K // 16), "int16"), B: T.Tensor((K, N), "float16"),
                      C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (c, r):
            a = T.alloc_shared((bm, bk // 2), "float16")
            e = T.alloc_shared((bm, bk // 16), "int16")
            b = T.alloc_shared((bk, bn), "float16")
            total = T.alloc_fragment((bm, bn), "float32")
            T.clear(total)
            for k in T.Pipelined(K // bk, num_stages=stages):
                T.copy(A[r * bm, k * bk // 2], a)
                T.copy(E[r * bm, k * bk // 16], e)
                T.copy(B[k * bk, c * bn], b)
                T.gemm_sp(a, e, b, total)
            T.copy(total, C[r * bm, c * bn])

    return sparse_kernel


def four_bits(M=64, N=64, K=256, bk=128, threads=128):
    """C = A B^T of 4-bit integers."""

    @T.prim_func
    def four_bits_kernel(A: T.Tensor((M, K), "int4"), B: T.Tensor((N, K), "int4"), C: T.Tensor((M, N), "int32")):
        with T.Kernel(1, threads=threads) as _:
            a = T.alloc_shared((M, bk), "int4")
            b = T.alloc_shared((N, bk), "int4")
            total = T.alloc_fragment((M, N), "int32")
            T.clear(total)
            for k in T.serial(K // bk):
                T.copy(A[0, k * bk], a)
                T.copy(B[0, k * bk], b)
                T.gemm(a, b, total, transpose_B=True)
            T.copy(total, C)

    return four_bits_kernel


def convolution(height=8, width=8, channels=32, filters=64, taps=3, stride=1, dilation=1, pad=1, pixels=32, stages=0,
                threads=128):
    """A convolution as a product: a filter tap a step."""
    high = (height + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
    wide = (width + 2 * pad - dilation * (taps - 1) - 1) // stride + 1

    @T.prim_func
    def convolution_kernel(X: T.Tensor((1, height, width, channels), "float16"),
                           W: T.Tensor((taps * taps * channels, filters), "float16"),
                           Y: T.Tensor((high * wide, filters), "float16")):
        with T.Kernel(high * wide // pixels, threads=threads) as block:
            x = T.alloc_shared((pixels, channels), "float16")
            w = T.alloc_shared((channels, filters), "float16")
            total = T.alloc_fragment((pixels, filters), "float32")
            T.clear(total)
            for k in T.Pipelined(taps * taps, num_stages=stages):
                T.im2col(X, x, block, k, taps, stride, dilation, pad)
                T.copy(W[k * channels, 0], w)
                T.gemm(x, w, total)
            T.copy(total, Y[block * pixels, 0])

    return convolution_kernel


def signalled(asynchronous=True, rounds=2):
    """A warpgroup copies by cp.async and signals a barrier; the other waits there and reads."""

    @T.prim_func
    def signalled_kernel(X: T.Tensor((rounds, 128, 8), "float16"), Y: T.Tensor((rounds, 128, 8), "float16")):
        with T.Kernel(1, threads=256) as _:
            s = T.alloc_shared((rounds, 128, 8), "float16")
            full = T.alloc_barrier([128] * rounds)
            tx = T.get_thread_binding()
            if tx < 128:
                for i in T.serial(rounds):
                    T.ptx_cp_async(T.access_ptr(s[i, tx, 0], "w", 8), T.access_ptr(X[i, tx, 0], "r", 8), 8)
                    if asynchronous:
                        T.cp_async_barrier_noinc(full[i])
                    else:
                        T.mbarrier_arrive(full[i])
            else:
                for i in T.serial(rounds):
                    T.mbarrier_wait_parity(full[i], 0)
                    for j in T.vectorized(8):
                        Y[i, tx - 128, j] = s[i, tx - 128, j]

    return signalled_kernel


def tallied(rows=4, cols=512, threads=128, op="sum"):
    """Row sums (or maxima) by a reducer."""

    @T.prim_func
    def tallied_kernel(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((rows,), "float32")):
        with T.Kernel(1, threads=threads) as _:
            acc = T.alloc_reducer((rows,), "float32", op=op)
            total = T.alloc_fragment((rows,), "float32")
            T.reducer_init(acc)
            for i, j in T.Parallel(rows, cols):
                T.reducer_update(acc[i], X[i, j])
            T.finalize_reducer(acc, total)
            T.copy(total, Y)

    return tallied_kernel


def column_sums(rows=128, cols=64, threads=128):
    """Sums of the columns of a tile in registers."""

    @T.prim_func
    def column_sums_kernel(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((cols,), "float32")):
        with T.Kernel(1, threads=threads) as _:
            x = T.alloc_fragment((rows, cols), "float32")
            total = T.alloc_fragment((cols,), "float32")
            T.copy(X, x)
            T.reduce_sum(x, total, dim=0)
            T.copy(total, Y)

    return column_sums_kernel


def added(M=64, N=128, use_tma=True, threads=128):
    """C += A, block by block, through shared memory."""

    @T.prim_func
    def added_kernel(A: T.Tensor((M, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(2, threads=threads) as _:
            x = T.alloc_fragment((M, N), "float32")
            s = T.alloc_shared((M, N), "float32")
            T.copy(A, x)
            T.copy(x, s)
            T.atomic_add(C, s, use_tma=use_tma)

    return added_kernel


def dependent(signals=True, n=1024, threads=128):
    """Waits for the kernel before it, and lets the kernel behind it start early."""

    @T.prim_func
    def dependent_kernel(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(n // threads, threads=threads) as b:
            if signals:
                T.pdl_sync()
            for i in T.Parallel(threads):
                Y[b * threads + i] = X[b * threads + i] + 1.0
            if signals:
                T.pdl_trigger()

    return dependent_kernel


def turned(threads=256):
    """Each thread writes a row, reads another one, and writes that row again."""
    half = threads // 8

    @T.prim_func
    def turned_kernel(X: T.Tensor((threads, 4), "float32"), Y: T.Tensor((threads, 4), "float32")):
        with T.Kernel(1, threads=threads) as _:
            s = T.alloc_shared((threads, 4), "float32")
            x = T.alloc_local((4,), "float32")
            tx = T.get_thread_binding()
            for j in T.vectorized(4):
                s[tx, j] = X[tx, j]
            for j in T.vectorized(4):
                x[j] = s[tx % 8 * half + tx // 8, j]
            for j in T.vectorized(4):
                s[tx % 8 * half + tx // 8, j] = x[j] + 1.0
            for j in T.vectorized(4):
                Y[tx, j] = s[tx, j]

    return turned_kernel


def one_warp_sums(cols=512, threads=256):
    """The first warp adds up a row by itself; the whole block would have to exchange through shared memory."""

    @T.prim_func
    def one_warp_sums_kernel(X: T.Tensor((1, cols), "float32"), Y: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=threads) as _:
            x = T.alloc_fragment((1, cols), "float32")
            total = T.alloc_fragment((1,), "float32")
            s = T.alloc_shared((1, cols), "float32")
            tx = T.get_thread_binding()
            T.copy(X, s)
            if tx < 32:
                T.copy(s, x)
                T.reduce_sum(x, total, dim=1)
                T.copy(total, Y)

    return one_warp_sums_kernel


def alternating(rounds=2):
    """All warps write a tile; then half of them read it while the others go on."""

    @T.prim_func
    def alternating_kernel(X: T.Tensor((rounds, 64, 64), "float32"), Y: T.Tensor((rounds, 64, 64), "float32")):
        with T.Kernel(1, threads=256) as _:
            s = T.alloc_shared((64, 64), "float32")
            tx = T.get_thread_binding()
            for r in T.serial(rounds):
                T.copy(X[r, 0, 0], s)
                if tx >= 128:
                    for i in T.serial(32):
                        Y[r, i * 2 + (tx - 128) // 64, tx % 64] = s[i * 2 + (tx - 128) // 64, 63 - tx % 64]

    return alternating_kernel
