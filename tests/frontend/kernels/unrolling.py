"""Small kernels for the frontend tests: what the compiler unrolls, and what the assembler moves."""

import tilelang.language as T


def combine(splits=16, dim=128, heads=8):
    """The second kernel of split-KV attention: partial results weighted by their sums of exponentials."""

    @T.prim_func
    def combine_kernel(lse: T.Tensor((heads, splits), "float32"), part: T.Tensor((heads, splits, dim), "float32"),
                       out: T.Tensor((heads, dim), "float16")):
        with T.Kernel(heads, threads=128) as h:
            total = T.alloc_local((1,), "float32")
            row = T.alloc_fragment((dim,), "float32")
            total[0] = 0
            for s in T.serial(splits):
                total[0] += T.exp2(lse[h, s])
            T.clear(row)
            for s in T.serial(splits):
                weight = T.exp2(lse[h, s] - total[0])
                for j in T.Parallel(dim):
                    row[j] += part[h, s, j] * weight
            for j in T.Parallel(dim):
                out[h, j] = T.cast(row[j], "float16")

    return combine_kernel


def scores(rows=8, vec=4, threads=128):
    """Dot products of each warp's rows, set anew for each row and added up over the lanes."""

    @T.prim_func
    def scores_kernel(K: T.Tensor((64, rows, 32 * vec), "float32"), out: T.Tensor((64, threads, rows), "float32")):
        with T.Kernel(64, threads=threads) as b:
            lane = T.get_thread_binding() % 32
            dot = T.alloc_local((1,), "float32")
            found = T.alloc_local((rows,), "float32")
            for r in T.serial(rows):
                dot[0] = 0
                for c in T.serial(vec):
                    dot[0] += K[b, r, lane * vec + c]
                dot[0] += T.shfl_xor(dot[0], 1)
                found[r] = dot[0]
            for r in T.serial(rows):
                out[b, T.get_thread_binding(), r] = found[r]

    return scores_kernel


def recurrence(steps=8, threads=128):
    """Two statements that need each other's result of the step before."""

    @T.prim_func
    def recurrence_kernel(X: T.Tensor((64, steps, threads), "float32"), Y: T.Tensor((64, threads), "float32")):
        with T.Kernel(64, threads=threads) as b:
            t = T.get_thread_binding()
            state = T.alloc_local((1,), "float32")
            gate = T.alloc_local((1,), "float32")
            state[0] = 0
            for s in T.serial(steps):
                gate[0] = state[0] * X[b, s, t]
                state[0] = gate[0] + 1.0
            Y[b, t] = state[0]

    return recurrence_kernel


def two_copies(M=1024, cols=64, threads=128):
    """Two tiles that pass through registers, and their sum."""

    @T.prim_func
    def two_copies_kernel(X: T.Tensor((M, cols), "float16"), Y: T.Tensor((M, cols), "float16"),
                          Z: T.Tensor((M, cols), "float16")):
        with T.Kernel(M // 64, threads=threads) as b:
            x = T.alloc_shared((64, cols), "float16")
            y = T.alloc_shared((64, cols), "float16")
            T.copy(X[b * 64, 0], x, disable_tma=True)
            T.copy(Y[b * 64, 0], y, disable_tma=True)
            for i, j in T.Parallel(64, cols):
                Z[b * 64 + i, j] = x[63 - i, j] + y[63 - i, j]

    return two_copies_kernel


def late_wait(depth=4):
    """A product in flight, the exponential of another one, then the wait and the arrival that frees the product's tile."""

    @T.prim_func
    def late_wait_kernel(A: T.Tensor((64, 64 * depth), "float16"), B: T.Tensor((64 * depth, 64), "float16"),
                         C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            o = T.alloc_fragment((64, 64), "float32")
            full = T.alloc_barrier(128)
            empty = T.alloc_barrier(128)
            tx = T.get_thread_binding()
            if tx >= 128:
                for k in T.serial(depth):
                    T.barrier_wait(empty, (k + 1) % 2)
                    T.tma_copy(A[0, k * 64], a, barrier=full)
                    T.tma_copy(B[k * 64, 0], b, barrier=full)
                    T.barrier_arrive(full)
            else:
                T.clear(s)
                T.clear(o)
                for k in T.serial(depth):
                    T.barrier_wait(full, k % 2)
                    T.wgmma_gemm(a, b, o)
                    for i, j in T.Parallel(64, 64):
                        s[i, j] = T.exp2(s[i, j])
                    T.wait_wgmma(0)
                    T.barrier_arrive(empty)
                for i, j in T.Parallel(64, 64):
                    o[i, j] += s[i, j]
                T.copy(o, a)
                T.fence_proxy_async()
                T.copy(o, C)

    return late_wait_kernel
