"""Hopper GEMM with hand-written warp roles: a producer warpgroup that loads by TMA, and a consumer that multiplies.

A ring of `num_stages` tiles connects them. The consumer drains its products before it gives a slot back, and stores its result
straight from registers.
"""

import tilelang.language as T


def gemm_roles(M=4096, N=4096, K=4096, block_M=128, block_N=128, block_K=64, num_stages=3, trans_A=False, trans_B=True,
               dtype="bfloat16", out_dtype=None):
    """One tile a CTA, N fastest, results straight from registers.

    Args:
        trans_A: A is stored [K, M].
        trans_B: B is stored [N, K].
        dtype: of the operands; `out_dtype` of the result, the same if None.
    """
    out_dtype = out_dtype or dtype
    steps = (K + block_K - 1) // block_K
    a_shape, a_tile = ((K, M), (block_K, block_M)) if trans_A else ((M, K), (block_M, block_K))
    b_shape, b_tile = ((N, K), (block_N, block_K)) if trans_B else ((K, N), (block_K, block_N))

    @T.prim_func
    def gemm_roles_kernel(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bn, bm):
            a_s = T.alloc_shared((num_stages, *a_tile), dtype)
            b_s = T.alloc_shared((num_stages, *b_tile), dtype)
            full = T.alloc_barrier([128] * num_stages)
            empty = T.alloc_barrier([128] * num_stages)
            loaded = T.alloc_var("int32", init=0)

            with T.ws(0):
                T.set_max_nreg(24, 0)
                for k in T.serial(steps):
                    slot = loaded % num_stages
                    phase = loaded % (2 * num_stages) // num_stages
                    for s in T.serial(num_stages):
                        if slot == s:
                            T.mbarrier_wait_parity(empty[s], phase ^ 1)
                            if trans_A:
                                T.tma_copy(A[k * block_K:(k + 1) * block_K, bm * block_M:(bm + 1) * block_M], a_s[s, :, :],
                                           barrier=full[s])
                            else:
                                T.tma_copy(A[bm * block_M:(bm + 1) * block_M, k * block_K:(k + 1) * block_K], a_s[s, :, :],
                                           barrier=full[s])
                            if trans_B:
                                T.tma_copy(B[bn * block_N:(bn + 1) * block_N, k * block_K:(k + 1) * block_K], b_s[s, :, :],
                                           barrier=full[s])
                            else:
                                T.tma_copy(B[k * block_K:(k + 1) * block_K, bn * block_N:(bn + 1) * block_N], b_s[s, :, :],
                                           barrier=full[s])
                            T.mbarrier_arrive(full[s])
                    loaded = loaded + 1

            with T.ws(1):
                T.set_max_nreg(240, 1)
                acc = T.alloc_fragment((block_M, block_N), "float32")
                used = T.alloc_var("int32", init=0)
                T.clear(acc)
                for k in T.serial(steps):
                    slot = used % num_stages
                    phase = used % (2 * num_stages) // num_stages
                    for s in T.serial(num_stages):
                        if slot == s:
                            T.mbarrier_wait_parity(full[s], phase)
                            T.wgmma_gemm(a_s[s, :, :], b_s[s, :, :], acc, transpose_A=trans_A, transpose_B=trans_B,
                                         clear_accum=(k == 0))
                            T.wait_wgmma(0)
                            T.mbarrier_arrive(empty[s])
                    used = used + 1
                for i, j in T.Parallel(block_M, block_N):
                    if bm * block_M + i < M and bn * block_N + j < N:
                        C[bm * block_M + i, bn * block_N + j] = acc[i, j]

    return gemm_roles_kernel
