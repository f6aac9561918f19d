"""Y = silu(X @ Wgate^T) * (X @ Wup^T): both products of a tile in one CTA, so that neither is stored."""

import tilelang.language as T


def gated(M, N, K, block_M=128, block_N=64, block_K=64, num_stages=3, threads=256, strip=0,
          dtype="bfloat16"):
    """X: [M, K], W: [2, N, K] (gate, up), Y: [M, N]. Tiles are walked in strips `strip` wide; 0: row by row."""
    policy = T.GemmWarpPolicy.FullCol if block_M < 64 else T.GemmWarpPolicy.Square

    @T.prim_func
    def gated_kernel(X: T.Tensor((M, K), dtype), W: T.Tensor((2, N, K), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bn, bm):
            x_s = T.alloc_shared((block_M, block_K), dtype)
            gate_s = T.alloc_shared((block_N, block_K), dtype)
            up_s = T.alloc_shared((block_N, block_K), dtype)
            gate = T.alloc_fragment((block_M, block_N), "float32")
            up = T.alloc_fragment((block_M, block_N), "float32")
            if strip > 0:
                T.use_swizzle(strip)
            T.clear(gate)
            T.clear(up)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(X[bm * block_M, k * block_K], x_s)
                T.copy(W[0, bn * block_N:(bn + 1) * block_N, k * block_K:(k + 1) * block_K], gate_s)
                T.copy(W[1, bn * block_N:(bn + 1) * block_N, k * block_K:(k + 1) * block_K], up_s)
                T.gemm(x_s, gate_s, gate, transpose_B=True, policy=policy)
                T.gemm(x_s, up_s, up, transpose_B=True, policy=policy)
            for i, j in T.Parallel(block_M, block_N):
                gate[i, j] = gate[i, j] / (1.0 + T.exp(-gate[i, j])) * up[i, j]
            T.copy(gate, Y[bm * block_M, bn * block_N])

    return gated_kernel
