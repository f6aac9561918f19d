"""A persistent GEMM in TileLang, with or without SiLU, that the case studies lower."""

import tilelang.language as T


def persistent_gemm(M=4096, N=4096, K=4096, workers=132, block_M=128, block_N=128, block_K=64, num_stages=3, threads=256,
                    silu=False, dtype="float16", out_dtype="float16"):
    """C = A B^T, or silu(A B^T); CTA `worker` takes every `workers`-th output tile."""

    @T.prim_func
    def persistent_gemm_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(workers, threads=threads) as worker:
            a_s = T.alloc_shared((block_M, block_K), dtype)
            b_s = T.alloc_shared((block_N, block_K), dtype)
            c_s = T.alloc_shared((block_M, block_N), out_dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            for row, column in T.Persistent([T.ceildiv(M, block_M), T.ceildiv(N, block_N)], workers, worker):
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[row * block_M, k * block_K], a_s)
                    T.copy(B[column * block_N, k * block_K], b_s)
                    T.gemm(a_s, b_s, acc, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)  # rows are split
                if silu:
                    for i, j in T.Parallel(block_M, block_N):
                        acc[i, j] = acc[i, j] * 0.5 + acc[i, j] * 0.5 * T.tanh(acc[i, j] * 0.5)
                T.copy(acc, c_s)
                T.copy(c_s, C[row * block_M, column * block_N])

    return persistent_gemm_kernel
