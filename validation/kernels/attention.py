"""FlashAttention forward, [batch, sequence, head, dim], grouped key and value heads; the compiler chooses roles and stages."""

import tilelang.language as T


def attention(batch=1, heads=64, kv_heads=8, seq_q=4096, seq_kv=4096, dim=128, causal=True, block_M=128, block_N=128,
              num_stages=2, threads=256, dtype="bfloat16"):
    """A CTA keeps a tile of queries and walks over the tiles of keys and values; with `causal` those behind its last query drop
    out, queries being the last ones of the sequence."""
    scale = dim ** -0.5 * 1.4426950408889634
    per_kv_head = heads // kv_heads
    past = seq_kv - seq_q

    @T.prim_func
    def attention_kernel(Q: T.Tensor((batch, seq_q, heads, dim), dtype), K: T.Tensor((batch, seq_kv, kv_heads, dim), dtype),
                         V: T.Tensor((batch, seq_kv, kv_heads, dim), dtype), Out: T.Tensor((batch, seq_q, heads, dim), dtype)):
        with T.Kernel(T.ceildiv(seq_q, block_M), heads, batch, threads=threads) as (bq, h, b):
            q_s = T.alloc_shared((block_M, dim), dtype)
            k_s = T.alloc_shared((block_N, dim), dtype)
            v_s = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            probs = T.alloc_fragment((block_M, block_N), dtype)
            out = T.alloc_fragment((block_M, dim), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            old_top = T.alloc_fragment((block_M,), "float32")
            shrink = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            norm = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[b, bq * block_M:(bq + 1) * block_M, h, :], q_s)
            T.clear(out)
            T.clear(norm)
            T.fill(top, -T.infinity("float32"))
            tiles = (T.min(T.ceildiv(seq_kv, block_N), T.ceildiv((bq + 1) * block_M + past, block_N))
                     if causal else T.ceildiv(seq_kv, block_N))
            for k in T.Pipelined(tiles, num_stages=num_stages):
                T.copy(K[b, k * block_N:(k + 1) * block_N, h // per_kv_head, :], k_s)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.if_then_else(bq * block_M + i + past >= k * block_N + j, 0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(q_s, k_s, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, old_top)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    shrink[i] = T.exp2((old_top[i] - top[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, row, dim=1)
                for i in T.Parallel(block_M):
                    norm[i] = norm[i] * shrink[i] + row[i]
                T.copy(scores, probs)
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= shrink[i]
                T.copy(V[b, k * block_N:(k + 1) * block_N, h // per_kv_head, :], v_s)
                T.gemm(probs, v_s, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= norm[i]
            T.copy(out, q_s)
            T.copy(q_s, Out[b, bq * block_M:(bq + 1) * block_M, h, :])

    return attention_kernel
