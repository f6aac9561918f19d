"""Y = X / rms(X) * G, a CTA for each block of rows.

    gtsim predict examples/rmsnorm.py --arg N=16384 --arg chunk=2048
"""

import tilelang.language as T


def rmsnorm(M=8192, N=8192, block_M=1, chunk=0, threads=128, eps=1e-6, dtype="float16"):
    """`chunk` = 0 keeps whole rows in registers; otherwise rows stream through shared memory twice, `chunk` columns at a time."""

    @T.prim_func
    def rmsnorm_kernel(X: T.Tensor((M, N), dtype), G: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bm:
            scale = T.alloc_fragment((block_M,), "float32")
            if chunk == 0:
                x = T.alloc_fragment((block_M, N), dtype)
                square = T.alloc_fragment((block_M, N), "float32")
                T.copy(X[bm * block_M:(bm + 1) * block_M, :], x)
                for i, j in T.Parallel(block_M, N):
                    square[i, j] = x[i, j].astype("float32") * x[i, j].astype("float32")
                T.reduce_sum(square, scale, dim=1)
                for i in T.Parallel(block_M):
                    scale[i] = T.rsqrt(scale[i] / N + eps)
                for i, j in T.Parallel(block_M, N):
                    Y[bm * block_M + i, j] = x[i, j] * scale[i] * G[j]
            else:
                x_s = T.alloc_shared((block_M, chunk), dtype)
                square = T.alloc_fragment((block_M, chunk), "float32")
                T.clear(square)
                for c in T.serial(N // chunk):
                    T.copy(X[bm * block_M:(bm + 1) * block_M, c * chunk:(c + 1) * chunk], x_s)
                    for i, j in T.Parallel(block_M, chunk):
                        square[i, j] += x_s[i, j].astype("float32") * x_s[i, j].astype("float32")
                T.reduce_sum(square, scale, dim=1)
                for i in T.Parallel(block_M):
                    scale[i] = T.rsqrt(scale[i] / N + eps)
                for c in T.serial(N // chunk):
                    T.copy(X[bm * block_M:(bm + 1) * block_M, c * chunk:(c + 1) * chunk], x_s)
                    for i, j in T.Parallel(block_M, chunk):
                        Y[bm * block_M + i, c * chunk + j] = x_s[i, j] * scale[i] * G[c * chunk + j]

    return rmsnorm_kernel
