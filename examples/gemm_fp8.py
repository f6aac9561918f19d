"""C = A @ B^T with fp8 operands and fp16 results. Hopper only.

With `promote_every` > 0 partial sums move to a second accumulator every so many steps, as DeepSeek-V3 does against the tensor
cores' short fp8 accumulators; the report shows what that costs.

    gtsim predict examples/gemm_fp8.py --arg M=8192 --arg promote_every=4
"""

import tilelang.language as T


def gemm_fp8(M=4096, N=4096, K=4096, block_M=128, block_N=128, block_K=128, num_stages=3, threads=256, promote_every=0,
             dtype="float8_e4m3fn"):
    """Both operands have K contiguous, as fp8 wgmma wants."""

    @T.prim_func
    def gemm_fp8_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bn, bm):
            a_s = T.alloc_shared((block_M, block_K), dtype)
            b_s = T.alloc_shared((block_N, block_K), dtype)
            c_s = T.alloc_shared((block_M, block_N), "float16")
            total = T.alloc_fragment((block_M, block_N), "float32")
            part = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(total)
            if promote_every > 0:
                T.clear(part)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[bm * block_M, k * block_K], a_s)
                T.copy(B[bn * block_N, k * block_K], b_s)
                if promote_every > 0:
                    T.gemm(a_s, b_s, part, transpose_B=True)
                    if (k + 1) % promote_every == 0:
                        for i, j in T.Parallel(block_M, block_N):
                            total[i, j] += part[i, j]
                        T.clear(part)
                else:
                    T.gemm(a_s, b_s, total, transpose_B=True)
            T.copy(total, c_s)
            T.copy(c_s, C[bm * block_M, bn * block_N])

    return gemm_fp8_kernel
