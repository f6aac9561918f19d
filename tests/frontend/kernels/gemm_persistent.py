"""Persistent GEMM: `workers` CTAs (normally one per SM) loop over output tiles.

`use_primitive=True` uses T.Persistent (the compiler builds the tile loop), otherwise an explicit
wave loop with an M-fastest group order and a bounds guard.
"""

import tilelang.language as T


def make(M=4096, N=4096, K=4096, workers=132, block_M=128, block_N=128, block_K=64, num_stages=3,
         threads=256, use_primitive=False, group_m=8, dtype="float16", accum_dtype="float32"):
    tm = -(-M // block_M)
    tn = -(-N // block_N)
    waves = -(-(tm * tn) // workers)
    assert use_primitive or tm % group_m == 0, "explicit order needs a multiple of group_m tile rows"

    @T.prim_func
    def gemm_persistent(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype),
                        C: T.Tensor((M, N), dtype)):
        with T.Kernel(workers, threads=threads) as w:
            a_s = T.alloc_shared((block_M, block_K), dtype)
            b_s = T.alloc_shared((block_K, block_N), dtype)
            out_s = T.alloc_shared((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), accum_dtype)
            if use_primitive:
                for im, jn in T.Persistent([tm, tn], workers, w):
                    T.clear(acc)
                    for kt in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                        T.copy(A[im * block_M, kt * block_K], a_s)
                        T.copy(B[kt * block_K, jn * block_N], b_s)
                        T.gemm(a_s, b_s, acc)
                    T.copy(acc, out_s)
                    T.copy(out_s, C[im * block_M, jn * block_N])
            else:
                for wave in T.serial(waves):
                    t = wave * workers + w
                    pm = (t // (group_m * tn)) * group_m + t % group_m
                    pn = (t // group_m) % tn
                    if t < tm * tn:
                        T.clear(acc)
                        for kt in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                            T.copy(A[pm * block_M, kt * block_K], a_s)
                            T.copy(B[kt * block_K, pn * block_N], b_s)
                            T.gemm(a_s, b_s, acc)
                        T.copy(acc, out_s)
                        T.copy(out_s, C[pm * block_M, pn * block_N])

    return gemm_persistent
