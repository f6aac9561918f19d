"""C = A @ B, fp16 in and out: tiles through shared memory, a software pipeline over K.

On Hopper the compiler turns the pipeline into a warp group that loads and warp groups that multiply.

    gtsim predict examples/gemm.py --arg M=4096 --arg N=4096 --arg K=4096
    gtsim predict examples/gemm.py --arg block_M=64 --arg num_stages=4 --hw a100_sxm

Or run this file with Python.
"""

import tilelang.language as T


def gemm(M=4096, N=4096, K=4096, block_M=128, block_N=128, block_K=64, num_stages=3, threads=256, swizzle=0, dtype="float16"):
    """`threads` count the multiplying ones; `swizzle` > 0 walks the tiles in strips that many tiles wide."""

    @T.prim_func
    def gemm_kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bn, bm):
            a_s = T.alloc_shared((block_M, block_K), dtype)
            b_s = T.alloc_shared((block_K, block_N), dtype)
            c_s = T.alloc_shared((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            if swizzle > 0:
                T.use_swizzle(swizzle)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[bm * block_M, k * block_K], a_s)
                T.copy(B[k * block_K, bn * block_N], b_s)
                T.gemm(a_s, b_s, acc)
            T.copy(acc, c_s)
            T.copy(c_s, C[bm * block_M, bn * block_N])

    return gemm_kernel


if __name__ == "__main__":
    import gtsim

    predicted = gtsim.predict(gemm, hw="h100_sxm")
    predicted(4096, 4096, 4096).report()
    for stages in (2, 3, 4):
        print(stages, "stages:", f"{predicted(4096, 4096, 4096, num_stages=stages).tflops:.0f} TFLOP/s")
