"""The tables of a hardware file, one class a table. "Cycles" are SM clock cycles throughout."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from .fields import Count, CountOrNone, Cycles, Fraction, Identifier, Microseconds, Nanoseconds, OptionalUnit, Rate, Share, Table


class Chip(Table):
    """The chip as a whole."""

    arch: str = Field(pattern=r"^sm_\d+[af]?$", description="CUDA architecture, e.g. sm_90a")
    sm_count: Annotated[int, Field(gt=0, le=4095)] = Field(description="SMs enabled")
    clock_mhz: Annotated[float, Field(ge=100, le=10000)] = Field(description="SM clock, MHz")
    max_cluster_ctas: Count = Field(description="largest thread-block cluster, CTAs; 1 where there are no clusters")
    gpc_sms: Sequence[Annotated[int, Field(gt=0, le=4095)]] = Field(
        min_length=1, description="SMs of each GPC; for another `sm_count`, cut short, or more of the largest"
    )


class Sm(Table):
    """One SM: what bounds the CTAs resident in it."""

    subpartitions: Count = Field(description="warp schedulers")
    warp_threads: Count = Field(description="threads of a warp")
    max_threads: Count = Field(description="resident threads")
    max_ctas: Count = Field(description="resident CTAs")
    max_threads_per_cta: Count = Field(description="threads of one CTA")
    registers: Count = Field(description="32-bit registers")
    registers_per_thread_max: Count = Field(description="32-bit registers of one thread")
    register_allocation_per_warp: Count = Field(description="allocation granule, 32-bit registers of a warp")
    smem_bytes: Count = Field(description="shared memory of the SM, bytes")
    smem_per_cta_max_bytes: Count = Field(description="shared memory one CTA can use, bytes")
    smem_reserved_per_cta_bytes: CountOrNone = Field(description="shared memory the system takes for each CTA, bytes")
    named_barriers_per_cta: Count = Field(description="hardware barriers (bar.sync) of one CTA")
    tmem_columns: CountOrNone = Field(description="tensor-memory columns; 0 where there is no tensor memory")

    @model_validator(mode="after")
    def _consistent(self) -> "Sm":
        for part, whole in (
            ("max_threads_per_cta", "max_threads"),
            ("smem_per_cta_max_bytes", "smem_bytes"),
            ("registers_per_thread_max", "registers"),
        ):
            if getattr(self, part) > getattr(self, whole):
                raise ValueError(f"{part} = {getattr(self, part)} exceeds {whole} = {getattr(self, whole)}")
        if self.max_threads % self.warp_threads:
            raise ValueError(f"max_threads = {self.max_threads} is not a whole number of warps")
        return self


class Resource(Table):
    """Something work takes time on: a pipe, a port or a link."""

    scope: Literal["subpartition", "sm", "tpc", "gpc", "chip"] = Field(description="who shares one of it")
    rate_per_cycle: Rate = Field(description="units served in a cycle")
    unit: str = Field(min_length=1, description="what it serves: byte, lane, instruction, ...")


class Tensor(Table):
    """Tensor-core rates by data type."""

    rate_vs_16bit: Mapping[Identifier, Rate] = Field(min_length=1, description="rate of a type over the 16-bit rate")


class Wgmma(OptionalUnit):
    """Warpgroup MMA (Hopper)."""

    issue_cycles: Cycles = Field(0.0, description="issue cost of one instruction, both operands in shared memory")
    issue_rs_cycles: Cycles = Field(0.0, description="the same, A in registers")
    tail_cycles: Cycles = Field(0.0, description="completion after the last MMA of a group, A in shared memory")
    tail_rs_cycles: Cycles = Field(0.0, description="the same, A in registers")
    setup_cycles: Cycles = Field(0.0, description="descriptors rebuilt before a group")
    wait_cycles: Cycles = Field(0.0, description="wait for a group that is complete")


class Mma(Table):
    """Warp-level mma.sync."""

    interval_m16n8k16_cycles: Cycles = Field(description="between independent m16n8k16 of one sub-partition")
    sparse_speedup: Rate = Field(description="of a 2:4 sparse instruction over a dense one of the same depth")
    latency_cycles: Cycles = Field(description="one dependent m16n8k16")
    ldmatrix_latency_cycles: Cycles = Field(description="ldmatrix to first use")


class Smem(Table):
    """Shared memory; its bandwidth is resources.smem."""

    latency_cycles: Cycles = Field(description="load to use")
    bank_conflicts: bool = Field(True, description="whether lanes that meet in one bank wait for each other; false: never")


class Tma(OptionalUnit):
    """Tensor memory accelerator; its request rate is resources.tma."""

    launch_cycles: Cycles = Field(0.0, description="latency over that of a plain load, every operation")
    descriptor_setup_cycles: Cycles = Field(0.0, description="further latency where there is a tensor map, descriptor cached")
    descriptor_miss_cycles: Cycles = Field(0.0, description="further latency when the descriptor is not cached")
    descriptor_cache_entries: Count = Field(1, description="descriptors that an SM keeps")
    issue_cycles: Cycles = Field(0.0, description="between loads with a tensor map issued by one thread")
    bulk_issue_cycles: Cycles = Field(0.0, description="between bulk copies without one issued by one thread")
    reduce_issue_cycles: Cycles = Field(0.0, description="between reductions issued by one thread")
    request_bytes: Count = Field(0, description="largest L2 request, bytes")
    deduplicate: bool = Field(True, description="elements of a box row in one line make one request; if not, a request each")
    inflight_lines: Count = Field(0, description="requests outstanding an SM")
    store_issue_cycles: Cycles = Field(0.0, description="between stores issued by one thread")


class CpAsync(Table):
    """cp.async: asynchronous copies to shared memory by the threads themselves."""

    issue_cycles: Cycles = Field(description="issue cost of one instruction")
    commit_cycles: Cycles = Field(description="commit_group")
    wait_cycles: Cycles = Field(description="wait_group, its groups complete")


class Lsu(Table):
    """Load/store unit; its rate is resources.lsu."""

    inflight_sectors: Count = Field(description="sectors outstanding an SM")


class L1(Table):
    """L1 cache."""

    latency_cycles: Cycles = Field(description="hit")


class Mbarrier(Table):
    """Barriers in shared memory."""

    arrive_cycles: Cycles = Field(description="issue cost of an arrive")
    arrive_visible_cycles: Cycles = Field(description="arrive until waiters can see it")
    wait_cycles: Cycles = Field(description="try_wait on a phase that is complete")


class Sync(Table):
    """CTA barriers and fences."""

    base_cycles: Cycles = Field(description="bar.sync, fixed part, from the last arrival")
    per_warp_cycles: Cycles = Field(description="bar.sync, for each warp taking part")
    fence_proxy_async_cycles: Cycles = Field(description="generic writes until the async proxy sees them")
    fence_cta_cycles: Cycles = Field(description="memory fence of CTA scope")
    fence_gpu_cycles: Cycles = Field(description="memory fence of GPU scope, little traffic")
    warp_sync_cycles: Cycles = Field(description="__syncwarp")


class Cluster(OptionalUnit):
    """Clusters of CTAs. Latencies count the network between SMs (ports: resources.sm_to_sm_out and _in) as a crossbar."""

    load_cycles: Cycles = Field(0.0, description="load from the shared memory of another SM, issue to use")
    store_visible_cycles: Cycles = Field(0.0, description="store to the shared memory of another SM until it can be seen there")
    arrive_visible_cycles: Cycles = Field(0.0, description="arrive on an mbarrier of another SM until waiters there can see it")
    barrier_cycles: Cycles = Field(0.0, description="cluster barrier, from the last arrival, with release and acquire")
    barrier_relaxed_cycles: Cycles = Field(0.0, description="the same, arrival without release")
    multicast_cycles: Cycles = Field(0.0, description="latency of a multicast TMA load over that of one for a single SM")
    network: Literal["crossbar", "mesh"] = Field("crossbar", description="between the SMs of a GPC: crossbar or mesh")
    placement: Literal["order", "naive", "topology"] = Field(
        "order", description="free SMs that a cluster gets: order (by number), naive (in no relation to where they are), "
        "topology (close to each other in the mesh)"
    )
    mesh_columns: Count = Field(1, description="mesh: SMs of a row; SM i of a GPC is in row i / columns")
    hop_cycles: Cycles = Field(0.0, description="mesh: a router and the link behind it")
    link_bytes_per_cycle: Rate = Field(1.0, description="mesh: bytes that a link passes in a cycle, each direction")


class Control(Table):
    """Scalar code and latencies of the arithmetic pipes."""

    int_op_cycles: Cycles = Field(description="dependent integer operation")
    branch_cycles: Cycles = Field(description="loop-closing compare and branch")
    alu_latency_cycles: Cycles = Field(description="dependent FP32 or integer multiply-add")
    sfu_latency_cycles: Cycles = Field(description="dependent special function")
    shuffle_latency_cycles: Cycles = Field(description="dependent warp shuffle")
    setmaxnreg_cycles: Cycles = Field(description="register reallocation of a warpgroup")


class L2(Table):
    """L2 cache; its bandwidth is resources.l2."""

    capacity_bytes: Count = Field(description="capacity, bytes")
    line_bytes: Count = Field(description="line, bytes")
    sector_bytes: Count = Field(description="sector, bytes")
    write_header_bytes: int = Field(ge=0, description="of each write request on its way from an SM, beside its sectors, bytes")
    latency_near_cycles: Cycles = Field(description="hit in the SM's own partition, from issue to use")
    latency_far_cycles: Cycles = Field(description="hit in the other partition, from issue to use")
    slices: Annotated[int, Field(gt=0, le=4096)] = Field(description="slices, all partitions; each has its share of capacity and "
                                                         "bandwidth")
    partitions: Annotated[int, Field(gt=0, le=32)] = Field(description="partitions; each is near some of the GPCs")
    hash: Literal["xor", "plain"] = Field(description="what chooses the slice of a line: xor, all address bits folded; plain, "
                                          "the low ones alone")
    remote_copy: bool = Field(description="a line read from another partition takes a place in the reader's too")
    mshr_per_slice: Annotated[int, Field(gt=0, le=2**20)] = Field(description="misses outstanding, lines a slice")
    coalescer: bool = Field(description="reads of one line by SMs that share a way to the L2 are merged while it is under way")
    coalescer_sms: Annotated[int, Field(gt=0, le=64)] = Field(description="SMs that share one coalescer")
    warm_at_start: bool = Field(default=False, description="what the kernel reads is there when it starts, as far as it fits")
    dirty_at_start: float = Field(default=0.0, ge=0, le=1, description="share of it that other programs left modified, evenly "
                                  "among their other lines, when the kernel starts")
    carried: bool = Field(default=True, description="the next kernel of a sequence starts with what the one before left there")

    @model_validator(mode="after")
    def _lines_hold_sectors(self) -> "L2":
        if self.line_bytes % self.sector_bytes:
            raise ValueError(f"line_bytes = {self.line_bytes} is not a multiple of sector_bytes = {self.sector_bytes}")
        if self.slices % self.partitions:
            raise ValueError(f"slices = {self.slices} do not share out over partitions = {self.partitions}")
        return self


class Dram(Table):
    """Device memory."""

    peak_gbs: Rate = Field(description="peak bandwidth, 1e9 bytes a second")
    efficiency: Fraction = Field(description="of the peak that streaming reads reach")
    latency_cycles: Cycles = Field(description="L2 miss to data in L2, beyond the L2 hit latency")
    turnaround_fraction: Share = Field(description="of read bandwidth lost when reads and writes are mixed")
    channels: Annotated[int, Field(gt=0, le=4096)] = Field(description="channels; a multiple of l2.slices / l2.partitions")
    banks: Annotated[int, Field(gt=0, le=4096)] = Field(description="banks of a channel, each with one row open")
    row_bytes: Count = Field(description="row of a bank, bytes")
    activate_ns: Nanoseconds = Field(description="opening a row, until it can be read (tRCD)")
    precharge_ns: Nanoseconds = Field(description="closing a row (tRP)")
    row_cycle_ns: Nanoseconds = Field(description="between two activations of one bank, at least (tRC)")
    capacity_gb: Rate = Field(description="capacity, GB")


class Launch(Table):
    """Kernel and CTA launch."""

    kernel_us: Microseconds = Field(description="from the launch of a kernel to its first CTA, microseconds")
    gap_us: Microseconds = Field(description="idle time between two kernels of one stream, microseconds")
    grid_sync_us: Microseconds = Field(0.0, description="grid barrier, from the last CTA until all go on, microseconds")
    cta_gap_cycles: Cycles = Field(description="CTA exit to the start of its successor in the same place")
    cta_dispatch_cycles: Cycles = Field(description="between CTAs dispatched, chip-wide")
