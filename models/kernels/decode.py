"""Attention of one token a sequence to its cache: the cache is split among CTAs, whose parts a second kernel joins."""

import tilelang.language as T


def decode_attention(batch, heads, kv_heads, dim, kv, splits, block_H=16, block_N=64, num_stages=2, threads=128,
                     dtype="bfloat16"):
    """Q: [batch, 1, heads, dim]; K, V: [batch, kv, kv_heads, dim]; Part: [batch, heads, splits, dim], Lse the same without dim.

    A CTA takes the heads of one group (in a tile of `block_H` rows) and one of `splits` runs of whole tiles of the cache.
    """
    scale = dim ** -0.5 * 1.4426950408889634
    group = heads // kv_heads
    tiles = -(-kv // block_N)

    @T.prim_func
    def decode_kernel(Q: T.Tensor((batch, 1, heads, dim), dtype), K: T.Tensor((batch, kv, kv_heads, dim), dtype),
                      V: T.Tensor((batch, kv, kv_heads, dim), dtype), Part: T.Tensor((batch, heads, splits, dim), "float32"),
                      Lse: T.Tensor((batch, heads, splits), "float32")):
        with T.Kernel(splits, kv_heads, batch, threads=threads) as (s, g, b):
            q_s = T.alloc_shared((block_H, dim), dtype)
            k_s = T.alloc_shared((block_N, dim), dtype)
            v_s = T.alloc_shared((block_N, dim), dtype)
            p_s = T.alloc_shared((block_H, block_N), dtype)
            scores = T.alloc_fragment((block_H, block_N), "float32")
            out = T.alloc_fragment((block_H, dim), "float32")
            top = T.alloc_fragment((block_H,), "float32")
            before = T.alloc_fragment((block_H,), "float32")
            shrink = T.alloc_fragment((block_H,), "float32")
            row = T.alloc_fragment((block_H,), "float32")
            norm = T.alloc_fragment((block_H,), "float32")

            first = s * tiles // splits
            T.copy(Q[b, 0, g * group:g * group + block_H, :], q_s)
            T.clear(out)
            T.clear(norm)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined((s + 1) * tiles // splits - first, num_stages=num_stages):
                low = (first + k) * block_N
                T.copy(K[b, low:low + block_N, g, :], k_s)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.if_then_else(low + j < kv, 0, -T.infinity("float32"))
                T.gemm(q_s, k_s, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    shrink[i] = T.exp2((before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, row, dim=1)
                for i in T.Parallel(block_H):
                    norm[i] = norm[i] * shrink[i] + row[i]
                T.copy(scores, p_s)
                for i, j in T.Parallel(block_H, dim):
                    out[i, j] *= shrink[i]
                T.copy(V[b, low:low + block_N, g, :], v_s)
                T.gemm(p_s, v_s, out, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                if i < group:
                    Part[b, g * group + i, s, j] = out[i, j] / norm[i]
            for i in T.Parallel(block_H):
                if i < group:
                    Lse[b, g * group + i, s] = T.log2(norm[i]) + top[i] * scale

    return decode_kernel


def combine(batch, heads, dim, splits, threads=128, dtype="bfloat16"):
    """Out: [batch, 1, heads, dim], the parts weighted by their sums. A CTA joins one head of one sequence."""

    @T.prim_func
    def combine_kernel(Part: T.Tensor((batch, heads, splits, dim), "float32"), Lse: T.Tensor((batch, heads, splits), "float32"),
                       Out: T.Tensor((batch, 1, heads, dim), dtype)):
        with T.Kernel(heads, batch, threads=threads) as (h, b):
            parts = T.alloc_fragment((splits, dim), "float32")
            weight = T.alloc_fragment((splits,), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            out = T.alloc_fragment((dim,), "float32")
            T.copy(Lse[b, h, :], weight)
            T.copy(Part[b, h, :, :], parts)
            T.reduce_max(weight, top, dim=0)
            for i in T.Parallel(splits):
                weight[i] = T.exp2(weight[i] - top[0])
            T.reduce_sum(weight, total, dim=0)
            for i, j in T.Parallel(splits, dim):
                parts[i, j] *= weight[i] / total[0]
            T.reduce_sum(parts, out, dim=0)
            T.copy(out, Out[b, 0, h, :])

    return combine_kernel
