"""What stands around the experts: choice of experts, rows sorted by expert, and their weighted sum. Kept simple."""

import tilelang.language as T


def choose(M, experts, top_k, threads=128, dtype="bfloat16"):
    """The `top_k` largest of each row of L: [M, experts]; P: their softmax, [M, top_k]. A CTA takes one row."""

    @T.prim_func
    def choose_kernel(L: T.Tensor((M, experts), dtype), P: T.Tensor((M, top_k), "float32")):
        with T.Kernel(M, threads=threads) as row:
            x = T.alloc_fragment((1, experts), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            first = T.alloc_fragment((1,), "float32")
            T.copy(L[row:row + 1, :], x)
            T.clear(total)
            T.reduce_max(x, first, dim=1)
            for n in T.serial(top_k):
                T.reduce_max(x, top, dim=1)
                for i in T.Parallel(1):
                    total[i] += T.exp(top[i] - first[i])
                    P[row + i, n] = T.exp(top[i] - first[i])
                for i, j in T.Parallel(1, experts):
                    x[i, j] = T.if_then_else(x[i, j] == top[i], -T.infinity("float32"), x[i, j])
            for j in T.Parallel(top_k):
                P[row, j] = P[row, j] / total[0]

    return choose_kernel


def gather(M, rows, N, threads=128, dtype="bfloat16"):
    """Y[i] = X[source[i]]: the rows of each expert behind each other. X: [M, N], Y: [rows, N]."""

    @T.prim_func
    def gather_kernel(X: T.Tensor((M, N), dtype), source: T.Tensor((rows,), "int32"), Y: T.Tensor((rows, N), dtype)):
        with T.Kernel(rows, threads=threads) as row:
            token = source[row]
            for j in T.Parallel(N):
                Y[row, j] = X[token, j]

    return gather_kernel


def scatter(M, rows, N, top_k, threads=128, dtype="bfloat16"):
    """Y[i] = R[i] + sum over n of P[i, n] * X[place[i, n]]. X: [rows, N]; R, Y: [M, N]; P: [M, top_k]. A CTA sums one row."""

    @T.prim_func
    def scatter_kernel(X: T.Tensor((rows, N), dtype), place: T.Tensor((M, top_k), "int32"), P: T.Tensor((M, top_k), "float32"),
                       R: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=threads) as row:
            total = T.alloc_fragment((N,), "float32")
            T.copy(R[row, :], total)
            for n in T.serial(top_k):
                at = place[row, n]
                for j in T.Parallel(N):
                    total[j] += P[row, n] * X[at, j]
            T.copy(total, Y[row, :])

    return scatter_kernel
