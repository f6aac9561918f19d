"""From a captured kernel to a kernel graph."""

from __future__ import annotations

import gc
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...graph import CheckError, GraphError, KernelGraph, TileGraphBuilder, TileRef
from ...graph import check as check_graph
from ..errors import FrontendError
from .capture import CapturedKernel, plain_configs
from .clusters import cluster_blocks, cluster_positions
from .contents import check_metadata
from .emit import emit
from .exact.apply import apply_launch, comparison_meta, comparison_warnings, decided_swizzles
from .exact.compare import compare, decided_memory
from .hoist import hoisted
from .launch import BASE_REGISTERS, MAX_REGISTERS, occupancy_hint, orders_blocks, registers_per_thread, spill_warning
from .memory import MemoryPlan, plan_memory
from .ops.reduce import author_threads
from .outside import outside
from .program import Storage, kernel_count, parse
from .repetition import MAX_PERIOD, Needs, Repetition, Replan
from .schedule import scheduled
from .translate import Translator
from .walk import Record, Shared, Split, Walk

MAX_CLASSES = 4096
MAX_REPLANS = 16


def lower_captured(captured: CapturedKernel, *, symbols: Mapping[str, int] | None = None,
                   metadata: Mapping[str, Any] | None = None, on_unknown: str = "error", name: str | None = None,
                   check: bool = True, index: int | None = None) -> KernelGraph:
    """Build the kernel graph of a captured kernel.

    Args:
        captured: from :func:`capture`.
        symbols: values of symbolic sizes and scalar parameters, by name.
        metadata: integer tensors that steer control flow, by name.
        on_unknown: "error", or "warn" to keep uninterpretable statements as `opaque` nodes.
        name: name of the graph; the kernel's by default.
        check: run :func:`gtsim.graph.check` on the result.
        index: which kernel of a program that holds several.

    Raises:
        FrontendError: the kernel cannot be interpreted; the message names the statement.
        GraphError: deadlock, mismatched arrivals or a race in the kernel.
    """
    collecting = gc.isenabled()
    gc.disable()  # the walk allocates many small tuples and no cycles
    try:
        return _lower(captured, symbols, metadata, on_unknown, name, check, index)
    finally:
        if collecting:
            gc.enable()


def lower_program_captured(captured: CapturedKernel, *, symbols: Mapping[str, int] | None = None,
                           metadata: Mapping[str, Any] | None = None, on_unknown: str = "error", name: str | None = None,
                           check: bool = True) -> list[KernelGraph]:
    """The kernel graphs of a captured program, one a launch, in stream order. Arguments as for :func:`lower_captured`."""
    count = kernel_count(captured)
    base = name or captured.name
    return [lower_captured(captured, symbols=symbols, metadata=metadata, on_unknown=on_unknown,
                           name=base if count == 1 else f"{base}.{i}", check=check, index=i) for i in range(count)]


