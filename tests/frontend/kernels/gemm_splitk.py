"""Split-K GEMM: gridDim.z slices of K, partial tiles combined with atomic adds to global C (fp32)."""

import tilelang.language as T


def make(M=1024, N=1024, K=8192, split_k=4, block_M=128, block_N=128, block_K=64,
         num_stages=3, threads=128, dtype="float16", accum_dtype="float32"):
    assert K % (split_k * block_K) == 0
    k_len = K // split_k

    @T.prim_func
    def gemm_splitk(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype),
                    C: T.Tensor((M, N), accum_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split_k,
                      threads=threads) as (pn, pm, pz):
            a_s = T.alloc_shared((block_M, block_K), dtype)
            b_s = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(acc)
            for kt in T.Pipelined(k_len // block_K, num_stages=num_stages):
                T.copy(A[pm * block_M, pz * k_len + kt * block_K], a_s)
                T.copy(B[pz * k_len + kt * block_K, pn * block_N], b_s)
                T.gemm(a_s, b_s, acc)
            T.atomic_add(C[pm * block_M, pn * block_N], acc)

    return gemm_splitk
