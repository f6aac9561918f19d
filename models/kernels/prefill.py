"""Causal attention over all tokens of a prompt, with grouped key and value heads."""

import tilelang.language as T


def prefill_attention(batch, tokens, heads, kv_heads, dim, kv, block_M=128, block_N=128, num_stages=2, threads=256,
                      dtype="bfloat16"):
    """Q, Out: [batch, tokens, heads, dim]; K, V: [batch, kv, kv_heads, dim]; the tokens are the last ones of `kv`.

    A CTA keeps one tile of queries of one head and walks over the tiles of keys and values that they see.
    """
    scale = dim ** -0.5 * 1.4426950408889634
    group, past = heads // kv_heads, kv - tokens

    @T.prim_func
    def prefill_kernel(Q: T.Tensor((batch, tokens, heads, dim), dtype), K: T.Tensor((batch, kv, kv_heads, dim), dtype),
                       V: T.Tensor((batch, kv, kv_heads, dim), dtype), Out: T.Tensor((batch, tokens, heads, dim), dtype)):
        with T.Kernel(T.ceildiv(tokens, block_M), heads, batch, threads=threads) as (bq, h, b):
            q_s = T.alloc_shared((block_M, dim), dtype)
            k_s = T.alloc_shared((block_N, dim), dtype)
            v_s = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            probs = T.alloc_fragment((block_M, block_N), dtype)
            out = T.alloc_fragment((block_M, dim), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            shrink = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            norm = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[b, bq * block_M:(bq + 1) * block_M, h, :], q_s)
            T.clear(out)
            T.clear(norm)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(T.min(T.ceildiv(kv, block_N), T.ceildiv((bq + 1) * block_M + past, block_N)),
                                 num_stages=num_stages):
                T.copy(K[b, k * block_N:(k + 1) * block_N, h // group, :], k_s)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.if_then_else(bq * block_M + i + past >= k * block_N + j, 0, -T.infinity("float32"))
                T.gemm(q_s, k_s, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    shrink[i] = T.exp2((before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, row, dim=1)
                for i in T.Parallel(block_M):
                    norm[i] = norm[i] * shrink[i] + row[i]
                T.copy(scores, probs)
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= shrink[i]
                T.copy(V[b, k * block_N:(k + 1) * block_N, h // group, :], v_s)
                T.gemm(probs, v_s, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= norm[i]
            T.copy(out, Out[b, bq * block_M:(bq + 1) * block_M, h, :])

    return prefill_kernel
