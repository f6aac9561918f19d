"""GEMM as TileLang's users write it: a pipelined loop of copies and products, whose roles and stages the compiler decides."""

import tilelang.language as T


def gemm_pipelined(M=4096, N=4096, K=4096, block_M=128, block_N=128, block_K=64, num_stages=3, threads=256, panel=0, trans_B=True,
                   staged=True, dtype="float16", out_dtype=None):
    """A [M, K] times B, stored [N, K] or [K, N].

    Args:
        panel: tiles are taken in panels of so many rows of tiles; row by row if 0.
        staged: the result goes through shared memory; straight from registers otherwise.
        out_dtype: of the result; `dtype` if None.
    """
    out_dtype = out_dtype or dtype
    b_shape, b_tile = ((N, K), (block_N, block_K)) if trans_B else ((K, N), (block_K, block_N))

    @T.prim_func
    def gemm_pipelined_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bn, bm):
            a_s = T.alloc_shared((block_M, block_K), dtype)
            b_s = T.alloc_shared(b_tile, dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            if panel > 0:
                T.use_swizzle(panel_size=panel)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[bm * block_M, k * block_K], a_s)
                if trans_B:
                    T.copy(B[bn * block_N, k * block_K], b_s)
                else:
                    T.copy(B[k * block_K, bn * block_N], b_s)
                T.gemm(a_s, b_s, acc, transpose_B=trans_B)
            if staged:
                c_s = T.alloc_shared((block_M, block_N), out_dtype)
                T.copy(acc, c_s)
                T.copy(c_s, C[bm * block_M, bn * block_N])
            else:
                T.copy(acc, C[bm * block_M, bn * block_N])

    return gemm_pipelined_kernel
