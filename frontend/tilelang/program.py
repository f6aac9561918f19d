"""The captured PrimFunc taken apart: grid, threads, tensors, on-chip buffers, barriers, and the body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import FrontendError
from .capture import CapturedKernel
from .clusters import cluster_dims
from .expr import BLOCK, THREAD, ExprCompiler, Value, text_of

_SCOPES = {"global": "global", "shared": "shared", "shared.dyn": "shared", "local.fragment": "fragment", "local": "local",
           "local.var": "local", "local.reducer": "fragment", "shared.tmem": "tmem"}
_CUSTOM = {"tfloat32": "float32"}
_BARRIERS = ("shared.barrier", "shared.cluster_barrier")


@dataclass
class Storage:
    """One buffer of the program; views of one storage with one shape are the same Storage."""

    index: int
    name: str
    scope: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dynamic: bool = True  #: dynamic shared memory (static otherwise)
    source_dtype: str = ""  #: element type as the IR spells it

    @property
    def bits(self) -> int:
        """Bits of one element."""
        from ...graph import dtype_bits

        return dtype_bits(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole buffer."""
        total = self.bits
        for extent in self.shape:
            total *= extent
        return (total + 7) // 8

    def __hash__(self) -> int:
        return self.index

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass
class BarrierArray:
    """An array of mbarriers and the arrivals a phase of each needs."""

    name: str
    counts: list[int]
    named: bool = False  #: a hardware named barrier, not an mbarrier in shared memory
    cluster: bool = False  #: allocated as a barrier that other CTAs of the cluster reach


@dataclass
class Program:
    """A captured kernel, ready to be translated."""

    name: str
    arch: str
    target: Any
    body: Any
    grid: tuple[int, int, int]
    threads: int
    block_vars: dict[Any, int]
    thread_vars: dict[Any, int]
    thread_extents: tuple[int, int, int]
    symbols: dict[Any, int]
    annotations: Mapping[str, Any]
    func_attrs: Mapping[str, Any]
    pass_configs: Mapping[str, Any]
    cluster: tuple[int, int, int] = (1, 1, 1)
    storages: list[Storage] = field(default_factory=list)
    barriers: list[BarrierArray] = field(default_factory=list)
    params: dict[str, Storage] = field(default_factory=dict)
    _by_data: dict[Any, Any] = field(default_factory=dict)

    def storage(self, buffer: Any) -> Storage:
        """The Storage behind a TIR buffer; declares it on first use."""
        key = buffer.data
        known: list[Storage] = self._by_data.setdefault(key, [])
        shape = tuple(self.size(e, buffer) for e in buffer.shape)
        for storage in known:
            if storage.shape == shape and storage.source_dtype == str(buffer.dtype):
                return storage
        scope = str(buffer.scope())
        if scope not in _SCOPES:
            raise FrontendError(f"buffers in scope {scope!r} are not supported", where=str(buffer.name))
        strides = tuple(self.size(e, buffer) for e in buffer.strides) if scope == "global" else ()
        name = str(key.name) if scope != "global" and not known else str(buffer.name)
        storage = Storage(len(self.storages), name, _SCOPES[scope], dtype_of(buffer), shape, strides, scope == "shared.dyn",
                          str(buffer.dtype))
        self.storages.append(storage)
        known.append(storage)
        return storage

    def barrier(self, buffer: Any) -> BarrierArray | None:
        """The mbarrier array behind a TIR buffer, or None if it is none."""
        found = self._by_data.get(buffer.data)
        return found if isinstance(found, BarrierArray) else None

    def size(self, expr: Any, buffer: Any = None) -> int:
        """A size as an integer.

        Raises:
            FrontendError: it holds an unbound symbol.
        """
        if type(expr).__name__ == "IntImm":
            return int(expr.value)
        compiler = ExprCompiler(_no_loads, {v: Value(str(n)) for v, n in self.symbols.items()})
        try:
            value = compiler(expr).const
        except FrontendError as e:
            where = f"{self.name} buffer {buffer.name}" if buffer is not None else self.name
            raise FrontendError(f"the size {text_of(expr)} is not known: {e.problem}", where=where, fix=e.fix) from None
        if value is None:
            raise FrontendError(f"the size {text_of(expr)} is not a constant", where=self.name)
        return value

    def compiler(self, load: Any) -> ExprCompiler:
        """An expression compiler that knows symbols, block and thread indices."""
        env = {v: Value(str(n)) for v, n in self.symbols.items()}
        for var, axis in self.block_vars.items():
            env[var] = Value(f"b{axis}", BLOCK) if self.grid[axis] > 1 else Value("0")
        for var, axis in self.thread_vars.items():
            env[var] = Value(f"t{axis}", THREAD) if self.thread_extents[axis] > 1 else Value("0")
        return ExprCompiler(load, env)


def dtype_of(buffer: Any) -> str:
    """Element type of a TIR buffer as the graph spells it."""
    return re.sub(r"^custom\[(\w+)\]\d*", lambda m: _CUSTOM.get(m[1], m[1]), str(buffer.dtype))


def _no_loads(e: Any) -> Value:
    raise FrontendError("a size depends on data", where=text_of(e))


def kernel_count(captured: CapturedKernel) -> int:
    """How many kernels (launches) the captured program holds. Raises FrontendError if there is none."""
    count = sum(len(launches(f.body)) for _, f in captured.module.functions.items())
    if not count:
        raise FrontendError("it launches no kernel", where=captured.name, fix="Put its work under `with T.Kernel(...)`.")
    return count


