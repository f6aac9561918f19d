"""Lower a kernel graph to what the engine executes: demands become flat tables, tensors get addresses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..graph import EdgeKind, KernelGraph, Node, Template
from ..hwconfigs import Hardware
from .blocks import blocks_of
from .demand import Demand, MemoryAccess, Stage, demand_of
from .errors import SimulationError
from .memory import DeviceMemory, carried_input, tensor_views
from .network import crossbar_transit_cycles
from .occupancy import Occupancy, gpcs
from .runs import NEXT_RUN, edges_of_runs, program_order, sequence_period
from .stream import EarlyStart

TICKS_PER_CYCLE = 1 << 16
#: What no single piece of work or latency may exceed; the engine refuses runs that would take longer in all.
MOST_CYCLES = 2.0**46
_SCOPES = {"subpartition": 0, "sm": 1, "tpc": 2, "gpc": 3, "chip": 4}
_DIRECTIONS = {"load": 0, "store": 1, "atomic": 2}
_POOLS = {"tma": 0, "lsu": 1}
_KINDS = {"warp": 0, "unit": 1, "memory": 2}
_PLACEMENTS = {"order": 0, "naive": 1, "topology": 2}
_SIGNALS = {"": 0, "trigger": 1, "wait": 2, "grid": 3}
#: Fidelity "fast": CTAs are left out where four periods in a row take the same time within this spread, and the trend of up to
#: twelve would change the mean of those left out by less than this drift.
STEADY_SPREAD, STEADY_DRIFT = 0.005, 0.002
POLICIES = {"gto": 0, "lrr": 1, "oldest": 2}

_STAGE_COLUMNS = 7

#: Cycles of work after which a node lets others in (sub-operations), and the most sub-operations a stage is cut into.
QUANTUM_CYCLES = {"warp": 64, "unit": 256, "memory": 64}
MAX_PIECES = 16
#: Lines that one event moves in bulk fidelity into and out of an SM. Measured against `line`: larger ones cost accuracy,
#: smaller ones events (benchmarks/fidelity.py prints the difference).
CHUNK_LINES = 32
STORE_CHUNK_LINES = 8


def ticks(cycles: float) -> int:
    """Cycles as integer engine time.

    Raises:
        SimulationError: more than the engine can count, or not a number.
    """
    if not abs(cycles) <= MOST_CYCLES:
        raise SimulationError(f"{cycles:g} cycles: the run would take longer than 2^46 cycles")
    return round(cycles * TICKS_PER_CYCLE)


def q16(cycles_per_unit: float) -> int:
    """Ticks a unit with 16 fractional bits."""
    return round(cycles_per_unit * TICKS_PER_CYCLE * 65536)


@dataclass
class _Tables:
    hw: Hardware
    resources: dict[str, int]
    clusters: bool  #: whether CTAs come in clusters
    use_resource: list[int] = field(default_factory=list)
    use_sub: list[int] = field(default_factory=list)
    use_peer: list[int] = field(default_factory=list)
    use_ticks: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    stages: list[int] = field(default_factory=list)
    demands: list[int] = field(default_factory=list)
    signals: list[int] = field(default_factory=list)
    fetched: dict[str, int] = field(default_factory=dict)  #: numbers of what accesses need an SM to have fetched
    register_buffers: set[str] = field(default_factory=set)  #: tensors that warps load into or store from registers

    def resource(self, name: str, node: Node) -> int:
        try:
            return self.resources[name]
        except KeyError:
            import difflib

            near = difflib.get_close_matches(name, self.resources, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(self.resources)}."
            raise SimulationError(
                f"{node.label()}: {self.hw.name} has no resource {name!r}. {hint} New resources are declared as "
                f"[resources.{name}] in a TOML override."
            ) from None

    def add_demand(self, node: Node, demand: Demand) -> int:
        begin = len(self.stages) // _STAGE_COLUMNS
        held = 0
        stages = list(demand.stages)
        for i, stage in enumerate(stages):
            if stage.kind not in _KINDS:
                raise SimulationError(f"{node.label()}: stage kind {stage.kind!r} is none of {', '.join(_KINDS)}")
            if stage.kind == "warp":
                if held and any(s.kind != "warp" for s in stages[:i]):
                    raise SimulationError(f"{node.label()}: warp stages must come first")
                if stage.hold_cycles > 0:
                    self._stage(node, replace(stage, hold_cycles=0.0, latency_cycles=stage.hold_cycles, message=None))
                    self._stage(node, Stage("warp", {}, 0.0, stage.latency_cycles, message=stage.message))
                    held += 2
                else:
                    self._stage(node, stage)
                    held += 1
            else:
                self._stage(node, stage)
        self.demands += [begin, len(self.stages) // _STAGE_COLUMNS, held]
        if demand.signal not in _SIGNALS:
            raise SimulationError(f"{node.label()}: signal {demand.signal!r} is none of 'trigger', 'wait', 'grid' and ''")
        self.signals.append(_SIGNALS[demand.signal])
        return len(self.demands) // 3 - 1

    def _stage(self, node: Node, stage: Stage) -> None:
        first = len(self.use_resource)
        longest = 0.0
        lanes: dict[int, int] = {}
        for w in node.warps:
            sub = w % self.hw.sm.subpartitions
            lanes[sub] = lanes.get(sub, 0) + 1
        peer = -1 if stage.cta == node.cta else stage.cta
        if stage.remote and not stage.uses:
            raise SimulationError(f"{node.label()}: a stage with work on another SM needs some on its own too")
        for name, work, at in (*((n, w, -1) for n, w in stage.uses.items()), *((n, w, peer) for n, w in stage.remote.items())):
            if not work >= 0 or math.isinf(work):
                raise SimulationError(f"{node.label()}: work {work} on {name} is not a finite number of at least 0")
            index = self.resource(name, node)
            info = self.hw.resources[name]
            if at >= 0 and info.scope == "subpartition":
                raise SimulationError(f"{node.label()}: {name} belongs to sub-partitions and takes no work of another SM")
            shares = (
                [(sub, n / len(node.warps)) for sub, n in sorted(lanes.items())] if info.scope == "subpartition" else [(-1, 1.0)]
            )
            for sub, share in shares:
                cycles = work * share / info.rate_per_cycle
                longest = max(longest, cycles)
                self.use_resource.append(index)
                self.use_sub.append(sub)
                self.use_peer.append(at)
                self.use_ticks.append(ticks(cycles))
        access = -1
        if stage.kind == "memory":
            if stage.access is None:
                raise SimulationError(f"{node.label()}: a memory stage needs an access")
            access = self._access(node, stage.access)
        if stage.kind == "unit" and not stage.uses:
            raise SimulationError(f"{node.label()}: a unit stage needs at least one resource")
        if stage.kind == "unit" and stage.queue is not None:
            if stage.queue < 0:
                raise SimulationError(f"{node.label()}: a queue has a number of at least 0, not {stage.queue}")
            access = stage.queue
        fitting = math.ceil(longest / QUANTUM_CYCLES[stage.kind])
        pieces = max(1, min(fitting if stage.pieces is None else stage.pieces, fitting, MAX_PIECES))
        self.stages += [_KINDS[stage.kind], first, len(self.use_resource), ticks(stage.latency_cycles), pieces, access,
                        self._message(node, stage, first)]  # fmt: skip

    def _message(self, node: Node, stage: Stage, first_use: int) -> int:
        m = stage.message
        if m is None or m.cta == node.cta or not self.clusters:
            return -1
        out = -1
        if m.nbytes:
            if m.cta < 0:
                raise SimulationError(f"{node.label()}: a message with data goes to one CTA")
            port = self.resource("sm_to_sm_out", node)
            uses = range(first_use, len(self.use_resource))
            out = next((u for u in uses if self.use_resource[u] == port and (self.use_peer[u] >= 0) == m.fetch), -1)
            if out < 0 or all(self.use_peer[u] < 0 for u in uses):
                raise SimulationError(f"{node.label()}: a message with data takes sm_to_sm_out of the SM that it leaves, and has "
                                      "work on the other SM too")
        self.messages += [m.cta, out, int(m.fetch), int(m.nbytes)]
        return len(self.messages) // 4 - 1

    def _access(self, node: Node, a: MemoryAccess) -> int:
        rate = {
            name: self.hw.resources[name].rate_per_cycle
            for name in (a.front, a.port, *([a.sink] if a.sink else []))
            if self.resource(name, node) >= 0
        }
        if a.tile >= len(node.tiles) or node.tiles[a.tile].buffer.scope != "global":
            raise SimulationError(f"{node.label()}: the memory access must name a tile in global memory")
        if a.sink is None:
            self.register_buffers.add(node.tiles[a.tile].buffer.name)
        self.memory += [
            _DIRECTIONS[a.direction],
            int(a.merge_rows),
            a.tile,
            self.resource(a.front, node),
            self.resource(a.port, node),
            self.resource(a.sink, node) if a.sink else -1,
            _POOLS[a.pool],
            q16(1 / rate[a.front]),
            q16(a.port_work / rate[a.port]),
            q16(a.sink_work / rate[a.sink]) if a.sink else 0,
            a.request_bytes,
            a.write_bytes,
            ticks(a.launch_cycles),
            a.receivers,
            self.fetched.setdefault(a.needs, len(self.fetched)) if a.needs else -1,
            ticks(a.fetch_cycles),
        ]
        return len(self.memory) // 16 - 1


def _template(graph: KernelGraph, t: Template, tables: _Tables, memo: dict[Any, int]) -> dict[str, Any]:
    tile_key = np.concatenate([t.tile_buffer[:, None], t.tile_mode[:, None], t.tile_cta[:, None], t.tile_extent], axis=1).astype(
        np.int64
    )
    demand = np.empty(t.nodes, dtype=np.int32)
    for i in range(t.nodes):
        key = (
            int(t.node_type[i]),
            int(t.node_attrs[i]),
            int(t.node_warps[i]),
            bool(t.node_blocking[i]),
            int(t.node_cta[i]),
            tile_key[t.tile_ptr[i] : t.tile_ptr[i + 1]].tobytes(),
        )
        found = memo.get(key)
        if found is None:
            node = graph.node(t, i)
            found = memo[key] = tables.add_demand(node, demand_of(node, tables.hw))
        demand[i] = found
    which, source, mode = edges_of_runs(t)
    issues = t.edge_kind[which] == EdgeKind.ISSUE
    warp, place = program_order(t)
    dst = t.edge_dst[which]
    order = np.lexsort((place[dst], mode == NEXT_RUN, warp[dst], ~issues, source))
    edge_ptr = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=t.nodes))]).astype(np.int32)
    issue = np.bincount(source[issues], minlength=t.nodes)
    in_degree = np.bincount(t.edge_dst, minlength=t.nodes).astype(np.int32)
    first = np.flatnonzero(in_degree == 0)
    repeats = [t.repeat_first, t.repeat_nodes, t.repeat_times, t.repeat_column]
    return {
        "demand": demand,
        "in_degree": in_degree,
        "first": first[np.argsort(place[first])].astype(np.int32),
        "edge_ptr": edge_ptr,
        "issue_end": (edge_ptr[:-1] + issue).astype(np.int32),
        "edge_dst": np.ascontiguousarray(dst[order]),
        "edge_reason": t.edge_reason[which][order].astype(np.uint8),
        "edge_mode": mode[order],
        "repeats": np.stack(repeats, axis=1).astype(np.int64).reshape(-1),
        "tile_step": t.steps().reshape(-1) if len(t.repeat_first) else np.zeros(0, dtype=np.int64),
        "tile_ptr": t.tile_ptr,
        "tile_buffer": t.tile_buffer,
        "tile_column": t.tile_column.reshape(-1),
        "tile_extent": t.tile_extent.reshape(-1),
        "tile_offset": t.tile_offset.reshape(-1),
        "rank": t.tile_offset.shape[1],
        "node_cta": t.node_cta,
    }


def _memory(hw: Hardware, clock_mhz: float) -> dict[str, Any]:
    """Slices of the L2 and channels of the DRAM, for the engine."""
    l2, dram = hw.l2, hw.dram
    gpc_sms = gpcs(hw)
    sides = [gpc * l2.partitions // len(gpc_sms) for gpc in range(len(gpc_sms))]
    return {
        "l2_slices": l2.slices,
        "l2_partitions": l2.partitions,
        "l2_folded_hash": int(l2.hash == "xor"),
        "l2_remote_copy": int(l2.remote_copy),
        "l2_warm": int(l2.warm_at_start),
        "l2_mshr_per_slice": l2.mshr_per_slice,
        "l2_coalescer_sms": l2.coalescer_sms if l2.coalescer else 1,
        "l2_side": np.repeat(np.array(sides, dtype=np.int32), gpc_sms),
        "dram_channels": dram.channels,
        "dram_banks": dram.banks,
        "dram_row_lines": max(1, dram.row_bytes // l2.line_bytes),
        "dram_activate": ticks(dram.activate_ns * clock_mhz / 1e3),
        "dram_precharge": ticks(dram.precharge_ns * clock_mhz / 1e3),
        "dram_row_cycle": ticks(dram.row_cycle_ns * clock_mhz / 1e3),
    }


def _network(hw: Hardware, names: Sequence[str]) -> dict[str, int]:
    """The network between SMs; a GPU without clusters has none, and its graphs send nothing."""
    port = names.index("sm_to_sm_in") if hw.cluster.supported else -1
    return {
        "network_mesh": int(hw.cluster.network == "mesh"),
        "network_columns": max(hw.cluster.mesh_columns, 1),
        "network_transit": ticks(crossbar_transit_cycles(hw)),
        "network_hop": ticks(hw.cluster.hop_cycles),
        "network_link_q16": q16(1 / hw.cluster.link_bytes_per_cycle) if hw.cluster.supported else 0,
        "network_placement": _PLACEMENTS[hw.cluster.placement],
        "network_in_resource": port,
        "network_in_q16": q16(1 / hw.resources["sm_to_sm_in"].rate_per_cycle) if port >= 0 else 0,
    }


def _watched(graph: KernelGraph) -> int:
    """Instances that fidelity "fast" must have watched: two rows of the grid, where it has rows."""
    row = max(1, graph.launch.grid[0] // graph.launch.cluster_ctas)
    return min(2 * row, len(graph.instances)) if len(graph.instances) > row else 0


def compile_program(
    graph: KernelGraph,
    hw: Hardware,
    residency: Occupancy,
    *,
    clock_mhz: float,
    by_line: bool,
    policy: str,
    skip: bool = False,
    start: EarlyStart | None = None,
    memory: DeviceMemory | None = None,
) -> tuple[dict[str, Any], Sequence[str]]:
    """Engine input for `graph` on `hw`, and the names of its resources in engine order. With `memory`, its tensors lie where that
    says, and the engine tells what is in the L2 at the end.

    Raises:
        SimulationError: a node has no demand, or asks for a resource that the hardware lacks.
    """
    names = list(hw.resources)
    tables = _Tables(hw, {name: i for i, name in enumerate(names)}, graph.launch.cluster_ctas > 1)
    memo: dict[Any, int] = {}
    templates = [_template(graph, t, tables, memo) for t in graph.templates]
    blocks = blocks_of(graph, tables.register_buffers)
    tensors = tensor_views(graph, blocks, memory or DeviceMemory().placed(graph))
    cycles_per_byte = clock_mhz * 1e6 / (hw.dram.peak_gbs * 1e9 * hw.dram.efficiency)
    line = hw.l2.line_bytes
    machine = {
        "sms": hw.chip.sm_count,
        "subpartitions": hw.sm.subpartitions,
        "ctas_per_sm": residency.ctas_per_sm,
        "cluster_size": graph.launch.cluster_ctas,
        "gpc_end": np.cumsum(gpcs(hw), dtype=np.int32),
        **_network(hw, names),
        "line_bytes": line,
        "sector_bytes": hw.l2.sector_bytes,
        "scopes": np.array([_SCOPES[hw.resources[n].scope] for n in names], dtype=np.int32),
        "l2_resource": names.index("l2"),
        "l2_write_resource": names.index("l2_write"),
        "l2_write_q16": q16(1 / hw.resources["l2_write"].rate_per_cycle),
        "l2_q16": q16(1 / hw.resources["l2"].rate_per_cycle),
        "dram_q16": q16(cycles_per_byte),
        "dram_turn_q16": q16(cycles_per_byte * hw.dram.turnaround_fraction),
        "l2_capacity": hw.l2.capacity_bytes,
        "l2_foreign": int(hw.l2.capacity_bytes * hw.l2.dirty_at_start),
        "l2_near": ticks(hw.l2.latency_near_cycles),
        "l2_far": ticks(hw.l2.latency_far_cycles),
        "dram_latency": ticks(hw.dram.latency_cycles),
        **_memory(hw, clock_mhz),
        "pool_lines": np.array(
            [hw.tma.inflight_lines if hw.tma.supported else 1, hw.lsu.inflight_sectors * hw.l2.sector_bytes // line],
            dtype=np.int64,
        ),
        "first_touch_entries": min(hw.tma.descriptor_cache_entries, 1 << 20) if hw.tma.supported else 1,
        "kernel_launch": ticks(hw.launch.kernel_us * clock_mhz),
        "cta_gap": ticks(hw.launch.cta_gap_cycles),
        "cta_dispatch": ticks(hw.launch.cta_dispatch_cycles),
        "grid_sync": ticks(hw.launch.grid_sync_us * clock_mhz),
        "grid_wait": ticks(start.wait_cycles) if start else 0,
        "place_free": np.rint((start.place_free_cycles if start else np.zeros(0)) * TICKS_PER_CYCLE).astype(np.int64).ravel(),
        "policy": POLICIES[policy],
        "by_line": int(by_line),
        "chunk_lines": 1 if by_line else CHUNK_LINES,
        "store_chunk_lines": 1 if by_line else STORE_CHUNK_LINES,
        "sequence_period": sequence_period(graph) if skip else 0,
        "steady_ctas": _watched(graph),
        "steady_spread_ppm": round(1e6 * STEADY_SPREAD),
        "steady_drift_ppm": round(1e6 * STEADY_DRIFT),
    }
    program: Mapping[str, Any] = {
        "machine": machine,
        **carried_input(graph, tensors, memory),
        "use_resource": np.array(tables.use_resource, dtype=np.int32),
        "use_sub": np.array(tables.use_sub, dtype=np.int32),
        "use_peer": np.array(tables.use_peer, dtype=np.int32),
        "use_ticks": np.array(tables.use_ticks, dtype=np.int64),
        "memory": np.array(tables.memory, dtype=np.int64),
        "messages": np.array(tables.messages, dtype=np.int64),
        "stages": np.array(tables.stages, dtype=np.int64),
        "demands": np.array(tables.demands, dtype=np.int32),
        "signals": np.array(tables.signals, dtype=np.uint8),
        "templates": templates,
        "instance_template": graph.instances.template,
        "columns": np.ascontiguousarray(graph.instances.columns).reshape(-1),
        "columns_width": graph.instances.columns.shape[1],
    }
    return dict(program), names
