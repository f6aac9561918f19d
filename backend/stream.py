"""Kernels of one stream that overlap: programmatic dependent launch.

The rules, and where they come from:

- A kernel that waits (`griddepcontrol.wait`) is launched with the attribute for programmatic dependent launch, as TileLang does
  for kernels that call `T.pdl_sync()`.
- It may start once every CTA of the kernel before it has issued `griddepcontrol.launch_dependents` or has completed; only the
  first of several in a CTA counts (PTX ISA, griddepcontrol). From then on its launch takes `launch.kernel_us`, as any launch; the
  gap between two kernels, `launch.gap_us`, is hidden.
- A CTA becomes resident when what the CTAs of earlier kernels leave free on an SM holds it: CTA slots, threads, shared memory and
  registers, by the same allocation rules as for one kernel (CUDA programming guide, hardware multithreading). A place that an
  earlier CTA had to leave first is taken `launch.cta_gap_cycles` after that. A kernel in clusters shares no SM with its
  neighbour.
- The wait passes when the kernels before have completed and their memory operations are performed (PTX ISA): at the last result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..graph import KernelGraph, Launch
from ..hwconfigs import Hardware
from .occupancy import cta_needs, occupancy, sm_offers

Cycles = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Where and when the CTAs of a run were, in cycles from the launch of the kernel; one entry a CTA, in launch order.

    Attributes:
        sm: the SM it ran on, int32[n].
        start, end: its life, float64[n].
        trigger: when it stopped keeping the next kernel from starting; its end if it never said so, float64[n].
        wait: when it first reached a wait for the kernels before; nan if it has none, float64[n].
    """

    sm: npt.NDArray[np.int32]
    start: Cycles
    end: Cycles
    trigger: Cycles
    wait: Cycles

    @property
    def trigger_cycles(self) -> float:
        """When the next kernel may be launched: every CTA has triggered or ended."""
        return float(self.trigger.max())

    @property
    def prologue_cycles(self) -> float:
        """Mean time from the start of a CTA to its wait; 0 if no CTA waits."""
        waits = ~np.isnan(self.wait)
        return float((self.wait - self.start)[waits].mean()) if waits.any() else 0.0


@dataclass(frozen=True)
class Earlier:
    """A kernel that was launched before: what its CTAs take, where they were, and when it was launched and completed."""

    launch: Launch
    schedule: Schedule
    launched_cycles: float
    end_cycles: float


@dataclass(frozen=True, eq=False)
class EarlyStart:
    """What earlier kernels leave to one that starts in their shadow, in cycles from its own launch.

    Attributes:
        wait_cycles: when its waits pass.
        place_free_cycles: when there is room for the n-th CTA of an SM, float64[CTAs an SM, SMs].
    """

    wait_cycles: float
    place_free_cycles: Cycles


def waits_for_earlier(graph: KernelGraph) -> bool:
    """Whether `graph` is launched as a programmatic dependent of the kernel before it."""
    kinds = [i for i, name in enumerate(graph.type_names) if name == "pdl_wait"]
    return bool(kinds) and any(bool(np.isin(t.node_type, kinds).any()) for t in graph.templates)


def schedule_of(raw: Any, ticks_per_cycle: int) -> Schedule:
    """The schedule in the engine's output; if CTAs were left out of the run, it is that of one that takes all its time."""
    if raw["skipped"]:
        whole = np.array([raw["ticks"] / ticks_per_cycle])
        return Schedule(np.zeros(1, dtype=np.int32), np.zeros(1), whole, whole, np.full(1, np.nan))
    end, never = raw["instance_end"], np.iinfo(np.int64).max
    trigger = np.minimum(raw["instance_trigger"], end) / ticks_per_cycle
    wait = np.where(raw["instance_wait"] == never, np.nan, raw["instance_wait"] / ticks_per_cycle)
    return Schedule(raw["instance_sm"], raw["instance_start"] / ticks_per_cycle, end / ticks_per_cycle, trigger, wait)


def early_start(graph: KernelGraph, hw: Hardware, earlier: Sequence[Earlier], launched_cycles: float) -> EarlyStart:
    """When the CTAs of `graph`, launched at `launched_cycles`, find room beside those of `earlier` kernels, and its waits pass.

    All CTAs of the earlier kernels have started by then: the last of them had to, to trigger.
    """
    places = occupancy(graph, hw).ctas_per_sm
    if graph.launch.cluster_ctas > 1 or any(k.launch.cluster_ctas > 1 for k in earlier):  # their SMs are not recorded
        gone = max(float(k.schedule.end.max()) + k.launched_cycles for k in earlier) - launched_cycles
        free = np.full((places, hw.chip.sm_count), max(gone, 0.0) + hw.launch.cta_gap_cycles)
        return EarlyStart(max(max(k.end_cycles for k in earlier) - launched_cycles, 0.0), free)
    need, have = np.array(cta_needs(graph.launch, hw)), np.array(sm_offers(hw))
    free = np.zeros((places, hw.chip.sm_count))
    resident: dict[int, list[tuple[float, npt.NDArray[np.int64]]]] = {}
    for kernel in earlier:
        takes = np.array(cta_needs(kernel.launch, hw))
        ends = kernel.schedule.end + kernel.launched_cycles - launched_cycles
        for i in np.flatnonzero(ends > 0).tolist():
            resident.setdefault(int(kernel.schedule.sm[i]), []).append((float(ends[i]), takes))
    for sm, there in resident.items():
        there.sort(key=lambda r: r[0])
        left = have - np.sum([takes for _, takes in there], axis=0)
        since, gone = 0.0, 0
        for n in range(places):
            while (left < (n + 1) * need).any():
                end, takes = there[gone]
                left, since, gone = left + takes, end + hw.launch.cta_gap_cycles, gone + 1
            free[n, sm] = since
    completed = max(k.end_cycles for k in earlier) - launched_cycles
    return EarlyStart(max(completed, 0.0), free)
