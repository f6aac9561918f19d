"""Rotary embedding of queries and keys, and the append of keys and values to the cache."""

import tilelang.language as T


def rope(batch, tokens, heads, kv_heads, dim, kv, block=16, threads=128, dtype="bfloat16"):
    """QKV: [batch * tokens, heads + 2 * kv_heads, dim], the products of one projection. The tokens are the last ones of `kv`.

    Q: [batch, tokens, heads, dim]; K, V: caches [batch, kv, kv_heads, dim]; C, S: cosines and sines [kv, dim / 2]. A CTA turns
    one head of `block` tokens.
    """
    past, half = kv - tokens, dim // 2

    @T.prim_func
    def rope_kernel(QKV: T.Tensor((batch, tokens, heads + 2 * kv_heads, dim), dtype), C: T.Tensor((kv, half), "float32"),
                    S: T.Tensor((kv, half), "float32"), Q: T.Tensor((batch, tokens, heads, dim), dtype),
                    K: T.Tensor((batch, kv, kv_heads, dim), dtype), V: T.Tensor((batch, kv, kv_heads, dim), dtype)):
        with T.Kernel(heads + 2 * kv_heads, T.ceildiv(tokens, block), batch, threads=threads) as (h, bt, b):
            if h < heads:
                for i, j in T.Parallel(block, half):
                    t = bt * block + i
                    if t < tokens:
                        Q[b, t, h, j] = QKV[b, t, h, j] * C[past + t, j] - QKV[b, t, h, half + j] * S[past + t, j]
                        Q[b, t, h, half + j] = QKV[b, t, h, half + j] * C[past + t, j] + QKV[b, t, h, j] * S[past + t, j]
            elif h < heads + kv_heads:
                for i, j in T.Parallel(block, half):
                    t = bt * block + i
                    if t < tokens:
                        K[b, past + t, h - heads, j] = QKV[b, t, h, j] * C[past + t, j] - QKV[b, t, h, half + j] * S[past + t, j]
                        K[b, past + t, h - heads, half + j] = (QKV[b, t, h, half + j] * C[past + t, j]
                                                              + QKV[b, t, h, j] * S[past + t, j])
            else:
                for i, j in T.Parallel(block, dim):
                    t = bt * block + i
                    if t < tokens:
                        V[b, past + t, h - heads - kv_heads, j] = QKV[b, t, h, j]

    return rope_kernel
