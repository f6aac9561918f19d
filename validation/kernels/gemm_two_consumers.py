"""Hopper GEMM with warp roles as fast hand-written ones have it: a producer, two consumers, persistent, in clusters of two.

The consumers take half of the rows of a tile each and leave one product running. The CTAs of a pair take tiles below each other
and share the tile of B: each loads half of it into both.
"""

import tilelang.language as T


def gemm_two_consumers(M=8192, N=8192, K=8192, block_M=128, block_N=256, block_K=64, num_stages=3, workers=132, group=8,
                       cluster=1, tma_store=True, dtype="bfloat16"):
    """A [M, K] times B stored [N, K].

    Args:
        workers: persistent CTAs.
        group: they take tiles in groups of so many rows of tiles, a row of tiles fastest inside.
        cluster: CTAs of a cluster, 1 or 2.
        tma_store: results leave through shared memory by TMA; straight from registers otherwise.
    """
    rows, columns, steps = (M + block_M - 1) // block_M, (N + block_N - 1) // block_N, (K + block_K - 1) // block_K
    tiles = rows * columns
    ctas = min(workers, tiles) // cluster * cluster
    half = block_M // 2
    part = block_N // cluster
    both = (1 << cluster) - 1

    def row_of(tile):
        return tile // (group * columns) * group + tile % group

    def column_of(tile):
        return tile % (group * columns) // group

    @T.macro
    def consume(which, a_s, b_s, c_s, C, full, empty, worker):
        acc = T.alloc_fragment((half, block_N), "float32")
        for t in T.serial((tiles - worker + ctas - 1) // ctas):
            tile = worker + t * ctas
            for k in T.serial(steps):
                step = t * steps + k
                T.mbarrier_wait_parity(full[step % num_stages], step // num_stages % 2)
                T.wgmma_gemm(a_s[step % num_stages, which * half:(which + 1) * half, :], b_s[step % num_stages, :, :], acc,
                             transpose_B=True, clear_accum=(k == 0))
                if k > 0:
                    T.wait_wgmma(1)
                    T.mbarrier_arrive(empty[(step - 1) % num_stages], 0)
                    if cluster == 2:
                        T.mbarrier_arrive(empty[(step - 1) % num_stages], 1)
            T.wait_wgmma(0)
            T.mbarrier_arrive(empty[(t * steps + steps - 1) % num_stages], 0)
            if cluster == 2:
                T.mbarrier_arrive(empty[(t * steps + steps - 1) % num_stages], 1)
            first = row_of(tile) * block_M + which * half
            if tma_store:
                T.copy(acc, c_s[which * half:(which + 1) * half, :])
                T.copy(c_s[which * half:(which + 1) * half, :],
                       C[first:first + half, column_of(tile) * block_N:(column_of(tile) + 1) * block_N])
            else:
                T.copy(acc, C[first:first + half, column_of(tile) * block_N:(column_of(tile) + 1) * block_N])

    @T.prim_func
    def gemm_two_consumers_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), dtype)):
        with T.ClusterKernel(ctas, threads=384, cluster_dims=(cluster, 1, 1)) as worker:
            a_s = T.alloc_shared((num_stages, block_M, block_K), dtype)
            b_s = T.alloc_shared((num_stages, block_N, block_K), dtype)
            c_s = T.alloc_shared((block_M, block_N), dtype)
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
                consume(0, a_s, b_s, c_s, C, full, empty, worker)
            with T.ws(2):
                T.set_max_nreg(232, 1)
                consume(1, a_s, b_s, c_s, C, full, empty, worker)
            if cluster == 2:
                T.cluster_sync()  # no CTA may end while the other can still arrive at its barriers

    return gemm_two_consumers_kernel
