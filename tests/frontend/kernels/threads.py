"""Small kernels for the frontend tests: code that threads execute by themselves, data that steers, several launches."""

import tilelang.language as T


def row_dots(rows=256, depth=1024, lanes=32, per_block=4, wide=8):
    """A matrix-vector product: a warp a row, vector loads, an all-reduce over the warp."""
    span = lanes * wide

    @T.prim_func
    def row_dots_kernel(M: T.Tensor((rows, depth), "float16"), v: T.Tensor((depth,), "float16"), R: T.Tensor((rows,), "float16")):
        with T.Kernel(rows // per_block, threads=(lanes, per_block)) as block:
            lane = T.get_thread_binding(0)
            row = T.get_thread_binding(1)
            m = T.alloc_local((wide,), "float16")
            x = T.alloc_local((wide,), "float16")
            part = T.alloc_local((1,), "float32")
            whole = T.alloc_local((1,), "float32")
            T.clear(part)
            for step in T.serial(depth // span):
                for i in T.vectorized(wide):
                    m[i] = M[block * per_block + row, step * span + lane * wide + i]
                    x[i] = v[step * span + lane * wide + i]
                for i in T.serial(wide):
                    part[0] += m[i].astype("float32") * x[i].astype("float32")
            with T.attr(T.comm_reducer(lambda a, b: a + b, [T.cast(0, "float32")]), "reduce_scope",
                        T.reinterpret(T.uint64(0), dtype="handle")):
                T.evaluate(T.tvm_thread_allreduce(T.uint32(1), part[0], True, whole[0], lane, dtype="handle"))
            if lane == 0:
                R[block * per_block + row] = whole[0]

    return row_dots_kernel


def masked(blocks=4, tiles=4, threads=128):
    """A tile of integers is copied on chip and says which tiles are added up."""

    @T.prim_func
    def masked_kernel(X: T.Tensor((tiles * 64, 64), "float16"), wanted: T.Tensor((blocks, tiles), "int32"),
                      Y: T.Tensor((blocks * 64, 64), "float32")):
        with T.Kernel(blocks, threads=threads) as b:
            flags = T.alloc_fragment((tiles,), "int32")
            x = T.alloc_fragment((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            T.copy(wanted[b, :], flags)
            T.clear(total)
            for t in T.serial(tiles):
                if flags[t] != 0:
                    T.copy(X[t * 64, 0], x)
                    for i, j in T.Parallel(64, 64):
                        total[i, j] += x[i, j]
            T.copy(total, Y[b * 64, 0])

    return masked_kernel


def gathered(rows=64, width=64, tall=1024, threads=128):
    """Rows at places that a tensor names."""

    @T.prim_func
    def gathered_kernel(X: T.Tensor((tall, width), "float16"), at: T.Tensor((rows,), "int32"),
                        Y: T.Tensor((rows, width), "float16")):
        with T.Kernel(1, threads=threads) as _:
            x = T.alloc_fragment((rows, width), "float16")
            for i, j in T.Parallel(rows, width):
                x[i, j] = X[at[i], j]
            T.copy(x, Y)

    return gathered_kernel


def paged(pages=64, page=8, width=64, threads=128):
    """A loop over pages that a table names."""

    @T.prim_func
    def paged_kernel(X: T.Tensor((pages * page, width), "float16"), table: T.Tensor((pages,), "int32"),
                     Y: T.Tensor((pages * page, width), "float16")):
        with T.Kernel(1, threads=threads) as _:
            x = T.alloc_fragment((page, width), "float16")
            for i in T.serial(pages):
                T.copy(X[table[i] * page, 0], x)
                T.copy(x, Y[i * page, 0])

    return paged_kernel


def queued(trips=30, slots=4, pending=3, threads=128):
    """Tiles come by cp.async, one group a trip, into slots used in turn; a trip waits until `pending` groups are left and adds up
    the next slot. Without slots, each trip has a place of its own."""
    places = slots or trips

    @T.prim_func
    def queued_kernel(X: T.Tensor((trips * 64, 64), "float16"), Y: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=threads) as _:
            s = T.alloc_shared((places, 64, 64), "float16")
            x = T.alloc_fragment((64, 64), "float16")
            for i in T.serial(trips):
                T.async_copy(X[i * 64:i * 64 + 64, 0:64], s[i % places, :, :])
                T.ptx_wait_group(pending)
                T.copy(s[(i + 1) % places, :, :], x)
            T.ptx_wait_group(0)
            T.copy(x, Y)

    return queued_kernel


def two_launches(n=1024, threads=128):
    """Squares, then their negatives: two kernels in one program."""

    @T.prim_func
    def two_launches_kernel(X: T.Tensor((n,), "float32"), W: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(n // threads, threads=threads) as b:
            for i in T.Parallel(threads):
                W[b * threads + i] = X[b * threads + i] * X[b * threads + i]
        with T.Kernel(n // threads // 2, threads=threads) as b:
            for i in T.Parallel(2 * threads):
                Y[b * 2 * threads + i] = -W[b * 2 * threads + i]

    return two_launches_kernel


def picked(n=1024, threads=128):
    """Each thread decides by its own data."""

    @T.prim_func
    def picked_kernel(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(n // threads, threads=threads) as b:
            tx = T.get_thread_binding()
            if X[b * threads + tx] > 0:
                Y[b * threads + tx] = X[b * threads + tx] * 2.0

    return picked_kernel


def met(threads=256):
    """Two warpgroups meet at a named barrier: one writes a tile and goes on, the other waits and reads it."""

    @T.prim_func
    def met_kernel(X: T.Tensor((64, 64), "float32"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=threads) as _:
            s = T.alloc_shared((64, 64), "float32")
            tx = T.get_thread_binding()
            if tx < 128:
                for i in T.serial(32):
                    s[i * 2 + tx // 64, tx % 64] = X[i * 2 + tx // 64, tx % 64]
                T.named_barrier_arrive(2, threads)
            else:
                T.sync_threads(2, threads)
                for i in T.serial(32):
                    Y[i * 2 + (tx - 128) // 64, tx % 64] = s[i * 2 + (tx - 128) // 64, tx % 64]

    return met_kernel
