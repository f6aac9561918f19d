"""GQA flash-decoding: one query token per sequence, kv split over gridDim.z, two kernels.

`make` returns the split kernel (writes per-split output and log-sum-exp);
`make_combine` returns the kernel that merges the splits.
With `varlen=True` the number of kv tiles comes from the `cache_len` tensor (data-dependent).
"""

import tilelang.language as T


def make(batch=8, heads=32, kv_heads=8, seq_kv=8192, dim=128, splits=4, block_N=128, block_H=64,
         num_stages=2, threads=128, varlen=False, dtype="float16", accum_dtype="float32"):
    """block_H: rows of the query tile (the group of heads that share a kv head, padded up)."""
    group = heads // kv_heads
    used = min(block_H, group)
    scale = (1.0 / dim) ** 0.5 * 1.4426950408889634
    chunk = seq_kv // splits

    @T.prim_func
    def gqa_decode(Q: T.Tensor((batch, heads, dim), dtype),
                   K: T.Tensor((batch, seq_kv, kv_heads, dim), dtype),
                   V: T.Tensor((batch, seq_kv, kv_heads, dim), dtype),
                   cache_len: T.Tensor((batch,), "int32"),
                   Part: T.Tensor((batch, heads, splits, dim), dtype),
                   Lse: T.Tensor((batch, heads, splits), dtype)):
        with T.Kernel(batch, kv_heads * (group // used), splits, threads=threads) as (b, hg, sp):
            q_s = T.alloc_shared((block_H, dim), dtype)
            k_s = T.alloc_shared((block_N, dim), dtype)
            v_s = T.alloc_shared((block_N, dim), dtype)
            o_s = T.alloc_shared((used, dim), dtype)
            s_f = T.alloc_fragment((block_H, block_N), accum_dtype)
            p_f = T.alloc_fragment((block_H, block_N), dtype)
            o_f = T.alloc_fragment((block_H, dim), accum_dtype)
            m_new = T.alloc_fragment((block_H,), accum_dtype)
            m_old = T.alloc_fragment((block_H,), accum_dtype)
            alpha = T.alloc_fragment((block_H,), accum_dtype)
            row = T.alloc_fragment((block_H,), accum_dtype)
            den = T.alloc_fragment((block_H,), accum_dtype)
            kvh = hg // (group // used)
            T.copy(Q[b, hg * used:hg * used + block_H, :], q_s)
            T.clear(o_f)
            T.clear(den)
            T.fill(m_new, -T.infinity(accum_dtype))
            n_tiles = (T.ceildiv(T.max(T.min(cache_len[b] - sp * chunk, chunk), 0), block_N)
                       if varlen else chunk // block_N)
            for kt in T.Pipelined(n_tiles, num_stages=num_stages):
                lo = sp * chunk + kt * block_N
                T.copy(K[b, lo:lo + block_N, kvh, :], k_s)
                T.clear(s_f)
                T.gemm(q_s, k_s, s_f, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                if varlen:
                    for i, j in T.Parallel(block_H, block_N):
                        s_f[i, j] = T.if_then_else(lo + j < cache_len[b], s_f[i, j],
                                                   -T.infinity(accum_dtype))
                T.copy(m_new, m_old)
                T.reduce_max(s_f, m_new, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    alpha[i] = T.exp2((m_old[i] - m_new[i]) * scale)
                for i, j in T.Parallel(block_H, block_N):
                    s_f[i, j] = T.exp2(s_f[i, j] * scale - m_new[i] * scale)
                T.reduce_sum(s_f, row, dim=1)
                for i in T.Parallel(block_H):
                    den[i] = den[i] * alpha[i] + row[i]
                T.copy(s_f, p_f)
                for i, j in T.Parallel(block_H, dim):
                    o_f[i, j] *= alpha[i]
                T.copy(V[b, lo:lo + block_N, kvh, :], v_s)
                T.gemm(p_f, v_s, o_f, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_H, dim):
                o_f[i, j] /= den[i]
            for i in T.Parallel(block_H):
                den[i] = T.log2(den[i]) + m_new[i] * scale
            for i in T.Parallel(block_H):
                if i < used:
                    Lse[b, hg * used + i, sp] = den[i]
            T.copy(o_f[:used, :], o_s)
            T.copy(o_s, Part[b, hg * used:(hg + 1) * used, sp, :])

    return gqa_decode


def make_combine(batch=8, heads=32, dim=128, splits=4, threads=128, dtype="float16",
                 accum_dtype="float32"):
    @T.prim_func
    def gqa_combine(Part: T.Tensor((batch, heads, splits, dim), dtype),
                    Lse: T.Tensor((batch, heads, splits), dtype),
                    Out: T.Tensor((batch, heads, dim), dtype)):
        with T.Kernel(heads, batch, threads=threads) as (h, b):
            o_l = T.alloc_fragment((dim,), accum_dtype)
            lse_max = T.alloc_local((1,), accum_dtype)
            lse_sum = T.alloc_local((1,), accum_dtype)
            wgt = T.alloc_local((1,), accum_dtype)
            T.clear(o_l)
            lse_max[0] = -T.infinity(accum_dtype)
            lse_sum[0] = 0
            for s in T.serial(splits):
                lse_max[0] = T.max(lse_max[0], Lse[b, h, s])
            for s in T.serial(splits):
                lse_sum[0] += T.exp2(Lse[b, h, s] - lse_max[0])
            for s in T.serial(splits):
                wgt[0] = T.exp2(Lse[b, h, s] - lse_max[0]) / lse_sum[0]
                for j in T.Parallel(dim):
                    o_l[j] += Part[b, h, s, j] * wgt[0]
            T.copy(o_l, Out[b, h, :])

    return gqa_combine
