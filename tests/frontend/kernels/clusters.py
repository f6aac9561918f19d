"""Kernels whose CTAs work in clusters."""

import tilelang.language as T


def barrier_only(blocks=4, size=2):
    """A launch with clusters, and nothing across CTAs but one barrier."""

    @T.prim_func
    def barrier_kernel(X: T.Tensor((blocks, 1024), "float32"), Y: T.Tensor((blocks, 1024), "float32")):
        with T.ClusterKernel(blocks, threads=128, cluster_dims=size) as bx:
            s = T.alloc_shared((1024,), "float32")
            T.copy(X[bx, 0], s)
            T.cluster_sync()
            T.copy(s, Y[bx, 0])

    return barrier_kernel


def apart(blocks=4):
    """A launch with clusters whose CTAs do not know each other."""

    @T.prim_func
    def apart_kernel(X: T.Tensor((blocks, 1024), "float32"), Y: T.Tensor((blocks, 1024), "float32")):
        with T.ClusterKernel(blocks, threads=128, cluster_dims=(2, 1, 1)) as bx:
            s = T.alloc_fragment((1024,), "float32")
            T.copy(X[bx, 0], s)
            T.copy(s, Y[bx, 0])

    return apart_kernel


def push(length=1024, barrier=True, wait=True, part=0):
    """CTA 0 pushes a tile into the shared memory of CTA 1: by bulk copies and an mbarrier, or element by element. `part`: copy
    only so many columns of a matrix of 8 rows."""
    shape = (8, length // 8) if part else (length,)

    @T.prim_func
    def push_kernel(X: T.Tensor(shape, "float32"), Y: T.Tensor(shape, "float32")):
        with T.ClusterKernel(2, threads=128, cluster_dims=(2, 1, 1)) as bx:
            s = T.alloc_shared(shape, "float32")
            d = T.alloc_shared(shape, "float32")
            bar = T.alloc_cluster_barrier([1])
            T.fill(d, 0.0)
            T.cluster_sync()
            if bx == 0:
                T.copy(X, s)
                if barrier:
                    if part:
                        T.copy_cluster(s[0:8, 0:part], d[0:8, 0:part], dst_block=1, remote_barrier=bar[0])
                    else:
                        T.copy_cluster(s, d, dst_block=1, remote_barrier=bar[0])
                else:
                    T.copy_cluster(s, d, dst_block=1)
            if not barrier and wait:
                T.cluster_sync()
            if bx == 1:
                if barrier and wait:
                    T.mbarrier_wait_parity(bar[0], 0)
                T.copy(d, Y)

    return push_kernel


def reduction(blocks=8, size=4, rows=64, relaxed=False):
    """Every CTA gives its partial row sums to rank 0, which adds them up."""

    @T.prim_func
    def reduction_kernel(X: T.Tensor((blocks, rows, 128), "float32"), Y: T.Tensor((blocks // size, rows), "float32")):
        with T.ClusterKernel(blocks, threads=128, cluster_dims=size) as bx:
            rank = T.block_rank_in_cluster()
            x = T.alloc_fragment((rows, 128), "float32")
            part = T.alloc_fragment((rows,), "float32")
            mine = T.alloc_shared((rows,), "float32")
            parts = T.alloc_shared((size, rows), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx, 0, 0], x)
            T.reduce_sum(x, part, dim=1)
            T.copy(part, mine)
            T.cluster_sync()
            T.copy_cluster(mine, parts[rank, :], dst_block=0)
            if relaxed:
                T.cluster_arrive_relaxed()
            else:
                T.cluster_arrive()
            T.cluster_wait()
            if rank == 0:
                T.clear(total)
                for i, j in T.Parallel(size, rows):
                    total[j] += parts[i, j]
                T.copy(total, Y[bx // size, 0])

    return reduction_kernel


def multicast(mask=0b0011, size=4, pipelined=False):
    """Tiles that the CTAs in `mask` share."""

    @T.prim_func
    def multicast_kernel(X: T.Tensor((512, 1024), "float16"), Y: T.Tensor((512, 1024), "float16")):
        with T.ClusterKernel(1024 // 64, 512 // 128, threads=128, cluster_dims=size) as (bx, by):
            s = T.alloc_shared((128, 64), "float16")
            T.copy_cluster(X[by * 128, bx * 64], s, cluster_mask=mask)
            T.copy(s, Y[by * 128, bx * 64])

    return multicast_kernel


def pipelined(K=512, num_stages=3):
    """A GEMM whose pipeline TileLang makes; it gives a slot back to its own producer only, though another CTA fills it too."""

    @T.prim_func
    def pipelined_kernel(A: T.Tensor((256, K), "float16"), B: T.Tensor((K, 256), "float16"), C: T.Tensor((256, 256), "float16")):
        with T.ClusterKernel(2, 2, threads=128, cluster_dims=2) as (bx, by):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float32")
            T.clear(acc)
            for k in T.Pipelined(K // 64, num_stages=num_stages):
                T.copy_cluster(A[by * 128, k * 64], a, cluster_mask=0b11)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[by * 128, bx * 128])

    return pipelined_kernel


def ring(steps=24, size=2):
    """Every step pushes a tile to the CTA of the next rank."""

    @T.prim_func
    def ring_kernel(X: T.Tensor((8, 1024), "float32"), Y: T.Tensor((8, 1024), "float32")):
        with T.ClusterKernel(8, threads=128, cluster_dims=size) as bx:
            rank = T.block_rank_in_cluster()
            s = T.alloc_shared((1024,), "float32")
            d = T.alloc_shared((1024,), "float32")
            T.copy(X[bx, 0], s)
            T.cluster_sync()
            for _ in T.serial(steps):
                T.copy_cluster(s, d, dst_block=(rank + 1) % size)
                T.cluster_sync()
                T.copy(d, s)
                T.cluster_sync()
            T.copy(s, Y[bx, 0])

    return ring_kernel


def plane(swizzle=0):
    """Clusters of 2 x 2 CTAs (2 x 1 with a block swizzle); only the last rank stores."""
    dims = (2, 1, 1) if swizzle else (2, 2, 1)
    last = dims[0] * dims[1] - 1

    @T.prim_func
    def plane_kernel(X: T.Tensor((8, 8, 256), "float32"), Y: T.Tensor((8, 8, 256), "float32")):
        with T.ClusterKernel(8, 8, threads=128, cluster_dims=dims) as (bx, by):
            T.use_swizzle(max(swizzle, 1), enable=swizzle > 0)
            rank = T.block_rank_in_cluster()
            f = T.alloc_fragment((256,), "float32")
            T.copy(X[by, bx, 0], f)
            T.cluster_sync()
            if rank == last:
                T.copy(f, Y[by, bx, 0])

    return plane_kernel


def signals_cluster_barrier():
    """A load that signals a cluster barrier, as pairs of CTAs on Blackwell do."""

    @T.prim_func
    def signals_kernel(X: T.Tensor((128, 64), "float16"), Y: T.Tensor((128, 64), "float16")):
        with T.ClusterKernel(2, threads=128, cluster_dims=2) as bx:
            s = T.alloc_shared((64, 64), "float16")
            bar = T.alloc_cluster_barrier([128])
            T.tma_copy(X[bx * 64:bx * 64 + 64, 0:64], s, barrier=bar[0])
            T.mbarrier_arrive(bar[0])
            T.mbarrier_wait_parity(bar[0], 0)
            T.copy(s, Y[bx * 64, 0])

    return signals_kernel