def parse(captured: CapturedKernel, symbols: Mapping[str, int] | None = None, index: int | None = None) -> Program:
    """Take the captured module apart.

    Args:
        captured: from `capture`.
        symbols: values of symbolic sizes and scalar parameters, by name.
        index: which of several kernels; None demands that there is only one.

    Raises:
        FrontendError: several kernels, an unbound symbolic size, or a shape this frontend does not know.
    """
    functions = [f for _, f in captured.module.functions.items()]
    if len(functions) != 1:
        raise FrontendError(f"{len(functions)} functions in this module, expected one", where=captured.name)
    func = functions[0]
    bound = _bind_symbols(func, symbols or {}, captured.name)
    nests = launches(func.body)
    if not nests:
        raise FrontendError("it launches no kernel", where=captured.name, fix="Put its work under `with T.Kernel(...)`.")
    if len(nests) != 1 and index is None:
        raise FrontendError(f"{len(nests)} kernels in this program, lower() takes one", where=captured.name,
                            fix="gtsim.frontend.lower_program() gives a graph for each.")
    extents: dict[str, tuple[Any, Any]] = {}
    node = nests[index or 0]
    while type(node).__name__ == "AttrStmt" and str(node.attr_key) == "thread_extent":
        extents[str(node.node.thread_tag)] = (node.node.var, node.value)
        node = node.body
    root = node
    while type(root).__name__ != "SBlockRealize" and type(root).__name__ != "BlockRealize":
        root = root.body
    block = root.block
    program = Program(captured.name, captured.arch, captured.target, node, (1, 1, 1), 0, {}, {}, (1, 1, 1), bound,
                      dict(block.annotations), dict(func.attrs) if func.attrs else {}, captured.pass_configs)
    grid, threads = [1, 1, 1], [1, 1, 1]
    for axis, letter in enumerate("xyz"):
        for tag, sizes, names in ((f"blockIdx.{letter}", grid, program.block_vars),
                                  (f"threadIdx.{letter}", threads, program.thread_vars)):
            if tag in extents:
                var, extent = extents[tag]
                sizes[axis] = program.size(extent)
                names[var] = axis
    program.grid, program.thread_extents = (grid[0], grid[1], grid[2]), (threads[0], threads[1], threads[2])
    program.threads = threads[0] * threads[1] * threads[2]
    if min(program.grid) < 1:
        negative = min(program.grid) < 0
        raise FrontendError(f"the grid {program.grid} is {'negative' if negative else 'empty'}", where=captured.name,
                            fix="A size is negative, or does not fit 32 bits." if negative else "Check the problem size.")
    if program.grid[0] * program.grid[1] * program.grid[2] > 1 << 24:
        raise FrontendError(f"the grid {program.grid} has more than 16 million blocks", where=captured.name,
                            fix="Use a smaller problem.")
    program.cluster = cluster_dims(block.annotations, program.grid, captured.arch, captured.name)
    for param in func.params:
        buffer = func.buffer_map[param] if param in func.buffer_map else None
        if buffer is not None:
            program.params[str(buffer.name)] = program.storage(buffer)
    declare(program, block)
    return program


def declare(program: Program, block: Any) -> None:
    """Declare the buffers and barriers that a block allocates."""
    counts = {data: [int(c) for c in values] for data, values in dict(block.annotations.get("barrier_init", {})).items()}
    for buffer in block.alloc_buffers:
        if str(buffer.scope()) in _BARRIERS:
            slots = 1
            for extent in buffer.shape:
                slots *= program.size(extent)
            have = counts.get(buffer.data)
            if have is None or len(have) != slots:
                raise FrontendError(f"the barrier {buffer.data.name!r} has no arrival counts", where=program.name)
            array = BarrierArray(str(buffer.data.name), have, cluster=str(buffer.scope()) == "shared.cluster_barrier")
            program.barriers.append(array)
            program._by_data[buffer.data] = array
        else:
            program.storage(buffer)


def _bind_symbols(func: Any, symbols: Mapping[str, int], name: str) -> dict[Any, int]:
    free: dict[Any, int] = {}
    missing = []
    names = set()
    for param in func.params:
        if param in func.buffer_map:
            buffer = func.buffer_map[param]
            exprs = [*buffer.shape, *buffer.strides]
        else:
            exprs = [param]
        for e in exprs:
            if type(e).__name__ in ("Var", "SizeVar") and e not in free:
                names.add(str(e.name))
                if str(e.name) in symbols:
                    free[e] = int(symbols[str(e.name)])
                elif not str(e.dtype).startswith(("float", "bfloat", "handle")):
                    missing.append(str(e.name))
    unknown = [s for s in symbols if s not in names]
    if unknown:
        raise FrontendError(f"there is no symbolic size {unknown[0]!r}", where=name,
                            fix=f"It has {', '.join(sorted(names))}." if names else "All of its sizes are fixed.")
    if missing:
        one = missing[0]
        raise FrontendError(f"the symbolic size {', '.join(map(repr, dict.fromkeys(missing)))} has no value", where=name,
                            fix=f"Bind it: symbols={{{one!r}: 4096}}.")
    return free


def launches(body: Any) -> list[Any]:
    """The launch nests of a function body, outermost first."""
    kind = type(body).__name__
    if kind == "AttrStmt":
        return [body] if str(body.attr_key) == "thread_extent" else launches(body.body)
    if kind in ("SBlockRealize", "BlockRealize"):
        return launches(body.block.body)
    if kind == "SeqStmt":
        return [nest for s in body.seq for nest in launches(s)]
    if hasattr(body, "body"):
        return launches(body.body)
    return []
