"""The attention block of one decoded token as one kernel: RMSNorm, QKV projection, RoPE, attention, rescaling, output projection.

A head is a cluster. Its CTAs share the work: each takes a slice of the hidden vector for the norm, of the head's dimensions for
the projection, of the cache for attention, and of the output. What they need of each other goes from each to all others, over the
shared memory of the cluster (`exchange="dsmem"`) or through global memory (`"memory"`), with a barrier of the cluster behind it:
four reductions (sum of squares; maximum, denominator and output of attention) and one gather (q, k and v).

The stages follow ClusterFusion (Luo et al., arXiv 2508.18850); this is a design study, written for prediction, and has not run.

    gtsim predict benchmarks/case_studies/fused_decode.py --arg size=8 --arg seq=4096
"""

import tilelang.language as T

ROWS = 64  # of a query tile: one token, padded to what the tensor cores take


def fused_decode(size=4, seq=4096, heads=32, hidden=4096, dim=128, exchange="dsmem", threads=128, eps=1e-6,
                 dtype="float16", accum="float32"):
    """`size` CTAs a cluster, `heads` clusters, `seq` tokens in the cache."""
    part, seg, chunk = hidden // size, dim // size, seq // size
    block_K = 32 * size  # columns of the projection's weights
    block_N = min(64, chunk)  # tokens
    block_O = min(64, part)  # rows of the output projection
    dsmem = exchange == "dsmem"
    scale = dim**-0.5 * 1.4426950408889634

    @T.prim_func
    def fused_decode_kernel(
        X: T.Tensor((hidden,), dtype),
        G: T.Tensor((hidden,), dtype),
        W: T.Tensor((heads, size, 3 * seg, hidden), dtype),
        Cos: T.Tensor((dim,), accum),
        Sin: T.Tensor((dim,), accum),
        K: T.Tensor((heads, seq, dim), dtype),
        V: T.Tensor((heads, seq, dim), dtype),
        Wo: T.Tensor((heads, hidden, dim), dtype),
        Scalars: T.Tensor((3, heads, size, 1), accum),
        Gathered: T.Tensor((heads, size, 3 * seg), accum),
        Outputs: T.Tensor((heads, size, dim), accum),
        Y: T.Tensor((hidden,), accum),
    ):
        with T.ClusterKernel(heads * size, threads=threads, cluster_dims=size) as bx:
            rank = T.block_rank_in_cluster()
            head = bx // size
            x = T.alloc_shared((hidden,), dtype)
            w = T.alloc_shared((3 * seg, block_K), dtype)
            k_s = T.alloc_shared((block_N, dim), dtype)
            v_s = T.alloc_shared((block_N, dim), dtype)
            o_s = T.alloc_shared((block_O, dim), dtype)
            one = T.alloc_shared((3, 1), accum)
            ones = T.alloc_shared((3, size, 1), accum)
            mine = T.alloc_shared((3 * seg,), accum)
            qkv = T.alloc_shared((size, 3 * seg), accum)
            out = T.alloc_shared((dim,), accum)
            outs = T.alloc_shared((size, dim), accum)
            q = T.alloc_shared((ROWS, dim), dtype)
            square = T.alloc_fragment((1, part), accum)
            slice_ = T.alloc_fragment((part,), dtype)
            total = T.alloc_fragment((1,), accum)
            product = T.alloc_fragment((3 * seg, block_K), accum)
            sums = T.alloc_fragment((3 * seg,), accum)
            s = T.alloc_fragment((ROWS, block_N), accum)
            p = T.alloc_fragment((ROWS, block_N), dtype)
            m = T.alloc_fragment((ROWS,), accum)
            m_old = T.alloc_fragment((ROWS,), accum)
            alpha = T.alloc_fragment((ROWS,), accum)
            den = T.alloc_fragment((ROWS,), accum)
            den_new = T.alloc_fragment((ROWS,), accum)
            o = T.alloc_fragment((ROWS, dim), accum)
            o_sum = T.alloc_fragment((dim,), accum)
            y_f = T.alloc_fragment((block_O, dim), accum)
            y = T.alloc_fragment((block_O,), accum)

            if dsmem:
                T.cluster_sync()  # the others have started

            # RMSNorm
            T.copy(X, x)
            T.copy(X[rank * part:(rank + 1) * part], slice_)
            for i, j in T.Parallel(1, part):
                square[i, j] = slice_[j].astype(accum) * slice_[j].astype(accum)
            T.reduce_sum(square, total, dim=1)
            T.copy(total, one[0, :])
            if dsmem:
                for r in T.unroll(size):
                    T.copy_cluster(one[0, :], ones[0, rank, :], dst_block=r)
                T.cluster_sync()
            else:
                T.copy(one[0, :], Scalars[0, head, rank, :])
                T.cluster_sync()
                T.copy(Scalars[0, head, :, :], ones[0, :, :])
            T.clear(total)
            for r in T.serial(size):
                for i in T.Parallel(1):
                    total[i] += ones[0, r, i]
            for i in T.Parallel(hidden):
                x[i] = x[i] * T.rsqrt(total[0] / hidden + eps) * G[i]

            # QKV projection: the CTA's part of q, k and v
            T.clear(product)
            for t in T.Pipelined(hidden // block_K, num_stages=3):
                T.copy(W[head, rank, :, t * block_K:(t + 1) * block_K], w)
                for i, j in T.Parallel(3 * seg, block_K):
                    product[i, j] += w[i, j].astype(accum) * x[t * block_K + j].astype(accum)
            T.reduce_sum(product, sums, dim=1)
            T.copy(sums, mine)
            if dsmem:
                for r in T.unroll(size):
                    T.copy_cluster(mine, qkv[rank, :], dst_block=r)
                T.cluster_sync()
            else:
                T.copy(mine, Gathered[head, rank, :])
                T.cluster_sync()
                T.copy(Gathered[head, :, :], qkv)

            # RoPE
            T.clear(q)
            for d in T.Parallel(dim):
                q[0, d] = qkv[d // seg, d % seg] * Cos[d] + qkv[(d + dim // 2) % dim // seg, d % seg] * Sin[d]

            # attention over the CTA's part of the cache
            T.clear(o)
            T.clear(den)
            T.fill(m, -T.infinity(accum))
            for t in T.Pipelined(chunk // block_N, num_stages=2):
                T.copy(K[head, rank * chunk + t * block_N:rank * chunk + (t + 1) * block_N, :], k_s)
                T.copy(V[head, rank * chunk + t * block_N:rank * chunk + (t + 1) * block_N, :], v_s)
                T.clear(s)
                T.gemm(q, k_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(ROWS):
                    alpha[i] = T.exp2((m_old[i] - m[i]) * scale)
                for i, j in T.Parallel(ROWS, block_N):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, den_new, dim=1)
                for i in T.Parallel(ROWS):
                    den[i] = den[i] * alpha[i] + den_new[i]
                T.copy(s, p)
                for i, j in T.Parallel(ROWS, dim):
                    o[i, j] *= alpha[i]
                T.gemm(p, v_s, o, policy=T.GemmWarpPolicy.FullRow)

            # the maximum of all CTAs, then their denominator
            for i in T.Parallel(ROWS):
                if i < 1:
                    one[1, i] = m[i]
            if dsmem:
                for r in T.unroll(size):
                    T.copy_cluster(one[1, :], ones[1, rank, :], dst_block=r)
                T.cluster_sync()
            else:
                T.copy(one[1, :], Scalars[1, head, rank, :])
                T.cluster_sync()
                T.copy(Scalars[1, head, :, :], ones[1, :, :])
            T.copy(m, m_old)
            for r in T.serial(size):
                for i in T.Parallel(ROWS):
                    m[i] = T.max(m[i], ones[1, r, 0])
            for i in T.Parallel(ROWS):
                alpha[i] = T.exp2((m_old[i] - m[i]) * scale)
            for i in T.Parallel(ROWS):
                if i < 1:
                    one[2, i] = den[i] * alpha[i]
            if dsmem:
                for r in T.unroll(size):
                    T.copy_cluster(one[2, :], ones[2, rank, :], dst_block=r)
                T.cluster_sync()
            else:
                T.copy(one[2, :], Scalars[2, head, rank, :])
                T.cluster_sync()
                T.copy(Scalars[2, head, :, :], ones[2, :, :])
            T.clear(den)
            for r in T.serial(size):
                for i in T.Parallel(ROWS):
                    den[i] += ones[2, r, 0]

            # rescaling, and the sum of the outputs
            for i, d in T.Parallel(ROWS, dim):
                if i < 1:
                    out[d] = o[i, d] * alpha[i] / den[i]
            if dsmem:
                for r in T.unroll(size):
                    T.copy_cluster(out, outs[rank, :], dst_block=r)
                T.cluster_sync()
            else:
                T.copy(out, Outputs[head, rank, :])
                T.cluster_sync()
                T.copy(Outputs[head, :, :], outs)
            T.clear(o_sum)
            for r in T.serial(size):
                for d in T.Parallel(dim):
                    o_sum[d] += outs[r, d]
            T.copy(o_sum, out)

            # output projection: the CTA's part of the hidden vector, added to those of the other heads
            for t in T.Pipelined(part // block_O, num_stages=3):
                T.copy(Wo[head, rank * part + t * block_O:rank * part + (t + 1) * block_O, :], o_s)
                for i, j in T.Parallel(block_O, dim):
                    y_f[i, j] = o_s[i, j].astype(accum) * out[j]
                T.reduce_sum(y_f, y, dim=1)
                for i in T.Parallel(block_O):
                    T.atomic_add(Y[rank * part + t * block_O + i], y[i])

    return fused_decode_kernel
