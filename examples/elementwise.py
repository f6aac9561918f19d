"""Z = max(X + Y, 0), element by element: what memory bandwidth allows and no more.

    gtsim predict examples/elementwise.py --arg M=8192 --arg staged=true
"""

import tilelang.language as T


def add_relu(M=4096, N=4096, block_M=32, block_N=256, threads=256, staged=False, dtype="float16"):
    """With `staged`, tiles pass through shared memory; otherwise straight through registers."""

    @T.prim_func
    def add_relu_kernel(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype), Z: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bn, bm):
            if staged:
                x_s = T.alloc_shared((block_M, block_N), dtype)
                y_s = T.alloc_shared((block_M, block_N), dtype)
                z = T.alloc_fragment((block_M, block_N), dtype)
                T.copy(X[bm * block_M, bn * block_N], x_s)
                T.copy(Y[bm * block_M, bn * block_N], y_s)
                for i, j in T.Parallel(block_M, block_N):
                    z[i, j] = T.max(x_s[i, j] + y_s[i, j], 0)
                T.copy(z, Z[bm * block_M, bn * block_N])
            else:
                for i, j in T.Parallel(block_M, block_N):
                    Z[bm * block_M + i, bn * block_N + j] = T.max(
                        X[bm * block_M + i, bn * block_N + j] + Y[bm * block_M + i, bn * block_N + j], 0)

    return add_relu_kernel
