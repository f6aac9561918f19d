"""Y = X @ W^T, plus a residual if asked for."""

import tilelang.language as T


def linear(M, N, K, residual=False, block_M=128, block_N=128, block_K=64, num_stages=3, threads=256, strip=0,
           dtype="bfloat16"):
    """X: [M, K], W: [N, K], Y: [M, N]; R, of the shape of Y, is added with `residual`, and not read without. Tiles are walked in
    strips `strip` wide; 0: row by row."""
    policy = T.GemmWarpPolicy.FullCol if block_M < 64 else T.GemmWarpPolicy.Square

    @T.prim_func
    def linear_kernel(X: T.Tensor((M, K), dtype), W: T.Tensor((N, K), dtype), R: T.Tensor((M, N), dtype),
                      Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bn, bm):
            x_s = T.alloc_shared((block_M, block_K), dtype)
            w_s = T.alloc_shared((block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            if strip > 0:
                T.use_swizzle(strip)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(X[bm * block_M, k * block_K], x_s)
                T.copy(W[bn * block_N, k * block_K], w_s)
                T.gemm(x_s, w_s, acc, transpose_B=True, policy=policy)
            if residual:
                for i, j in T.Parallel(block_M, block_N):
                    if bm * block_M + i < M and bn * block_N + j < N:
                        acc[i, j] += R[bm * block_M + i, bn * block_N + j]
            T.copy(acc, Y[bm * block_M, bn * block_N])

    return linear_kernel
