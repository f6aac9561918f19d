"""Stream-K GEMM: `workers` persistent CTAs share the global (tile, k) iteration space evenly.

Each CTA walks its contiguous range of MAC iterations; the number of output tiles it touches and
the k range inside each tile depend on blockIdx, so trip counts are symbolic in the CTA index.
Partial tiles are combined with atomic adds.
"""

import tilelang.language as T


def make(M=768, N=1024, K=2048, workers=132, block_M=128, block_N=128, block_K=64,
         num_stages=3, threads=128, dtype="float16", accum_dtype="float32"):
    tiles_n = -(-N // block_N)
    tiles_m = -(-M // block_M)
    ipt = -(-K // block_K)  # k iterations per tile
    total = tiles_m * tiles_n * ipt
    per = -(-total // workers)  # iterations per worker
    max_tiles = (per + ipt - 2) // ipt + 1

    @T.prim_func
    def gemm_streamk(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype),
                     C: T.Tensor((M, N), accum_dtype)):
        with T.Kernel(workers, threads=threads) as w:
            a_s = T.alloc_shared((block_M, block_K), dtype)
            b_s = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), accum_dtype)
            first = w * per
            last = T.min(first + per, total)
            for t in T.serial(max_tiles):
                tile = first // ipt + t
                k_lo = T.max(first - tile * ipt, 0)
                k_hi = T.min(last - tile * ipt, ipt)
                if k_hi > k_lo:
                    T.clear(acc)
                    for kt in T.Pipelined(k_hi - k_lo, num_stages=num_stages):
                        T.copy(A[(tile // tiles_n) * block_M, (k_lo + kt) * block_K], a_s)
                        T.copy(B[(k_lo + kt) * block_K, (tile % tiles_n) * block_N], b_s)
                        T.gemm(a_s, b_s, acc)
                    T.atomic_add(C[(tile // tiles_n) * block_M, (tile % tiles_n) * block_N], acc)

    return gemm_streamk
