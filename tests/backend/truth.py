"""What a run must come to, worked out from the graph and the demands of its nodes alone, without the engine."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from gtsim.backend.compile import TICKS_PER_CYCLE
from gtsim.backend.demand import Demand, MemoryAccess, Stage, demand_of
from gtsim.graph import EdgeKind, KernelGraph, Node
from gtsim.hwconfigs import Hardware


def rows(node: Node, access: MemoryAccess, origin: list[int]) -> list[tuple[int, int]]:
    """Runs of bytes [first, end) that the tile covers within its tensor; rows that touch are one where they may merge."""
    tile = node.tiles[access.tile]
    low = [max(o, 0) for o in origin]
    high = [min(o + e, n) for o, e, n in zip(origin, tile.extent, tile.buffer.shape, strict=True)]
    if any(h <= x for x, h in zip(low, high, strict=True)):
        return []
    size, strides = tile.buffer.bits // 8, tile.buffer.element_strides()
    assert strides[-1] == 1
    out: list[tuple[int, int]] = []
    for index in product(*(range(x, h) for x, h in zip(low[:-1], high[:-1], strict=True))):
        first = size * (sum(i * s for i, s in zip(index, strides, strict=False)) + low[-1])
        end = first + size * (high[-1] - low[-1])
        if out and access.merge_rows and out[-1][1] == first:
            out[-1] = out[-1][0], end
        else:
            out.append((first, end))
    return out


@dataclass
class Truth:
    """Totals of a run. Sectors are (tensor, number) pairs; bytes count every access again."""

    ticks: dict[str, int] = field(default_factory=lambda: defaultdict(int))  #: work, resource -> ticks, but for memory stages
    executions: int = 0
    read_bytes: int = 0  #: whole sectors of all loads
    written_bytes: int = 0
    lines: int = 0  #: of all loads and stores
    loaded: set[tuple[str, int]] = field(default_factory=set)
    stored: set[tuple[str, int]] = field(default_factory=set)
    updated: set[tuple[str, int]] = field(default_factory=set)  #: by atomics
    port_bytes: int = 0  #: of loads, at every SM that receives them
    critical: list[float] = field(default_factory=list)  #: least cycles from the start of each instance to its end


class Oracle:
    """Walks every instance of a graph without repeats."""

    def __init__(self, graph: KernelGraph, hw: Hardware) -> None:
        self.graph, self.hw, self.truth = graph, hw, Truth()
        self.sector = hw.l2.sector_bytes
        for t, template in enumerate(graph.templates):
            nodes = list(graph.nodes_of(template))
            demands = [demand_of(node, hw) for node in nodes]
            mine = graph.instances.columns[graph.instances.template == t]
            order = np.argsort(template.edge_src(), kind="stable")
            edges = list(zip(template.edge_src()[order].tolist(), template.edge_dst[order].tolist(),
                             (template.edge_kind[order] == EdgeKind.ISSUE).tolist(), strict=True))
            behind: dict[int, list[tuple[int, bool]]] = defaultdict(list)
            for source, dst, issue in edges:
                behind[source].append((dst, issue))
            for columns in mine.tolist():
                self._instance(nodes, demands, behind, columns)

    def _instance(self, nodes: list[Node], demands: list[Demand], behind: dict[int, list[tuple[int, bool]]],
                  columns: list[int]) -> None:
        ready = [0.0] * len(nodes)
        latest = 0.0
        for i, (node, demand) in enumerate(zip(nodes, demands, strict=True)):
            issued, done = self._execute(node, demand, columns)
            latest = max(latest, ready[i] + max(issued, done))
            for dst, issue in behind[i]:
                assert dst > i
                ready[dst] = max(ready[dst], ready[i] + (issued if issue else done))
        self.truth.critical.append(latest)

    def _execute(self, node: Node, demand: Demand, columns: list[int]) -> tuple[float, float]:
        """Least cycles from the start of a node until its warps go on, and until it completes; adds its work to the totals."""
        self.truth.executions += 1
        issued = at = 0.0
        for stage in demand.stages:
            took = self._memory(node, stage.access, columns) if stage.access else self._work(node, stage)
            if stage.kind == "warp":
                issued = at + took + stage.hold_cycles
            at += took + stage.hold_cycles + stage.latency_cycles
        return issued, at

    def _work(self, node: Node, stage: Stage) -> float:
        longest = 0.0
        lanes: dict[int, int] = defaultdict(int)
        for w in node.warps:
            lanes[w % self.hw.sm.subpartitions] += 1
        for name, work in (*stage.uses.items(), *stage.remote.items()):
            info = self.hw.resources[name]
            shares = [n / len(node.warps) for n in lanes.values()] if info.scope == "subpartition" else [1.0]
            for share in shares:
                cycles = work * share / info.rate_per_cycle
                self.truth.ticks[name] += round(cycles * TICKS_PER_CYCLE)
                longest = max(longest, cycles)
        return longest

    def _memory(self, node: Node, access: MemoryAccess, columns: list[int]) -> float:
        tile = node.tiles[access.tile]
        origin = [o + (columns[c] if c >= 0 else 0) for o, c in zip(tile.offset, tile.column, strict=True)]
        runs = rows(node, access, origin)
        if not runs:
            return access.launch_cycles
        name, line = tile.buffer.name, self.hw.l2.line_bytes
        numbers = [(name, s) for a, b in runs for s in range(a // self.sector, (b - 1) // self.sector + 1)]
        nbytes = self.sector * len(numbers)
        self.truth.lines += sum((b - 1) // line - a // line + 1 for a, b in runs)
        port = nbytes / self.hw.resources[access.port].rate_per_cycle
        if access.direction == "load":
            self.truth.read_bytes += nbytes
            self.truth.port_bytes += nbytes * (1 + access.receivers.bit_count())
            self.truth.loaded.update(numbers)
            return access.launch_cycles + min(self.hw.l2.latency_near_cycles, self.hw.l2.latency_far_cycles) + port
        self.truth.written_bytes += nbytes
        (self.truth.updated if access.direction == "atomic" else self.truth.stored).update(numbers)
        return access.launch_cycles + port


def truth(graph: KernelGraph, hw: Hardware) -> Truth:
    """The totals of `graph`, all its runs written out."""
    return Oracle(graph.unrolled(), hw).truth


def counters(case: Any, graph: KernelGraph | None = None) -> dict[str, Any]:
    """What the engine itself counts for a case, in ticks."""
    from gtsim.backend import _engine, occupancy
    from gtsim.backend.compile import compile_program

    graph = graph or case.graph
    program, names = compile_program(
        graph, case.hw, occupancy(graph, case.hw), clock_mhz=case.hw.chip.clock_mhz, by_line=case.options["fidelity"] == "line",
        policy=case.options["policy"], start=case.early(),
    )
    raw = _engine.run(program)
    return {**raw, "busy": dict(zip([*names, "dram"], raw["busy"].tolist(), strict=True))}
