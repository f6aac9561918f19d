"""Hopper GEMM without warp roles: all warps multiply, loads run ahead through a ring of tiles, products run behind by one.

With `num_stages` 1 nothing runs ahead: load, wait, multiply, wait. That is the ladder of Gluon's tutorials.
"""

import tilelang.language as T


def gemm_async(M=8192, N=8192, K=8192, block_M=128, block_N=256, block_K=64, num_stages=3, threads=256, in_flight=0, workers=0,
               group=0, overlapped=False, staged=True, dtype="float16"):
    """A [M, K] times B [K, N].

    Args:
        num_stages: slots of the ring; `num_stages - 1` loads run ahead.
        in_flight: products that may still run when the next load is issued (0 or 1).
        workers: persistent CTAs; one CTA a tile if 0.
        group: CTAs take tiles in groups of so many rows of tiles, rows fastest inside; column by column if 0.
        overlapped: loads of the next tile are issued before the result of this one leaves.
        staged: the result goes through shared memory by TMA; straight from registers otherwise.
    """
    rows, columns, steps = (M + block_M - 1) // block_M, (N + block_N - 1) // block_N, (K + block_K - 1) // block_K
    tiles = rows * columns
    ctas = min(workers, tiles) if workers else tiles
    ahead = min(num_stages - 1, steps)

    def row_of(tile):
        return tile % rows if group == 0 else tile // (group * columns) * group + tile % group

    def column_of(tile):
        return tile // rows if group == 0 else tile % (group * columns) // group

    @T.macro
    def load(A, B, a_s, b_s, full, step, tile, k):
        T.tma_copy(A[row_of(tile) * block_M:(row_of(tile) + 1) * block_M, k * block_K:(k + 1) * block_K],
                   a_s[step % num_stages, :, :], barrier=full[step % num_stages])
        T.tma_copy(B[k * block_K:(k + 1) * block_K, column_of(tile) * block_N:(column_of(tile) + 1) * block_N],
                   b_s[step % num_stages, :, :], barrier=full[step % num_stages])
        T.mbarrier_arrive(full[step % num_stages])

    @T.prim_func
    def gemm_async_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(ctas, threads=threads) as worker:
            a_s = T.alloc_shared((num_stages, block_M, block_K), dtype)
            b_s = T.alloc_shared((num_stages, block_K, block_N), dtype)
            if staged:
                c_s = T.alloc_shared((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            full = T.alloc_barrier([threads] * num_stages)

            for t in T.serial((tiles - worker + ctas - 1) // ctas):
                tile = worker + t * ctas
                first = t * steps
                if not overlapped or t == 0:
                    for k in T.serial(ahead):
                        load(A, B, a_s, b_s, full, first + k, tile, k)
                for k in T.serial(steps):
                    step = first + k
                    if num_stages == 1:
                        load(A, B, a_s, b_s, full, step, tile, k)
                    T.mbarrier_wait_parity(full[step % num_stages], step // num_stages % 2)
                    T.wgmma_gemm(a_s[step % num_stages, :, :], b_s[step % num_stages, :, :], acc, clear_accum=(k == 0))
                    T.wait_wgmma(in_flight)
                    T.sync_threads()
                    if num_stages > 1:
                        if k + ahead < steps:
                            load(A, B, a_s, b_s, full, step + ahead, tile, k + ahead)
                        elif overlapped and tile + ctas < tiles:
                            load(A, B, a_s, b_s, full, step + ahead, tile + ctas, k + ahead - steps)
                T.wait_wgmma(0)
                if staged:
                    T.copy(acc, c_s)
                    T.copy(c_s, C[row_of(tile) * block_M:(row_of(tile) + 1) * block_M,
                                  column_of(tile) * block_N:(column_of(tile) + 1) * block_N])
                else:
                    T.copy(acc, C[row_of(tile) * block_M:(row_of(tile) + 1) * block_M,
                                  column_of(tile) * block_N:(column_of(tile) + 1) * block_N])

    return gemm_async_kernel
