"""Hopper GEMM, C = A @ B^T, by clusters of two CTAs that share a tile of A: one multicast load fills it in both.

Two CTAs next to each other in N need the same rows of A. The one with rank 0 loads them for both; each loads its own tile of B.
A slot of the ring is free when the consumers of both CTAs have read it: they arrive at the barrier of both.

    gtsim predict examples/gemm_cluster.py --hw h200_sxm --clock-mhz 1500
"""

import tilelang.language as T


def gemm_cluster(M=4096, N=4096, K=4096, block_M=128, block_N=128, block_K=64, num_stages=4, dtype="bfloat16"):
    """One producer and one consumer warp group of 128 threads in each of the two CTAs."""
    steps = (K + block_K - 1) // block_K

    @T.prim_func
    def gemm_cluster_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), dtype)):
        with T.ClusterKernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256, cluster_dims=(2, 1, 1)) as (bn, bm):
            a_s = T.alloc_shared((num_stages, block_M, block_K), dtype)
            b_s = T.alloc_shared((num_stages, block_N, block_K), dtype)
            c_s = T.alloc_shared((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            full = T.alloc_barrier([128] * num_stages)
            empty = T.alloc_cluster_barrier([2 * 128] * num_stages)

            with T.ws(0):
                T.set_max_nreg(24, 0)
                for k in T.serial(steps):
                    T.mbarrier_wait_parity(empty[k % num_stages], k // num_stages % 2 ^ 1)
                    T.tma_copy(A[bm * block_M:(bm + 1) * block_M, k * block_K:(k + 1) * block_K], a_s[k % num_stages, :, :],
                               barrier=full[k % num_stages], cluster_mask=0b11)
                    T.tma_copy(B[bn * block_N:(bn + 1) * block_N, k * block_K:(k + 1) * block_K], b_s[k % num_stages, :, :],
                               barrier=full[k % num_stages])
                    T.mbarrier_arrive(full[k % num_stages])

            with T.ws(1):
                T.set_max_nreg(240, 1)
                T.clear(acc)
                for k in T.serial(steps):
                    T.mbarrier_wait_parity(full[k % num_stages], k // num_stages % 2)
                    T.gemm(a_s[k % num_stages, :, :], b_s[k % num_stages, :, :], acc, transpose_B=True)
                    T.mbarrier_arrive(empty[k % num_stages], 0)
                    T.mbarrier_arrive(empty[k % num_stages], 1)
                T.copy(acc, c_s)
                T.copy(c_s, C[bm * block_M:(bm + 1) * block_M, bn * block_N:(bn + 1) * block_N])

            T.cluster_sync()  # no CTA may end while the other can still arrive at its barriers

    return gemm_cluster_kernel
