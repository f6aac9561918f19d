"""The ping-pong organisation of GEMM + SiLU in TileLang, with hand-written roles: one CTA, one output tile a wave.

Warp group 0 loads sub-tiles of half the rows; groups 1 and 2 multiply every other one each. Each has barriers of its own, whose
phases follow from the step alone: the ring has four slots and a sub-tile a multiple of eight steps.
"""

import tilelang.language as T

SLOTS = 4


def pingpong_gemm(waves=10, K=1024, block_M=128, block_N=128, block_K=64, dtype="float16"):
    """C = silu(A B^T), B of one block of columns."""
    M, N, rows, steps = waves * block_M, block_N, block_M // 2, K // block_K
    assert steps % (2 * SLOTS) == 0, "a sub-tile takes a multiple of eight steps"

    @T.prim_func
    def pingpong_gemm_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(1, threads=384):
            a_s = T.alloc_shared((SLOTS, rows, block_K), dtype)
            b_s = T.alloc_shared((SLOTS, block_N, block_K), dtype)
            c_0 = T.alloc_shared((rows, block_N), dtype)
            c_1 = T.alloc_shared((rows, block_N), dtype)
            acc_0 = T.alloc_fragment((rows, block_N), "float32")
            acc_1 = T.alloc_fragment((rows, block_N), "float32")
            full_0 = T.alloc_barrier([128] * SLOTS)
            full_1 = T.alloc_barrier([128] * SLOTS)
            empty_0 = T.alloc_barrier([128] * SLOTS)
            empty_1 = T.alloc_barrier([128] * SLOTS)

            with T.ws(0):
                T.set_max_nreg(24, 0)
                for w in T.serial(waves):
                    for k in T.serial(steps):
                        slot = k % SLOTS
                        if k < SLOTS:
                            if w > 0:
                                T.mbarrier_wait_parity(empty_1[slot], 1)
                        else:
                            T.mbarrier_wait_parity(empty_0[slot], (k // SLOTS + 1) % 2)
                        T.tma_copy(A[w * block_M:w * block_M + rows, k * block_K:(k + 1) * block_K], a_s[slot, :, :],
                                   barrier=full_0[slot])
                        T.tma_copy(B[0:block_N, k * block_K:(k + 1) * block_K], b_s[slot, :, :], barrier=full_0[slot])
                        T.mbarrier_arrive(full_0[slot])
                    for k in T.serial(steps):
                        slot = k % SLOTS
                        if k < SLOTS:
                            T.mbarrier_wait_parity(empty_0[slot], 1)
                        else:
                            T.mbarrier_wait_parity(empty_1[slot], (k // SLOTS + 1) % 2)
                        T.tma_copy(A[w * block_M + rows:(w + 1) * block_M, k * block_K:(k + 1) * block_K], a_s[slot, :, :],
                                   barrier=full_1[slot])
                        T.tma_copy(B[0:block_N, k * block_K:(k + 1) * block_K], b_s[slot, :, :], barrier=full_1[slot])
                        T.mbarrier_arrive(full_1[slot])

            with T.ws(1):
                T.set_max_nreg(240, 1)
                for w in T.serial(waves):
                    for k in T.serial(steps):
                        slot = k % SLOTS
                        T.mbarrier_wait_parity(full_0[slot], k // SLOTS % 2)
                        T.wgmma_gemm(a_s[slot, :, :], b_s[slot, :, :], acc_0, transpose_B=True, clear_accum=(k == 0))
                        T.wait_wgmma(0)
                        T.mbarrier_arrive(empty_0[slot])
                    for i, j in T.Parallel(rows, block_N):
                        acc_0[i, j] = acc_0[i, j] * 0.5 + acc_0[i, j] * 0.5 * T.tanh(acc_0[i, j] * 0.5)
                    T.copy(acc_0, c_0)
                    T.copy(c_0, C[w * block_M, 0])

            with T.ws(2):
                T.set_max_nreg(240, 1)
                for w in T.serial(waves):
                    for k in T.serial(steps):
                        slot = k % SLOTS
                        T.mbarrier_wait_parity(full_1[slot], k // SLOTS % 2)
                        T.wgmma_gemm(a_s[slot, :, :], b_s[slot, :, :], acc_1, transpose_B=True, clear_accum=(k == 0))
                        T.wait_wgmma(0)
                        T.mbarrier_arrive(empty_1[slot])
                    for i, j in T.Parallel(rows, block_N):
                        acc_1[i, j] = acc_1[i, j] * 0.5 + acc_1[i, j] * 0.5 * T.tanh(acc_1[i, j] * 0.5)
                    T.copy(acc_1, c_1)
                    T.copy(c_1, C[w * block_M + rows, 0])

    return pingpong_gemm_kernel
