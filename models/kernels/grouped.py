"""Projections of a mixture of experts: rows stand sorted by expert, and each tile of rows belongs to one.

Three integer tensors say which expert a tile has, where its rows start and how many there are; a prediction needs them
(gtsim/models/routing.py makes them).
"""

import tilelang.language as T


def grouped_linear(rows, N, K, experts, tiles, block_M=128, block_N=128, block_K=64, num_stages=3, threads=256, dtype="bfloat16"):
    """X: [rows, K], W: [experts, N, K], Y: [rows, N]; row tiles with their experts are given."""
    policy = T.GemmWarpPolicy.FullCol if block_M < 64 else T.GemmWarpPolicy.Square

    @T.prim_func
    def grouped_linear_kernel(X: T.Tensor((rows, K), dtype), W: T.Tensor((experts, N, K), dtype),
                              tile_expert: T.Tensor((tiles,), "int32"), tile_start: T.Tensor((tiles,), "int32"),
                              tile_rows: T.Tensor((tiles,), "int32"), Y: T.Tensor((rows, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), tiles, threads=threads) as (bn, bt):
            x_s = T.alloc_shared((block_M, block_K), dtype)
            w_s = T.alloc_shared((block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            expert, start, filled = tile_expert[bt], tile_start[bt], tile_rows[bt]
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(X[start:start + block_M, k * block_K:(k + 1) * block_K], x_s)
                T.copy(W[expert, bn * block_N:(bn + 1) * block_N, k * block_K:(k + 1) * block_K], w_s)
                T.gemm(x_s, w_s, acc, transpose_B=True, policy=policy)
            for i, j in T.Parallel(block_M, block_N):
                if i < filled:
                    Y[start + i, bn * block_N + j] = acc[i, j]

    return grouped_linear_kernel


def grouped_gated(rows, N, K, experts, tiles, block_M=128, block_N=64, block_K=64, num_stages=3, threads=256, dtype="bfloat16"):
    """X: [rows, K], W: [experts, 2, N, K] (gate, up), Y: [rows, N]: silu of the one product times the other."""
    policy = T.GemmWarpPolicy.FullCol if block_M < 64 else T.GemmWarpPolicy.Square

    @T.prim_func
    def grouped_gated_kernel(X: T.Tensor((rows, K), dtype), W: T.Tensor((experts, 2, N, K), dtype),
                             tile_expert: T.Tensor((tiles,), "int32"), tile_start: T.Tensor((tiles,), "int32"),
                             tile_rows: T.Tensor((tiles,), "int32"), Y: T.Tensor((rows, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), tiles, threads=threads) as (bn, bt):
            x_s = T.alloc_shared((block_M, block_K), dtype)
            gate_s = T.alloc_shared((block_N, block_K), dtype)
            up_s = T.alloc_shared((block_N, block_K), dtype)
            gate = T.alloc_fragment((block_M, block_N), "float32")
            up = T.alloc_fragment((block_M, block_N), "float32")
            expert, start, filled = tile_expert[bt], tile_start[bt], tile_rows[bt]
            T.clear(gate)
            T.clear(up)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(X[start:start + block_M, k * block_K:(k + 1) * block_K], x_s)
                T.copy(W[expert, 0, bn * block_N:(bn + 1) * block_N, k * block_K:(k + 1) * block_K], gate_s)
                T.copy(W[expert, 1, bn * block_N:(bn + 1) * block_N, k * block_K:(k + 1) * block_K], up_s)
                T.gemm(x_s, gate_s, gate, transpose_B=True, policy=policy)
                T.gemm(x_s, up_s, up, transpose_B=True, policy=policy)
            for i, j in T.Parallel(block_M, block_N):
                gate[i, j] = gate[i, j] / (1.0 + T.exp(-gate[i, j])) * up[i, j]
            for i, j in T.Parallel(block_M, block_N):
                if i < filled:
                    Y[start + i, bn * block_N + j] = gate[i, j]

    return grouped_gated_kernel
