"""Y = X / rms(X) * G, a CTA for each row."""

import tilelang.language as T


def rmsnorm(M, N, threads=128, eps=1e-6, dtype="bfloat16"):
    """X, Y: [M, N]; G: [N]. A row stays in registers."""

    @T.prim_func
    def rmsnorm_kernel(X: T.Tensor((M, N), dtype), G: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=threads) as row:
            x = T.alloc_fragment((1, N), dtype)
            square = T.alloc_fragment((1, N), "float32")
            scale = T.alloc_fragment((1,), "float32")
            T.copy(X[row:row + 1, :], x)
            for i, j in T.Parallel(1, N):
                square[i, j] = x[i, j].astype("float32") * x[i, j].astype("float32")
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(1):
                scale[i] = T.rsqrt(scale[i] / N + eps)
            for i, j in T.Parallel(1, N):
                Y[row + i, j] = x[i, j] * scale[i] * G[j]

    return rmsnorm_kernel
