"""Y = X / rms(X) * G, whole rows in registers, a block of rows a CTA."""

import tilelang.language as T


def rms_norm(M=8192, N=4096, block_M=1, threads=128, dtype="bfloat16"):
    """X is [M, N]; `block_M` rows a CTA."""

    @T.prim_func
    def rms_norm_kernel(X: T.Tensor((M, N), dtype), G: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bm:
            x = T.alloc_fragment((block_M, N), dtype)
            square = T.alloc_fragment((block_M, N), "float32")
            scale = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bm * block_M:(bm + 1) * block_M, :], x)
            for i, j in T.Parallel(block_M, N):
                square[i, j] = x[i, j].astype("float32") * x[i, j].astype("float32")
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(block_M):
                scale[i] = T.rsqrt(scale[i] / N + 1e-6)
            for i, j in T.Parallel(block_M, N):
                Y[bm * block_M + i, j] = x[i, j] * scale[i] * G[j]

    return rms_norm_kernel
