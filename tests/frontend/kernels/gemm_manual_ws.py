"""Hopper GEMM with hand-written roles: warp group 2 loads, warp groups 0 and 1 each own half of the
output rows (cooperative consumers), explicit mbarriers, asynchronous wgmma with a deferred wait,
register reallocation."""

import tilelang.language as T


def make(M=4096, N=4096, K=4096, block_M=256, block_N=128, block_K=64, num_stages=4,
         dtype="float16", accum_dtype="float32"):
    k_tiles = K // block_K
    hm = block_M // 2

    @T.prim_func
    def gemm_manual_ws(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(N // block_N, M // block_M, threads=384) as (pn, pm):
            a0_s = T.alloc_shared((num_stages, hm, block_K), dtype)
            a1_s = T.alloc_shared((num_stages, hm, block_K), dtype)
            b_s = T.alloc_shared((num_stages, block_K, block_N), dtype)
            acc0 = T.alloc_fragment((hm, block_N), accum_dtype)
            acc1 = T.alloc_fragment((hm, block_N), accum_dtype)
            full = T.alloc_barrier([128] * num_stages)
            empty = T.alloc_barrier([256] * num_stages)
            with T.ws(2):
                T.dec_max_nreg(40)
                for kt in T.serial(k_tiles):
                    T.mbarrier_wait_parity(empty[kt % num_stages], ((kt // num_stages) & 1) ^ 1)
                    T.tma_copy(A[pm * block_M:pm * block_M + hm, kt * block_K:(kt + 1) * block_K],
                               a0_s[kt % num_stages, :, :], barrier=full[kt % num_stages])
                    T.tma_copy(A[pm * block_M + hm:(pm + 1) * block_M, kt * block_K:(kt + 1) * block_K],
                               a1_s[kt % num_stages, :, :], barrier=full[kt % num_stages])
                    T.tma_copy(B[kt * block_K:(kt + 1) * block_K, pn * block_N:(pn + 1) * block_N],
                               b_s[kt % num_stages, :, :], barrier=full[kt % num_stages])
                    T.mbarrier_arrive(full[kt % num_stages])
            with T.ws(0):
                T.inc_max_nreg(232)
                T.clear(acc0)
                for kt in T.serial(k_tiles):
                    T.mbarrier_wait_parity(full[kt % num_stages], (kt // num_stages) & 1)
                    T.wgmma_gemm(a0_s[kt % num_stages, :, :], b_s[kt % num_stages, :, :], acc0)
                    T.wait_wgmma(0)
                    T.mbarrier_arrive(empty[kt % num_stages])
                T.copy(acc0, C[pm * block_M, pn * block_N])
            with T.ws(1):
                T.inc_max_nreg(232)
                T.clear(acc1)
                for kt in T.serial(k_tiles):
                    T.mbarrier_wait_parity(full[kt % num_stages], (kt // num_stages) & 1)
                    T.wgmma_gemm(a1_s[kt % num_stages, :, :], b_s[kt % num_stages, :, :], acc1)
                    T.wait_wgmma(0)
                    T.mbarrier_arrive(empty[kt % num_stages])
                T.copy(acc1, C[pm * block_M + hm, pn * block_N])

    return gemm_manual_ws
