"""Small kernels for the frontend tests: matrix products."""

import tilelang.language as T


def product(M=512, N=512, K=512, bm=128, bn=128, bk=64, stages=3, threads=256, panel=0, dtype="float16"):
    """C = A @ B, pipelined; epilogue through shared memory."""

    @T.prim_func
    def product_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (col, row):
            left = T.alloc_shared((bm, bk), dtype)
            right = T.alloc_shared((bk, bn), dtype)
            total = T.alloc_fragment((bm, bn), "float32")
            staged = T.alloc_shared((bm, bn), dtype)
            if panel:
                T.use_swizzle(panel)
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                T.copy(A[row * bm, k * bk], left)
                T.copy(B[k * bk, col * bn], right)
                T.gemm(left, right, total)
            T.copy(total, staged)
            T.copy(staged, C[row * bm, col * bn])

    return product_kernel


def ring(M=256, N=256, K=512, bm=128, bn=128, bk=64, slots=2, arrivals=128, forget=False, direct=True):
    """Hand-written roles: warpgroup 0 loads a ring of slots, warpgroup 1 multiplies. `forget` leaves out the consumer's arrive,
    `arrivals` is the count of the empty barriers."""
    steps = K // bk

    @T.prim_func
    def ring_kernel(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((N, K), "bfloat16"), C: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(N // bn, M // bm, threads=256) as (col, row):
            left = T.alloc_shared((slots, bm, bk), "bfloat16")
            right = T.alloc_shared((slots, bn, bk), "bfloat16")
            total = T.alloc_fragment((bm, bn), "float32")
            filled = T.alloc_barrier([128] * slots)
            drained = T.alloc_barrier([arrivals] * slots)
            with T.ws(0):
                T.dec_max_nreg(24)
                for k in T.serial(steps):
                    T.mbarrier_wait_parity(drained[k % slots], ((k // slots) & 1) ^ 1)
                    T.tma_copy(A[row * bm:(row + 1) * bm, k * bk:(k + 1) * bk], left[k % slots, :, :], barrier=filled[k % slots])
                    T.tma_copy(B[col * bn:(col + 1) * bn, k * bk:(k + 1) * bk], right[k % slots, :, :], barrier=filled[k % slots])
                    T.mbarrier_arrive(filled[k % slots])
            with T.ws(1):
                T.inc_max_nreg(240)
                T.clear(total)
                for k in T.serial(steps):
                    T.mbarrier_wait_parity(filled[k % slots], (k // slots) & 1)
                    T.wgmma_gemm(left[k % slots, :, :], right[k % slots, :, :], total, transpose_B=True)
                    T.wait_wgmma(0)
                    if not forget:
                        T.mbarrier_arrive(drained[k % slots])
                T.copy(total, C[row * bm, col * bn])

    return ring_kernel


def experts(tokens=512, count=4, N=256, K=256, bm=128, bn=128, bk=64):
    """Grouped product: which weights a row block uses, and how many of its rows count, is data."""
    blocks = tokens // bm

    @T.prim_func
    def experts_kernel(A: T.Tensor((tokens, K), "float16"), W: T.Tensor((count, K, N), "float16"),
                       owner: T.Tensor((blocks,), "int32"), used: T.Tensor((blocks,), "int32"),
                       C: T.Tensor((tokens, N), "float16")):
        with T.Kernel(N // bn, blocks, threads=128) as (col, row):
            left = T.alloc_shared((bm, bk), "float16")
            right = T.alloc_shared((bk, bn), "float16")
            total = T.alloc_fragment((bm, bn), "float32")
            who = owner[row]
            if used[row] > 0:
                T.clear(total)
                for k in T.Pipelined(K // bk, num_stages=2):
                    T.copy(A[row * bm, k * bk], left)
                    T.copy(W[who, k * bk:(k + 1) * bk, col * bn:(col + 1) * bn], right)
                    T.gemm(left, right, total)
                T.copy(total, C[row * bm, col * bn])

    return experts_kernel


def persistent(M=768, N=768, K=2048, bm=128, bn=128, bk=64, stages=3, blocks=12, threads=256):
    """A few blocks take output tiles one after the other; the ring of stages goes on from tile to tile."""

    @T.prim_func
    def persistent_kernel(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(blocks, threads=threads) as block:
            left = T.alloc_shared((bm, bk), "float16")
            right = T.alloc_shared((bk, bn), "float16")
            total = T.alloc_fragment((bm, bn), "float32")
            for row, col in T.Persistent([T.ceildiv(M, bm), T.ceildiv(N, bn)], blocks, block):
                T.clear(total)
                for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                    T.copy(A[row * bm, k * bk], left)
                    T.copy(B[k * bk, col * bn], right)
                    T.gemm(left, right, total)
                T.copy(total, C[row * bm, col * bn])

    return persistent_kernel
