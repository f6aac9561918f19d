"""W4A16 GEMM: weights packed two int4 per int8 with per-group scales; dequantised in registers and
written to shared memory before the tensor-core op."""

import tilelang.language as T


def make(M=1024, N=4096, K=4096, group=128, block_M=128, block_N=128, block_K=64, num_stages=2,
         threads=128, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def gemm_w4a16(A: T.Tensor((M, K), dtype), Wq: T.Tensor((N, K // 2), "int8"),
                   S: T.Tensor((N, K // group), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (pn, pm):
            a_s = T.alloc_shared((block_M, block_K), dtype)
            wq_s = T.alloc_shared((block_N, block_K // 2), "int8")
            w_s = T.alloc_shared((block_N, block_K), dtype)
            wq_f = T.alloc_fragment((block_N, block_K // 2), "int8")
            w_f = T.alloc_fragment((block_N, block_K), dtype)
            acc = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(acc)
            for kt in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[pm * block_M, kt * block_K], a_s)
                T.copy(Wq[pn * block_N, kt * block_K // 2], wq_s)
                T.copy(wq_s, wq_f)
                for i, j in T.Parallel(block_N, block_K):
                    nib = (wq_f[i, j // 2] >> ((j % 2) * 4).astype("int8")) & T.int8(0xF)
                    w_f[i, j] = (nib.astype(dtype) - T.float16(8)) * S[pn * block_N + i,
                                                                       (kt * block_K + j) // group]
                T.copy(w_f, w_s)
                T.gemm(a_s, w_s, acc, transpose_B=True)
            T.copy(acc, C[pm * block_M, pn * block_N])

    return gemm_w4a16
