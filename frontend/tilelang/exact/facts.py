"""What TileLang's later passes decide about a kernel: the data model, and its form on disk."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

#: Version of the data below; part of the cache key.
SCHEMA_VERSION = 1

Count = Annotated[int, Field(ge=0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class BufferFacts(_Frozen):
    """Layout of one on-chip buffer.

    Attributes:
        name: as in the kernel; a second buffer of that name has `#1` behind it.
        scope: "shared", "fragment".
        swizzle_bytes: span of the swizzle of a shared buffer: 0 (rows as they are), 32, 64 or 128; None if it is no such swizzle.
        elements: elements of the buffer as it is stored: of a fragment the elements (registers of its type) a thread.
        replicas: how many threads hold the same element of a fragment.
        layout: index of the stored element as the compiler prints it.
    """

    name: str
    scope: str
    swizzle_bytes: int | None = None
    elements: Count = 0
    replicas: Count = 1
    layout: str = ""


class TensorCoreFacts(_Frozen):
    """The tensor-core instructions of one product.

    Attributes:
        unit: "wgmma" or "mma".
        shape: of one instruction, such as "m64n128k16".
        instructions: how many a warpgroup (wgmma) or a warp (mma) executes, those of an n16 product counted as two n8.
        a_register: whether operand A comes from registers (RS) rather than shared memory (SS).
    """

    unit: str
    shape: str
    instructions: Count
    a_register: bool


class TmaFacts(_Frozen):
    """The TMA instructions of one copy.

    Attributes:
        unit: "tma_load" or "tma_store".
        tensor_map: whether they take a tensor map; a contiguous run of bytes needs none.
        box: elements an instruction moves, outermost dimension first; the length of the run without a tensor map.
        instructions: how many one execution of the copy issues.
        swizzle_bytes: swizzle that the tensor map applies: 0, 32, 64 or 128.
        element_strides: of the tensor map, outermost first.
    """

    unit: str
    tensor_map: bool
    box: tuple[int, ...]
    instructions: Count
    swizzle_bytes: int = 0
    element_strides: tuple[int, ...] = ()


class OperationFacts(_Frozen):
    """What one tile operation becomes.

    Attributes:
        place: its number among the tile operations of the kernel, in statement order from 0.
        operation: its kind, such as "copy" or "gemm".
        units: what executes it, sorted: "tma_load", "tma_store", "tma_reduce", "cp_async", "wgmma", "mma", "ldmatrix",
            "stmatrix", "simt" (loads and stores by threads).
    """

    place: Count
    operation: str
    units: tuple[str, ...]
    tensor_core: TensorCoreFacts | None = None
    tma: TmaFacts | None = None


class BarrierFacts(_Frozen):
    """Barriers that the compiler adds between the warps of a block.

    Attributes:
        region: the loops around them, outermost first, such as "k"; empty outside of loops.
        threads: how many threads meet; 0 for all of the block.
        sites: places in the program, not executions.
    """

    region: str
    threads: Count
    sites: Count


class SharedMemoryFacts(_Frozen):
    """Shared memory after the merge, in bytes. `offsets` are places of the dynamic buffers, by name.

    `static_bytes` counts the mbarriers too.
    """

    dynamic_bytes: Count
    static_bytes: Count
    offsets: dict[str, int]


class RegisterFacts(_Frozen):
    """Registers a thread.

    Attributes:
        launch: at launch; None if nobody knows (no reallocation, and no ptxas was found).
        source: "convention" (what TileLang makes of setmaxnreg kernels), "ptxas" or "unknown".
        cap: the most that the launch bounds leave a thread.
        reallocated: what roles set with setmaxnreg, smallest first.
        spill_bytes: bytes a thread that ptxas stores to local memory; None without ptxas.
    """

    launch: int | None
    source: str
    cap: int
    reallocated: tuple[int, ...] = ()
    spill_bytes: int | None = None


class KernelFacts(_Frozen):
    """All facts about one kernel (launch) of the program. `unknown` says of what could not be read why."""

    buffers: tuple[BufferFacts, ...] = ()
    operations: tuple[OperationFacts, ...] = ()
    barriers: tuple[BarrierFacts, ...] = ()
    shared_memory: SharedMemoryFacts | None = None
    registers: RegisterFacts | None = None
    unknown: dict[str, str] = {}

    def buffer(self, name: str) -> BufferFacts | None:
        """The buffer of that name."""
        return next((b for b in self.buffers if b.name == name), None)


class ExactFacts(_Frozen):
    """What :func:`gtsim.frontend.exact_facts` returns.

    Attributes:
        kernels: in launch order.
        arch, tilelang: for which target and by which compiler.
        compiler: what `nvcc --version` says if registers come from ptxas.
    """

    kernels: tuple[KernelFacts, ...]
    arch: str
    tilelang: str
    compiler: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return self.model_dump(mode="json")