def _lower(captured: CapturedKernel, symbols: Mapping[str, int] | None, metadata: Mapping[str, Any] | None, on_unknown: str,
           name: str | None, check: bool, index: int | None) -> KernelGraph:
    if on_unknown not in ("error", "warn"):
        raise FrontendError(f"on_unknown must be 'error' or 'warn', not {on_unknown!r}")
    start = time.perf_counter()
    program = parse(captured, symbols, index)
    check_metadata(metadata or {}, program)
    exact = captured.exact.kernels[index or 0] if captured.exact is not None else None
    translator = Translator(program, on_unknown, exact)
    run = translator.finish()
    _drop_workspaces(translator)
    memory = plan_memory(translator.usage.spans, translator.usage.aligned() if translator.arch_number >= 90 else None)
    builder = TileGraphBuilder(name or captured.name, grid=program.grid, cluster=program.cluster, threads=program.threads,
                               arch=captured.arch)
    handles: dict[Storage, int] = {}
    swizzles = decided_swizzles(translator, exact) if exact is not None else {}
    aliases = memory.aliases() if exact is None else decided_memory(program.storages, memory, exact).aliases()
    for storage in program.storages:
        if storage.scope == "global":
            handle = builder.tensor(storage.name, storage.shape, storage.dtype, storage.strides)
        else:
            handle = builder.buffer(storage.name, storage.shape or (1,), storage.dtype, scope=storage.scope,
                                    swizzle_bytes=swizzles.get(storage, translator.usage.swizzle(storage)))
        handles[storage] = handle.index
    barriers = {b.name: builder.barrier(b.name, b.counts) for b in program.barriers}
    shared = Shared(program, translator.layouts, dict(metadata or {}), aliases, handles, barriers,
                    implicit_sync=not plain_configs(captured.pass_configs).get("tl.disable_thread_storage_sync", False),
                    warnings=translator.warnings)
    flops, roles, seen = _walk_classes(builder, shared, run, translator)
    memory = _without_idle_workspaces(translator, memory)
    reallocates = any(kind == "setmaxnreg" for kind, _ in seen)
    math_warps = {w for kind, warps in seen if kind in ("wgmma", "mma", "elementwise", "reduce", "fill") for w in warps}
    hint = occupancy_hint(program)
    wanted, builder.registers_per_thread = (registers_per_thread(
        program, program.storages, reallocates=reallocates, math_threads=32 * len(math_warps) or program.threads,
        tensor_cores=flops > 0, operand_words=shared.operand_words, staging=translator.staging if flops else (), ctas_per_sm=n)
        for n in (0, hint))
    if orders_blocks(program):
        builder.meta["orders_blocks"] = True
    if hint:
        builder.meta.update({"min_blocks_per_sm": hint, "registers_wanted": wanted})
    builder.smem_bytes = memory.nbytes + sum(-(-8 * len(b.counts) // 16) * 16 for b in program.barriers if not b.named)
    if exact is not None:
        facts = compare(translator, shared, exact, memory, builder.smem_bytes, builder.registers_per_thread)
        apply_launch(builder, exact)
        builder.meta.update(comparison_meta(exact, facts))
        for text in comparison_warnings(exact, facts):
            translator.warn(text)
    spills = spill_warning(program.storages, 32 * len(math_warps) or program.threads)
    if spills:
        translator.warn(spills)
    builder.meta.update({
        "detail": "fast" if exact is None else "exact",
        "own_place": [s.name for s in program.storages if s.scope == "global" and s not in program.params.values()],
        "kernel": captured.name, "arch": captured.arch, "tilelang": captured.version, "flops": flops, "roles": roles,
        "warnings": list(translator.warnings), "pass_configs": {k: _jsonable(v) for k, v in captured.pass_configs.items()}})
    seconds = {"capture": captured.seconds, "graph": 0.0}
    builder.meta["seconds"] = seconds
    graph = builder.build(check=False)
    if metadata:
        graph.meta["warnings"].extend(outside(graph))
    if check:
        _refuse(graph)
    seconds["graph"] = time.perf_counter() - start
    return graph


def _refuse(graph: KernelGraph) -> None:
    """Refuse a graph that hangs or goes out of bounds. A race still takes some time: it is a warning."""
    findings = [f for f in check_graph(graph) if f.severity == "error"]
    fatal = [f for f in findings if f.kind != "race"]
    if fatal:
        raise CheckError(fatal)
    graph.meta["warnings"].extend(f"race at {f.where}: {f.line()} (gtsim check says more)" for f in findings)


def _drop_workspaces(translator: Translator) -> None:
    """Forget the shared memory of the reductions that do not cross warps, by the thread count of the author's launch."""
    threads = author_threads(translator)
    for operation, _ in translator.reductions:
        try:
            rounds = operation.spread(max(threads // 32, 1), threads)[1]
        except Exception:  # noqa: BLE001  a partition that does not exist for that many threads: roles are hand-written
            rounds = 0
        if not rounds:
            translator.usage.spans.pop(operation.workspace, None)


def _without_idle_workspaces(translator: Translator, memory: MemoryPlan) -> MemoryPlan:
    """The plan without the shared memory of reductions that did not cross warps: those of a role that has fewer warps than the
    launch."""
    spans = translator.usage.spans
    idle = [o.workspace for o, _ in translator.reductions if not o.crosses and spans.pop(o.workspace, None) is not None]
    return plan_memory(spans, translator.usage.aligned() if translator.arch_number >= 90 else None) if idle else memory


def _walk_classes(builder: TileGraphBuilder, shared: Shared, run: Any,
                  translator: Translator) -> tuple[int, list[str], set[tuple[str, tuple[int, ...]]]]:
    """Walk each class of blocks that take the same path; a class that turns out to differ is split and walked again.

    Returns floating-point operations of the tensor cores, roles, and which warps execute which kinds of node.
    """
    grid, cluster = shared.program.grid, shared.program.cluster
    blocks, positions = cluster_blocks(grid, cluster), cluster_positions(grid, cluster, translator.swizzle)
    queue = deque([(np.arange(len(blocks)), True)])
    needs = Needs()
    early = _scheduler(shared)
    flops, done, replans = 0, 0, 0
    roles: dict[str, None] = {}
    seen: set[tuple[str, tuple[int, ...]]] = set()
    while queue:
        members, cut = queue.popleft()
        template = builder.template(f"class {done}")
        repetition = Repetition(needs, enabled=cut and replans < MAX_REPLANS)
        walks: list[Walk] = []
        try:
            for rank in range(blocks.shape[1]):  # every CTA of the cluster; one without
                first = walks[0] if walks else None
                walks.append(Walk(shared, blocks[members, rank], template, repetition.of_rank(rank), rank, first))
                run(walks[-1])
        except Replan:
            replans += 1
            queue.appendleft((members, cut))
            continue
        except Split as split:
            values, groups = np.unique(split.values, return_inverse=True)
            parts = [members[groups.reshape(-1) == i] for i in range(len(values))]
            if len(queue) + len(parts) + done > MAX_CLASSES:
                raise FrontendError(f"the blocks take more than {MAX_CLASSES} different paths", where=shared.program.name,
                                    fix="Use a smaller problem.") from None
            queue.extendleft((part, cut) for part in reversed(parts))
            continue
        except FrontendError as e:
            if repetition.regions:  # told with all iterations
                queue.appendleft((members, False))
                continue
            if e.where:
                raise
            raise type(e)(e.problem, where=translator.where(e), fix=e.fix) from e
        for walk in walks:
            if not walk.records:  # these blocks return at once
                walk.ctl(1, 1, "exit")
                walk.flush()
        template.name = _name_of(blocks[members, 0], len(blocks))
        longer = max(walk.repetition.stretch(walk.records) for walk in walks) if repetition.regions else 1
        if longer > 1:
            replans += 1
            fits = needs.period * longer <= MAX_PERIOD
            needs.period *= longer if fits else 1
            queue.appendleft((members, cut and fits))
            continue
        template.repeats = [walks[0].origin(region.times) for region in repetition.regions]
        for walk in walks:
            walk.records = early(walk.records)
        found = [role for walk in walks
                 for role in emit(hoisted(walk.records, shared.bits), template, walk.repetition, walk.rank)]
        if repetition.regions:
            try:
                template.finish()
            except GraphError:  # its periods differ after all, or it hangs, which is told with all iterations
                queue.appendleft((members, False))
                continue
        roles.update(dict.fromkeys(found))
        builder.add_instances(template, blocks[members, 0], walks[0].columns, positions[members])
        for walk in walks:
            flops += walk.flops * len(members)
            seen.update((r[0], r[1]) for r in walk.records)
        for region in repetition.regions:
            more = region.times - 1
            flops += region.flops * int(more.sum() if isinstance(more, np.ndarray) else more * len(members))
        done += 1
    return flops, list(roles), seen


def _scheduler(shared: Shared) -> Callable[[list[Record]], list[Record]]:
    """The assembler's order of a CTA's records."""
    program = shared.program
    buffers = {number: storage for storage, number in shared.handles.items()}
    live = sum(s.nbytes / 4 / program.threads if s.scope == "fragment" else s.nbytes / 4 for s in program.storages
               if s.scope in ("fragment", "local") and "." not in s.name)

    def words(tile: TileRef) -> float:
        return math.prod(tile.extent) * buffers[tile.buffer].bits / 32

    def registers(number: int) -> bool:
        return buffers[number].scope in ("fragment", "local")

    return lambda records: scheduled(records, registers, words, MAX_REGISTERS - BASE_REGISTERS - live)


def _name_of(members: Any, total: int) -> str:
    """What messages call a class of blocks."""
    first = f"({', '.join(str(int(n)) for n in members[0])})"
    if len(members) == total:
        return "every block"
    return f"block {first}" if len(members) == 1 else f"blocks like {first}"


def _jsonable(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


__all__ = ["GraphError", "lower_captured", "lower_program_captured"]
