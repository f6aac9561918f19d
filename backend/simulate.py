"""Simulate a kernel graph on a GPU."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..graph import SCHEMA_VERSION, KernelGraph, check, graph_hash
from ..hwconfigs import Hardware, load_hardware
from .compile import POLICIES, TICKS_PER_CYCLE, compile_program
from .deadlock import deadlock_text
from .errors import SimulationError
from .memory import DeviceMemory
from .network import network_of
from .occupancy import gpcs, occupancy
from .result import Result, Traffic
from .stream import EarlyStart, schedule_of
from .summary import bound_by, operations, role_times

FIDELITIES = ("fast", "bulk", "line")
MAX_THREADS = 64


def simulate(
    graph: KernelGraph,
    hw: str | Hardware = "h100_sxm",
    *,
    fidelity: str = "bulk",
    clock_mhz: float | None = None,
    overrides: Mapping[str, Any] | None = None,
    threads: int = 1,
    policy: str = "gto",
    progress: Callable[[float], None] | None = None,
    timeline_sm: int = -1,
    start: EarlyStart | None = None,
    memory: DeviceMemory | None = None,
    tensors: Mapping[str, str] | None = None,
) -> Result:
    """Predict how `graph` runs on `hw`.

    Args:
        graph: the kernel.
        hw: name of a hardware file, path of one, or a loaded one.
        fidelity: "bulk" moves runs of lines as one event, "line" every 128-byte line by itself; "fast" is "bulk" without the CTAs
            that only repeat what others did (`Result.skipped` says how many, and how sure that is).
        clock_mhz: SM clock; the hardware file's if None.
        overrides: dotted path -> value, e.g. {"l2.latency_near_cycles": 200}.
        threads: host threads that share the SMs; the result is the same for any number.
        policy: "gto" (greedy then oldest), "lrr" (loose round-robin) or "oldest".
        progress: called now and then with the share of CTAs that are done.
        timeline_sm: record what runs on this SM in `Result.timeline`.
        start: what earlier kernels of the stream leave to it, if it starts in their shadow; an idle GPU if None.
        memory: what earlier kernels of a sequence left in the L2, an empty one for the first; `Result.memory` is for the next.
        tensors: names of the kernel's tensors in the sequence, where they have others there.

    Raises:
        SimulationError: a graph for another architecture, unknown fidelity or policy, a number of threads out of range, a CTA
            that does not fit an SM, an operation the hardware lacks, a deadlock.
        HardwareError: unknown hardware or override.
    """
    from ._engine import run as run_engine

    if fidelity not in FIDELITIES:
        raise SimulationError(f"unknown fidelity {fidelity!r}. Use one of {', '.join(FIDELITIES)}.")
    if policy not in POLICIES:
        raise SimulationError(f"unknown policy {policy!r}. Use one of {', '.join(POLICIES)}.")
    if not 1 <= threads <= MAX_THREADS:
        raise SimulationError(f"threads={threads} is not between 1 and {MAX_THREADS}.")
    machine = load_hardware(hw, overrides)
    _check_arch(graph, machine)
    clock = float(clock_mhz if clock_mhz is not None else machine.chip.clock_mhz)
    if not 100 <= clock <= 10000:
        raise SimulationError(f"clock_mhz={clock:g} is not between 100 and 10000.")
    for finding in check(graph, races=False):
        if finding.severity == "error":
            raise SimulationError(f"{finding.where}: {finding.text}. {finding.fix}".rstrip())
    residency = occupancy(graph, machine)
    places = (residency.ctas_per_sm, machine.chip.sm_count)
    if "grid_sync" in graph.type_names and residency.waves > 1:
        raise SimulationError(
            f"{graph.name}: a kernel with a grid barrier needs all its {len(graph.instances)} CTAs resident at once; "
            f"{machine.name} holds {places[0] * places[1]}. Launch a smaller grid whose blocks loop over the work, or make a CTA "
            "smaller."
        )
    if start is not None and (not isinstance(start, EarlyStart) or start.place_free_cycles.shape != places):
        raise SimulationError(f"start must be an EarlyStart for {places[0]} CTAs an SM and {places[1]} SMs (see early_start).")
    placed = None if memory is None else memory.placed(graph, tensors)
    if placed is not None:
        placed.check(machine, fidelity)
    started = time.perf_counter()
    program, names = compile_program(
        graph, machine, residency, clock_mhz=clock, by_line=fidelity == "line", policy=policy,
        skip=fidelity == "fast" and timeline_sm < 0, start=start, memory=placed,
    )
    compiled = time.perf_counter()
    try:
        raw = run_engine(program, timeline_sm, threads, progress)
    except RuntimeError as exc:
        raise SimulationError(f"{graph.name}: {deadlock_text(graph, exc)}") from None
    except ValueError as exc:
        raise SimulationError(f"{graph.name}: {exc}") from exc
    simulated = time.perf_counter()
    if raw["skipped"]:
        _complete_counts(graph, raw["nodes"])
    result = _result(
        graph,
        machine,
        raw,
        names,
        clock=clock,
        fidelity=fidelity,
        residency=residency,
        seconds={**graph.meta.get("seconds", {}), "compile": compiled - started, "simulation": simulated - compiled},
        parameters={"policy": policy, "overrides": dict(overrides or {}), "threads": threads},
    )
    return result if placed is None else replace(result, memory=placed.after(raw, program, machine, fidelity))


def _check_arch(graph: KernelGraph, hw: Hardware) -> None:
    """Code for sm_90a runs on sm_90a only; code for sm_80 also on what came later."""
    made, has = graph.launch.arch, hw.chip.arch
    if not made or made == has:
        return
    if made[-1].isdigit() and int(made[3:]) <= int("".join(c for c in has[3:] if c.isdigit())):
        return
    raise SimulationError(
        f"{graph.name} was lowered for {made}, and {hw.name} is {has}. "
        f"Lower it again for this GPU (gtsim graph ... --hw {hw.name})."
    )


def _complete_counts(graph: KernelGraph, nodes: Sequence[np.ndarray]) -> None:
    """Executions of each node, set to what the graph says: CTAs that were left out are only estimated by the engine."""
    for i, (t, count) in enumerate(zip(graph.templates, graph.instance_counts(), strict=True)):
        runs = np.append(graph.times(i).sum(axis=0), count)  # the last one: nodes outside of repeats
        nodes[i][:, -1] = runs[t.repeat_of()]


def _skipped(raw: Mapping[str, Any], end: int) -> dict[str, float]:
    """What fidelity "fast" left out: CTAs (clusters), their share of the run, and how far the run may be off for it."""
    share = int(raw["skipped_ticks"]) / end
    return {"ctas": int(raw["skipped"]), "share": share, "bound": share * int(raw["bound_ppm"]) / 1e6}


def _result(
    graph: KernelGraph,
    hw: Hardware,
    raw: Mapping[str, Any],
    names: Any,
    *,
    clock: float,
    fidelity: str,
    residency: Any,
    seconds: Mapping[str, float],
    parameters: Mapping[str, Any],
) -> Result:
    end = max(int(raw["ticks"]), 1)
    cycles = -(-end // TICKS_PER_CYCLE)
    seconds_run = cycles / (clock * 1e6)
    counts = {
        "subpartition": hw.chip.sm_count * hw.sm.subpartitions,
        "sm": hw.chip.sm_count,
        "tpc": -(-hw.chip.sm_count // 2),
        "gpc": len(gpcs(hw)),
        "chip": 1,
    }
    ctas = len(graph.instances) * graph.launch.cluster_ctas
    busy, queued = raw["busy"].tolist(), raw["queued"].tolist()
    utilization = {n: busy[i] / (counts[hw.resources[n].scope] * end) for i, n in enumerate(names)}
    utilization["dram"] = busy[-1] / end
    l2_read, l2_written, dram_read, dram_written, hits, requests, coalesced = raw["traffic"].tolist()
    lifetimes = (raw["instance_end"] - raw["instance_start"]).astype(np.float64)
    by_template = np.bincount(graph.instances.template, weights=lifetimes, minlength=len(graph.templates))
    roles = role_times(graph, raw["nodes"], by_template)
    flops = int(graph.meta.get("flops", 0))
    timeline = tuple(
        {"instance": i, "node": n, "run": c, "ready": r, "start": s, "released": e, "done": d}
        for i, n, c, r, s, e, d in raw["spans"].tolist()
    )
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = version("gtsim")
    except PackageNotFoundError:
        own = "unknown"
    return Result(
        kernel=graph.name,
        hardware=hw.name,
        arch=graph.launch.arch or hw.chip.arch,
        clock_mhz=clock,
        fidelity=fidelity,
        cycles=cycles,
        time_us=seconds_run * 1e6,
        flops=flops,
        tflops=flops / seconds_run / 1e12,
        ctas=ctas,
        ctas_per_sm=residency.ctas_per_sm,
        occupancy_limiter=residency.limiter,
        warps_per_sm=residency.warps_per_sm,
        waves=residency.waves,
        full_waves=residency.full_waves,
        cta_cycles=float(lifetimes.mean()) / TICKS_PER_CYCLE,
        utilization=utilization,
        queued_cycles={n: queued[i] / ctas / TICKS_PER_CYCLE for i, n in enumerate(names)},
        traffic=Traffic(l2_read, l2_written, dram_read, dram_written, hits / requests if requests else 0.0, coalesced),
        network=network_of(raw["network"].tolist(), end, TICKS_PER_CYCLE),
        roles=roles,
        operations=operations(graph, raw["nodes"], TICKS_PER_CYCLE),
        bound_by=bound_by(utilization, roles),
        graph={
            "templates": len(graph.templates),
            "nodes": sum(t.nodes for t in graph.templates),
            "edges": sum(t.edges for t in graph.templates),
            "instances": len(graph.instances),
            "bytes": graph.nbytes,
            "instance_bytes": graph.instances.nbytes,
            "executed_nodes": graph.total_nodes,
        },
        events=int(raw["events"]),
        seconds=dict(seconds),
        versions={
            "gtsim": own,
            "graph_schema": str(SCHEMA_VERSION),
            "python": platform.python_version(),
            "tilelang": str(graph.meta.get("tilelang", "")),
        },
        hashes={"graph": graph_hash(graph), "hardware": hw.hash},
        skipped=_skipped(raw, end) if fidelity == "fast" else {},
        warnings=graph.warnings,
        parameters=dict(parameters),
        timeline=timeline,
        schedule=schedule_of(raw, TICKS_PER_CYCLE),
    )
