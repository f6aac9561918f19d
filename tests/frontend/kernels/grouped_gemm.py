"""MoE grouped GEMM: tokens sorted by expert, per-expert row counts in device tensors.

Grid.x covers the worst-case number of M tiles; `tile_expert` maps a tile to its expert and
`tile_row` / `tile_rows` give the first row and number of valid rows of the tile (data-dependent).
Tiles past the last one have tile_rows == 0 and do nothing.
"""

import tilelang.language as T


def make(tokens=2048, experts=8, N=14336, K=4096, block_M=128, block_N=128, block_K=64,
         num_stages=2, threads=128, dtype="float16", accum_dtype="float32"):
    tiles = -(-tokens // block_M) + experts

    @T.prim_func
    def grouped_gemm(A: T.Tensor((tokens, K), dtype), W: T.Tensor((experts, K, N), dtype),
                     tile_expert: T.Tensor((tiles,), "int32"), tile_row: T.Tensor((tiles,), "int32"),
                     tile_rows: T.Tensor((tiles,), "int32"), C: T.Tensor((tokens, N), dtype)):
        with T.Kernel(tiles, T.ceildiv(N, block_N), threads=threads) as (tm, tn):
            a_s = T.alloc_shared((block_M, block_K), dtype)
            b_s = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), accum_dtype)
            e = tile_expert[tm]
            r0 = tile_row[tm]
            rows = tile_rows[tm]
            T.clear(acc)
            if rows > 0:
                for kt in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[r0:r0 + block_M, kt * block_K:(kt + 1) * block_K], a_s)
                    T.copy(W[e, kt * block_K:(kt + 1) * block_K, tn * block_N:(tn + 1) * block_N], b_s)
                    T.gemm(a_s, b_s, acc)
                for i, j in T.Parallel(block_M, block_N):
                    if i < rows:
                        C[r0 + i, tn * block_N + j] = acc[i, j]

    return grouped_gemm
