"""The expert layers of a mixture-of-experts model as one grouped GEMM: rows are sorted by expert, each row tile belongs to one.

The router decides at run time which expert gets how many rows. The kernel learns it from three small integer tensors, one entry a
row tile; the launch covers the worst case, and tiles beyond the last one end at once. A prediction needs those tensors:

    import gtsim
    from moe_grouped_gemm import moe_gemm, routing, tiles_of

    rows = routing(tokens=1024, skew=0.5)                   # rows of each expert, half of them on the hottest
    predict = gtsim.predict(moe_gemm, hw="h100_sxm", metadata=tiles_of(rows))
    predict(tokens=1024, projection="up").report()

From the shell: save them with `numpy.savez("routing.npz", **tiles_of(rows))` and pass `--metadata routing.npz`. Or run this file
with Python: Mixtral 8x7B (8 experts, two a token, 4096 x 14336), balanced and skewed, up and down projection.
"""

import numpy as np
import tilelang.language as T

HIDDEN, INNER, EXPERTS, TOP_K = 4096, 14336, 8, 2  # Mixtral 8x7B
ROWS = 128  # rows of a tile


def routing(tokens=1024, skew=0.0, experts=EXPERTS, top_k=TOP_K):
    """Rows of each expert. `skew` is the share of all rows on the first expert; 0 spreads them evenly."""
    total = tokens * top_k
    hottest = round(total * skew) if skew else -(-total // experts)
    if not 0 <= hottest <= total or experts < 2:
        raise ValueError(f"skew must be between 0 and 1 and there must be two experts, got {skew} and {experts}")
    rest = total - hottest
    return [hottest] + [rest // (experts - 1) + (i < rest % (experts - 1)) for i in range(experts - 1)]


def launch_tiles(tokens, experts=EXPERTS, top_k=TOP_K, block_M=ROWS):
    """Row tiles that are enough for every routing: one partly filled tile an expert."""
    return -(-tokens * top_k // block_M) + experts


def tiles_of(rows, block_M=ROWS):
    """The kernel's metadata: expert, first row and number of rows of each launched tile. Unused tiles have no rows."""
    count = -(-sum(rows) // block_M) + len(rows)
    expert, start, filled = (np.zeros(count, dtype=np.int32) for _ in range(3))
    at = first = 0
    for owner, n in enumerate(rows):
        for low in range(0, n, block_M):
            expert[at], start[at], filled[at] = owner, first + low, min(block_M, n - low)
            at += 1
        first += n
    return {"tile_expert": expert, "tile_start": start, "tile_rows": filled}


def moe_gemm(tokens=1024, projection="up", experts=EXPERTS, top_k=TOP_K, hidden=HIDDEN, inner=INNER, block_N=128, block_K=64,
             num_stages=3, threads=256, dtype="bfloat16"):
    """`projection` "up" multiplies [rows, hidden] by [hidden, inner] of the row's expert, "down" the other way."""
    K, N = (hidden, inner) if projection == "up" else (inner, hidden)
    rows, tiles, block_M = tokens * top_k, launch_tiles(tokens, experts, top_k), ROWS

    @T.prim_func
    def moe_gemm_kernel(X: T.Tensor((rows, K), dtype), W: T.Tensor((experts, K, N), dtype),
                        tile_expert: T.Tensor((tiles,), "int32"), tile_start: T.Tensor((tiles,), "int32"),
                        tile_rows: T.Tensor((tiles,), "int32"), Y: T.Tensor((rows, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), tiles, threads=threads) as (bn, bt):
            x_s = T.alloc_shared((block_M, block_K), dtype)
            w_s = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            expert, start, filled = tile_expert[bt], tile_start[bt], tile_rows[bt]
            if filled > 0:
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(X[start:start + block_M, k * block_K:(k + 1) * block_K], x_s)
                    T.copy(W[expert, k * block_K:(k + 1) * block_K, bn * block_N:(bn + 1) * block_N], w_s)
                    T.gemm(x_s, w_s, acc)
                for i, j in T.Parallel(block_M, block_N):
                    if i < filled:
                        Y[start + i, bn * block_N + j] = acc[i, j]

    return moe_gemm_kernel


if __name__ == "__main__":
    import gtsim

    print(f"{'tokens':>6} {'routing':10} {'projection':10} {'us':>8} {'TFLOP/s':>8}")
    for tokens in (128, 1024, 4096):
        for skew in (0.0, 0.5):
            rows = routing(tokens, skew)
            for projection in ("up", "down"):
                result = gtsim.predict(moe_gemm, hw="h100_sxm", metadata=tiles_of(rows))(tokens=tokens, projection=projection)
                useful = 2 * sum(rows) * HIDDEN * INNER / result.time_us / 1e6
                print(f"{tokens:6} {'skewed' if skew else 'balanced':10} {projection:10} {result.time_us:8.0f} {useful:8.0f}")
