"""FlashAttention forward, layout [batch, sequence, head, dim], full or causal, with grouped key and value heads.

With `causal` the number of key tiles depends on the query tile, so CTAs take different times.

    gtsim predict examples/flash_attention.py --arg causal=true --arg block_N=64
"""

import tilelang.language as T


def flash_attention(batch=2, heads=16, kv_heads=16, seq_q=4096, seq_kv=4096, dim=128, causal=False, block_M=128, block_N=128,
                    num_stages=2, threads=256, dtype="float16"):
    """A CTA keeps one tile of queries and walks over the tiles of keys and values."""
    log2e = 1.4426950408889634
    scale = dim ** -0.5 * log2e
    per_kv_head = heads // kv_heads
    past = seq_kv - seq_q

    @T.prim_func
    def flash_attention_kernel(Q: T.Tensor((batch, seq_q, heads, dim), dtype),
                               K: T.Tensor((batch, seq_kv, kv_heads, dim), dtype),
                               V: T.Tensor((batch, seq_kv, kv_heads, dim), dtype),
                               O: T.Tensor((batch, seq_q, heads, dim), dtype)):
        with T.Kernel(T.ceildiv(seq_q, block_M), heads, batch, threads=threads) as (bq, h, b):
            q_s = T.alloc_shared((block_M, dim), dtype)
            k_s = T.alloc_shared((block_N, dim), dtype)
            v_s = T.alloc_shared((block_N, dim), dtype)
            o_s = T.alloc_shared((block_M, dim), dtype)
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
            T.copy(out, o_s)
            T.copy(o_s, O[b, bq * block_M:(bq + 1) * block_M, h, :])

    return flash_attention_kernel
