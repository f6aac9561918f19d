"""A persistent GEMM: as many CTAs as the GPU has SMs, each takes one output tile after the other.

    gtsim predict examples/gemm_persistent.py --arg M=8192 --arg N=8192 --arg K=8192
    gtsim predict examples/gemm_persistent.py --arg workers=108 --hw a100_sxm

Or run this file with Python.
"""

import tilelang.language as T


def gemm_persistent(M=4096, N=4096, K=4096, workers=132, block_M=128, block_N=128, block_K=64, num_stages=3, threads=256,
                    dtype="float16"):
    """A [M, K] times B [K, N]."""

    @T.prim_func
    def gemm_persistent_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(workers, threads=threads) as worker:
            a_s = T.alloc_shared((block_M, block_K), dtype)
            b_s = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            for row, column in T.Persistent([T.ceildiv(M, block_M), T.ceildiv(N, block_N)], workers, worker):
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[row * block_M, k * block_K], a_s)
                    T.copy(B[k * block_K, column * block_N], b_s)
                    T.gemm(a_s, b_s, acc)
                T.copy(acc, C[row * block_M, column * block_N])

    return gemm_persistent_kernel


if __name__ == "__main__":
    import gtsim

    gtsim.predict(hw="h100_sxm")(gemm_persistent)(4096, 4096, 4096).report()
