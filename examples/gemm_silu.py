"""C = silu(A @ B): the activation runs on the accumulators before they are stored.

    gtsim predict examples/gemm_silu.py --arg K=512
"""

import tilelang.language as T


def gemm_silu(M=4096, N=4096, K=1024, block_M=128, block_N=128, block_K=64, num_stages=3, threads=256, dtype="float16"):
    """The shorter K, the more the epilogue weighs."""

    @T.prim_func
    def gemm_silu_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bn, bm):
            a_s = T.alloc_shared((block_M, block_K), dtype)
            b_s = T.alloc_shared((block_K, block_N), dtype)
            c_s = T.alloc_shared((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[bm * block_M, k * block_K], a_s)
                T.copy(B[k * block_K, bn * block_N], b_s)
                T.gemm(a_s, b_s, acc)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = acc[i, j] / (1.0 + T.exp(-acc[i, j]))
            T.copy(acc, c_s)
            T.copy(c_s, C[bm * block_M, bn * block_N])

    return gemm_silu_kernel
