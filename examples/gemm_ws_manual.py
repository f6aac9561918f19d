"""Hopper GEMM, C = A @ B^T, with hand-written warp roles: warp group 0 loads, warp group 1 multiplies.

A ring of `num_stages` tiles connects them. Each role counts its own steps and finds slot and phase of the ring from the
counter; the consumer drains its products before it gives a slot back, and stores straight from registers, four bytes at a time.
That is simple and leaves much on the table: the report says where.

    gtsim predict examples/gemm_ws_manual.py --hw h200_sxm --clock-mhz 1500
"""

import tilelang.language as T


def gemm_ws_manual(M=4096, N=4096, K=4096, block_M=128, block_N=128, block_K=64, num_stages=3, dtype="bfloat16"):
    """One producer and one consumer warp group of 128 threads each."""
    steps = (K + block_K - 1) // block_K

    @T.prim_func
    def gemm_ws_manual_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bn, bm):
            a_s = T.alloc_shared((num_stages, block_M, block_K), dtype)
            b_s = T.alloc_shared((num_stages, block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            full = T.alloc_barrier([128] * num_stages)
            empty = T.alloc_barrier([128] * num_stages)
            loaded = T.alloc_var("int32", init=0)
            used = T.alloc_var("int32", init=0)

            with T.ws(0):
                T.set_max_nreg(24, 0)
                for k in T.serial(steps):
                    slot = loaded % num_stages
                    phase = loaded % (2 * num_stages) // num_stages
                    for s in T.serial(num_stages):
                        if slot == s:
                            T.mbarrier_wait_parity(empty[s], phase ^ 1)
                            T.tma_copy(A[bm * block_M:(bm + 1) * block_M, k * block_K:(k + 1) * block_K], a_s[s, :, :],
                                       barrier=full[s])
                            T.tma_copy(B[bn * block_N:(bn + 1) * block_N, k * block_K:(k + 1) * block_K], b_s[s, :, :],
                                       barrier=full[s])
                            T.mbarrier_arrive(full[s])
                    loaded = loaded + 1

            with T.ws(1):
                T.set_max_nreg(240, 1)
                T.clear(acc)
                for k in T.serial(steps):
                    slot = used % num_stages
                    phase = used % (2 * num_stages) // num_stages
                    for s in T.serial(num_stages):
                        if slot == s:
                            T.mbarrier_wait_parity(full[s], phase)
                            T.wgmma_gemm(a_s[s, :, :], b_s[s, :, :], acc, transpose_B=True, clear_accum=(k == 0))
                            T.wait_wgmma(0)
                            T.mbarrier_arrive(empty[s])
                    used = used + 1
                for i, j in T.Parallel(block_M, block_N):
                    if bm * block_M + i < M and bn * block_N + j < N:
                        C[bm * block_M + i, bn * block_N + j] = acc[i, j]

    return gemm_ws_manual_kernel
