"""What the report derives from a prediction: peaks, compulsory traffic, who loads and who computes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ..backend import Result, RoleTime
from ..backend.demands.tensor import rate_class
from ..graph import KernelGraph, Reason
from ..hwconfigs import Hardware
from ..prediction import Prediction

TENSOR_TYPES = ("wgmma", "mma", "tcgen05_mma")
ASYNC_LOADS = ("tma_load", "cp_async")
SYNC_TYPES = (
    "barrier_wait", "barrier_arrive", "cta_sync", "cluster_arrive", "cluster_wait", "wait_group", "commit_group", "fence"
)  # fmt: skip
_WORDS = {
    "working": "executing instructions", "queue": "unit busy", "idle": "before first or after last operation",
    "sync": "wait at __syncthreads",
    "data": "wait for data", "control": "scalar control code", "program": "wait for an earlier operation",
    "buffer": "wait for a buffer slot",
}  # fmt: skip


class Facts:
    """A prediction seen by the report."""

    def __init__(self, prediction: Prediction) -> None:
        self.result: Result = prediction.result
        self.graph: KernelGraph = prediction.graph
        self.hw: Hardware = prediction.hw

    @property
    def cycles(self) -> int:
        """Cycles of the kernel, at least 1."""
        return max(self.result.cycles, 1)

    def utilization(self, resource: str) -> float:
        """Busy share of a resource; 0 if the GPU lacks it."""
        return float(self.result.utilization.get(resource, 0.0))

    @cached_property
    def roles_of_type(self) -> Mapping[str, frozenset[str]]:
        """Node type -> roles that execute it."""
        out: dict[str, set[str]] = {}
        g = self.graph
        for t in g.templates:
            pairs = np.unique(t.node_type.astype(np.int64) << 32 | t.node_role)
            for pair in pairs.tolist():
                out.setdefault(g.type_names[pair >> 32], set()).add(g.strings[pair & 0xFFFFFFFF] or "all")
        return {k: frozenset(v) for k, v in out.items()}

    def roles_doing(self, *types: str) -> list[RoleTime]:
        """Roles that execute any of these node types."""
        names = frozenset().union(*(self.roles_of_type.get(t, frozenset()) for t in types))
        return [r for r in self.result.roles if r.role in names]

    @cached_property
    def awaited(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """(waiting role, barrier name) -> node types whose completion it waits for."""
        out: dict[tuple[str, str], set[str]] = {}
        g = self.graph
        for t in g.templates:
            chosen = np.flatnonzero((t.edge_reason == Reason.BARRIER) & (t.edge_label >= 0))
            keys = np.stack([t.node_role[t.edge_dst[chosen]], t.edge_label[chosen], t.node_type[t.edge_src()[chosen]]], axis=1)
            for role, label, kind in np.unique(keys, axis=0).tolist():
                out.setdefault((g.strings[role] or "all", g.strings[label].split("[")[0]), set()).add(g.type_names[kind])
        return {k: frozenset(v) for k, v in out.items()}

    def longest_wait(self, wait: str) -> tuple[RoleTime | None, float]:
        """The role that spends the largest share of its time on `wait`, and that share; None and 0 without roles."""
        worst = max(self.result.roles, key=lambda r: r.waits.get(wait, 0.0), default=None)
        return worst, worst.waits.get(wait, 0.0) if worst else 0.0

    def waits_for_loads(self, role: RoleTime) -> dict[str, float]:
        """Shares of a role's time spent waiting for asynchronous loads, by name of the wait."""
        return {k: v for k, v in role.waits.items()
                if k == "group cp_async" or (k.startswith("barrier ") and not self.awaited.get((role.role, k[8:]), frozenset())
                                             .isdisjoint(ASYNC_LOADS))}

    def describe(self, role: RoleTime, wait: str) -> str:
        """A part of a role's time, in words."""
        kind, _, name = wait.partition(" ")
        if kind == "barrier":
            sources = self.awaited.get((role.role, name), frozenset())
            if not sources.isdisjoint(ASYNC_LOADS):
                return f"wait for loads ({name})"
            loads = any(role.role in self.roles_of_type.get(t, ()) for t in ASYNC_LOADS)
            return f"wait for a free stage ({name})" if loads and sources else f"wait for barrier {name}"
        if kind == "group":
            return "wait for loads (cp.async group)" if name == "cp_async" else f"wait for {name} group"
        if kind == "latency":
            return f"{name} itself" if name in SYNC_TYPES else f"wait for {name} to finish"
        if kind == "queue" and name:
            return f"{name} busy"
        return _WORDS.get(wait, wait)

    @cached_property
    def tensor_dtypes(self) -> tuple[str, ...]:
        """Operand types of the tensor-core work, as rate classes (fp16, fp8, ...)."""
        g = self.graph
        used: set[int] = set()
        tensor = [i for i, name in enumerate(g.type_names) if name in TENSOR_TYPES]
        for t in g.templates:
            used.update(np.unique(t.node_attrs[np.isin(t.node_type, tensor)]).tolist())
        return tuple(sorted({rate_class(str(g.attrs[i]["dtype"])) for i in used if "dtype" in g.attrs[i]}))

    @cached_property
    def tensor_peak_tflops(self) -> float | None:
        """Tensor-core peak for the kernel's operand type at its clock; None if it uses none, or several."""
        if len(self.tensor_dtypes) != 1 or "tensor" not in self.hw.resources:
            return None
        rate = self.hw.tensor.rate_vs_16bit.get(self.tensor_dtypes[0])
        if not rate:
            return None
        chip, sm = self.hw.chip, self.hw.sm
        per_cycle = self.hw.resources["tensor"].rate_per_cycle * rate * sm.subpartitions * chip.sm_count
        return per_cycle * self.result.clock_mhz * 1e6 / 1e12

    def gbs(self, moved: float) -> float:
        """Bytes moved in this run, as 1e9 bytes a second."""
        return moved / self.result.time_us / 1e3 if self.result.time_us else 0.0

    @property
    def l2_peak_gbs(self) -> float:
        """What the L2 can deliver at this clock."""
        return self.hw.resources["l2"].rate_per_cycle * self.result.clock_mhz / 1e3

    @property
    def l2_write_peak_gbs(self) -> float:
        """What the L2 can take at this clock."""
        return self.hw.resources["l2_write"].rate_per_cycle * self.result.clock_mhz / 1e3

    @cached_property
    def tensor_bytes(self) -> tuple[int, int]:
        """Bytes of all tensors read, and of all tensors written, each counted once and whole."""
        g = self.graph
        read: set[int] = set()
        written: set[int] = set()
        for t in g.templates:
            read.update(np.unique(t.tile_buffer[t.tile_mode == 1]).tolist())
            written.update(np.unique(t.tile_buffer[t.tile_mode == 2]).tolist())
        size = {i: b.nbytes for i, b in enumerate(g.buffers) if b.scope == "global"}
        return sum(size.get(i, 0) for i in read), sum(size.get(i, 0) for i in written)

    @property
    def last_wave_fill(self) -> float:
        """How full the last round of CTAs is: 1 if it is full."""
        waves = self.result.full_waves
        return waves - math.floor(waves) or 1.0

    @property
    def wave_efficiency(self) -> float:
        """Share of the places in all rounds of CTAs that are taken."""
        return self.result.full_waves / max(math.ceil(self.result.full_waves), 1)
