"""MLA decode (DeepSeek style latent attention): one latent kv head, key = value = latent part,
plus a rope part for the scores. One CTA per (batch, block of query heads)."""

import tilelang.language as T


def make(batch=128, heads=128, seq_kv=8192, latent=512, rope=64, block_N=64, block_H=64,
         num_stages=2, threads=256, dtype="float16", accum_dtype="float32"):
    scale = (1.0 / (latent + rope)) ** 0.5 * 1.4426950408889634

    @T.prim_func
    def mla_decode(Q: T.Tensor((batch, heads, latent), dtype),
                   Qr: T.Tensor((batch, heads, rope), dtype),
                   KV: T.Tensor((batch, seq_kv, 1, latent), dtype),
                   Kr: T.Tensor((batch, seq_kv, 1, rope), dtype),
                   Out: T.Tensor((batch, heads, latent), dtype)):
        with T.Kernel(heads // block_H, batch, threads=threads) as (ht, b):
            q_s = T.alloc_shared((block_H, latent), dtype)
            qr_s = T.alloc_shared((block_H, rope), dtype)
            kv_s = T.alloc_shared((block_N, latent), dtype)
            kr_s = T.alloc_shared((block_N, rope), dtype)
            p_s = T.alloc_shared((block_H, block_N), dtype)
            o_s = T.alloc_shared((block_H, latent), dtype)
            s_f = T.alloc_fragment((block_H, block_N), accum_dtype)
            o_f = T.alloc_fragment((block_H, latent), accum_dtype)
            m_new = T.alloc_fragment((block_H,), accum_dtype)
            m_old = T.alloc_fragment((block_H,), accum_dtype)
            alpha = T.alloc_fragment((block_H,), accum_dtype)
            row = T.alloc_fragment((block_H,), accum_dtype)
            den = T.alloc_fragment((block_H,), accum_dtype)
            T.copy(Q[b, ht * block_H:(ht + 1) * block_H, :], q_s)
            T.copy(Qr[b, ht * block_H:(ht + 1) * block_H, :], qr_s)
            T.clear(o_f)
            T.clear(den)
            T.fill(m_new, -T.infinity(accum_dtype))
            for kt in T.Pipelined(T.ceildiv(seq_kv, block_N), num_stages=num_stages):
                T.copy(KV[b, kt * block_N:(kt + 1) * block_N, 0, :], kv_s)
                T.copy(Kr[b, kt * block_N:(kt + 1) * block_N, 0, :], kr_s)
                T.gemm(q_s, kv_s, s_f, transpose_B=True, policy=T.GemmWarpPolicy.FullCol,
                       clear_accum=True)
                T.gemm(qr_s, kr_s, s_f, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(m_new, m_old)
                T.reduce_max(s_f, m_new, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    alpha[i] = T.exp2((m_old[i] - m_new[i]) * scale)
                for i, j in T.Parallel(block_H, block_N):
                    s_f[i, j] = T.exp2(s_f[i, j] * scale - m_new[i] * scale)
                T.reduce_sum(s_f, row, dim=1)
                T.copy(s_f, p_s)
                for i in T.Parallel(block_H):
                    den[i] = den[i] * alpha[i] + row[i]
                for i, j in T.Parallel(block_H, latent):
                    o_f[i, j] *= alpha[i]
                T.gemm(p_s, kv_s, o_f, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, latent):
                o_f[i, j] /= den[i]
            T.copy(o_f, o_s)
            T.copy(o_s, Out[b, ht * block_H:(ht + 1) * block_H, :])

    return mla_decode
