"""Small kernels for the frontend tests: attention."""

import tilelang.language as T


def attention(seq=512, dim=64, heads=2, bq=128, bk=128, stages=2, threads=256, causal=False):
    """One head a block column; `causal` stops at the diagonal, so the trip count depends on the query block."""
    log2e = 1.4426950408889634

    @T.prim_func
    def attention_kernel(Q: T.Tensor((heads, seq, dim), "bfloat16"), K: T.Tensor((heads, seq, dim), "bfloat16"),
                         V: T.Tensor((heads, seq, dim), "bfloat16"), R: T.Tensor((heads, seq, dim), "bfloat16")):
        with T.Kernel(T.ceildiv(seq, bq), heads, threads=threads) as (blk, h):
            q = T.alloc_shared((bq, dim), "bfloat16")
            k = T.alloc_shared((bk, dim), "bfloat16")
            v = T.alloc_shared((bk, dim), "bfloat16")
            score = T.alloc_fragment((bq, bk), "float32")
            weight = T.alloc_fragment((bq, bk), "bfloat16")
            out = T.alloc_fragment((bq, dim), "float32")
            top = T.alloc_fragment((bq,), "float32")
            before = T.alloc_fragment((bq,), "float32")
            mass = T.alloc_fragment((bq,), "float32")
            part = T.alloc_fragment((bq,), "float32")
            T.copy(Q[h, blk * bq:(blk + 1) * bq, :], q)
            T.clear(out)
            T.clear(mass)
            T.fill(top, -T.infinity("float32"))
            last = (blk + 1) if causal else T.ceildiv(seq, bk)
            for t in T.Pipelined(last, num_stages=stages):
                T.copy(K[h, t * bk:(t + 1) * bk, :], k)
                T.clear(score)
                T.gemm(q, k, score, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(score, top, dim=1, clear=False)
                for i, j in T.Parallel(bq, bk):
                    score[i, j] = T.exp2(score[i, j] * log2e - top[i] * log2e)
                T.reduce_sum(score, part, dim=1)
                for i in T.Parallel(bq):
                    mass[i] = mass[i] * T.exp2(before[i] - top[i]) + part[i]
                T.copy(score, weight)
                for i, j in T.Parallel(bq, dim):
                    out[i, j] = out[i, j] * T.exp2(before[i] - top[i])
                T.copy(V[h, t * bk:(t + 1) * bk, :], v)
                T.gemm(weight, v, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bq, dim):
                out[i, j] = out[i, j] / mass[i]
            T.copy(out, R[h, blk * bq:(blk + 1) * bq, :])

    return attention_kernel
