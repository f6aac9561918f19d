"""Hopper FP8 GEMM with scales for each 128 of K, as DeepSeek-V3 trains: warp roles, two consumers, persistent, clusters of two.

The sum of each 128 of K is multiplied by a scale for each row of A and one for each 128 rows of B, and added to the total in
registers. The CTAs of a pair take tiles next to each other in M and share the tile of B.
"""

import tilelang.language as T


def gemm_fp8_scaled(M=4096, N=4096, K=7168, block_M=128, block_N=128, num_stages=5, workers=132, group=16, cluster=2,
                    dtype="float8_e4m3fn", out_dtype="bfloat16"):
    """A [M, K] times B stored [N, K]; 128 of K a step.

    Args:
        workers: persistent CTAs.
        group: they take tiles in groups of so many rows of tiles, a row of tiles fastest inside.
        cluster: CTAs of a cluster, 1 or 2.
    """
    block_K = 128
    rows, columns, steps = (M + block_M - 1) // block_M, (N + block_N - 1) // block_N, (K + block_K - 1) // block_K
    tiles = rows * columns
    ctas = min(workers, tiles) // cluster * cluster
    half, part, both = block_M // 2, block_N // cluster, (1 << cluster) - 1

    def row_of(tile):
        return tile // (group * columns) * group + tile % group

    def column_of(tile):
        return tile % (group * columns) // group

    @T.macro
    def consume(which, a_s, b_s, sa_s, sb_s, c_s, SB, C, full, empty, worker):
        total = T.alloc_fragment((half, block_N), "float32")
        part_sum = T.alloc_fragment((half, block_N), "float32")
        for t in T.serial((tiles - worker + ctas - 1) // ctas):
            tile = worker + t * ctas
            for k in T.Parallel(steps):
                sb_s[which, k] = SB[column_of(tile) * block_N // 128, k]
            T.clear(total)
            for k in T.serial(steps):
                step = t * steps + k
                slot = step % num_stages
                T.mbarrier_wait_parity(full[slot], step // num_stages % 2)
                T.wgmma_gemm(a_s[slot, which * half:(which + 1) * half, :], b_s[slot, :, :], part_sum, transpose_B=True,
                             clear_accum=True)
                T.wait_wgmma(0)
                for i, j in T.Parallel(half, block_N):
                    total[i, j] += part_sum[i, j] * (sa_s[slot, which * half + i] * sb_s[which, k])
                T.mbarrier_arrive(empty[slot], 0)
                if cluster == 2:
                    T.mbarrier_arrive(empty[slot], 1)
            first = row_of(tile) * block_M + which * half
            T.copy(total, c_s[which * half:(which + 1) * half, :])
            T.copy(c_s[which * half:(which + 1) * half, :],
                   C[first:first + half, column_of(tile) * block_N:(column_of(tile) + 1) * block_N])

    @T.prim_func
    def gemm_fp8_scaled_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), SA: T.Tensor((steps, M), "float32"),
                               SB: T.Tensor(((N + 127) // 128, steps), "float32"), C: T.Tensor((M, N), out_dtype)):
        with T.ClusterKernel(ctas, threads=384, cluster_dims=(cluster, 1, 1)) as worker:
            a_s = T.alloc_shared((num_stages, block_M, block_K), dtype)
            b_s = T.alloc_shared((num_stages, block_N, block_K), dtype)
            sa_s = T.alloc_shared((num_stages, block_M), "float32")
            sb_s = T.alloc_shared((2, steps), "float32")
            c_s = T.alloc_shared((block_M, block_N), out_dtype)
            full = T.alloc_barrier([128] * num_stages)
            empty = T.alloc_cluster_barrier([cluster * 256] * num_stages)

            with T.ws(0):
                T.set_max_nreg(40, 0)
                for t in T.serial((tiles - worker + ctas - 1) // ctas):
                    tile = worker + t * ctas
                    for k in T.serial(steps):
                        step = t * steps + k
                        slot = step % num_stages
                        T.mbarrier_wait_parity(empty[slot], step // num_stages % 2 ^ 1)
                        T.tma_copy(A[row_of(tile) * block_M:(row_of(tile) + 1) * block_M, k * block_K:(k + 1) * block_K],
                                   a_s[slot, :, :], barrier=full[slot])
                        T.tma_copy(SA[k, row_of(tile) * block_M:(row_of(tile) + 1) * block_M], sa_s[slot, :], barrier=full[slot])
                        if cluster == 2:
                            own = worker % 2
                            at = column_of(tile) * block_N + own * part
                            T.tma_copy(B[at:at + part, k * block_K:(k + 1) * block_K],
                                       b_s[slot, own * part:(own + 1) * part, :], barrier=full[slot], cluster_mask=both)
                        else:
                            at = column_of(tile) * block_N
                            T.tma_copy(B[at:at + block_N, k * block_K:(k + 1) * block_K], b_s[slot, :, :], barrier=full[slot])
                        T.mbarrier_arrive(full[slot])
            with T.ws(1):
                T.set_max_nreg(232, 1)
                consume(0, a_s, b_s, sa_s, sb_s, c_s, SB, C, full, empty, worker)
            with T.ws(2):
                T.set_max_nreg(232, 1)
                consume(1, a_s, b_s, sa_s, sb_s, c_s, SB, C, full, empty, worker)
            if cluster == 2:
                T.cluster_sync()  # no CTA may end while the other can still arrive at its barriers

    return gemm_fp8_scaled_kernel
