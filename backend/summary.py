"""From the engine's raw counters to shares of time by role, operation and resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import KernelGraph, Reason
from .result import Operation, RoleTime

_REASONS = len(Reason)
#: Busy share from which a resource is called the bound.
BOUND_SHARE = 0.75


def _wait_name(reason: int, attrs: Mapping[str, Any]) -> str:
    if reason == Reason.BARRIER:
        return f"barrier {str(attrs.get('barrier', '')).split('[')[0]}".strip()
    if reason == Reason.GROUP:
        return f"group {attrs.get('queue', '')}".strip()
    return Reason(reason).name.lower()


def role_times(graph: KernelGraph, stats: Sequence[np.ndarray], lifetime_ticks: np.ndarray) -> tuple[RoleTime, ...]:
    """Time of each role as seen by its first warp. `stats[template]` has a row a node: waits by reason, queue, service,
    latency, count, in ticks summed over instances; `lifetime_ticks[template]` sums the lifetimes of its instances."""
    totals: dict[str, float] = {}
    parts: dict[str, dict[str, float]] = {}
    working: dict[str, float] = {}
    warps: dict[str, set[int]] = {}
    for index, (t, rows) in enumerate(zip(graph.templates, stats, strict=True)):
        role_warps: dict[str, int] = {}
        for i in range(t.nodes):
            name = graph.strings[t.node_role[i]]
            role_warps[name] = role_warps.get(name, 0) | int(t.node_warps[i])
        for name, mask in role_warps.items():
            warps.setdefault(name, set()).update(w for w in range(64) if mask >> w & 1)
            totals[name] = totals.get(name, 0.0) + float(lifetime_ticks[index])
        lead = {name: mask & -mask for name, mask in role_warps.items()}
        for i in range(t.nodes):
            name = graph.strings[t.node_role[i]]
            for role, bit in lead.items():
                if not int(t.node_warps[i]) & bit or (role != name and name in lead and lead[name] == bit):
                    continue
                attrs = graph.attrs[t.node_attrs[i]]
                kind = graph.type_names[t.node_type[i]]
                out = parts.setdefault(role, {})
                row = rows[i]
                for reason in range(_REASONS):
                    if row[reason]:
                        key = _wait_name(reason, attrs)
                        out[key] = out.get(key, 0.0) + float(row[reason])
                out["queue"] = out.get("queue", 0.0) + float(row[_REASONS])
                working[role] = working.get(role, 0.0) + float(row[_REASONS + 1])
                if t.node_blocking[i]:
                    key = "control" if kind == "control" else f"latency {kind}"
                    out[key] = out.get(key, 0.0) + float(row[_REASONS + 2])
    result = []
    for role, total in totals.items():
        shares = {k: v / total for k, v in parts.get(role, {}).items() if v / total >= 0.0005}
        work = working.get(role, 0.0) / total
        idle = 1.0 - work - sum(shares.values())
        if idle > 0.0005:
            shares["idle"] = idle
        result.append(RoleTime(role or "all", len(warps[role]), work, dict(sorted(shares.items(), key=lambda kv: -kv[1]))))
    return tuple(sorted(result, key=lambda r: r.role))


def operations(graph: KernelGraph, stats: Sequence[np.ndarray], ticks_per_cycle: int) -> tuple[Operation, ...]:
    """Mean cycles an execution of every source operation, the most time-consuming first."""
    sums: dict[tuple[str, str, str], np.ndarray] = {}
    for t, rows in zip(graph.templates, stats, strict=True):
        for i in range(t.nodes):
            key = (graph.strings[t.node_source[i]], graph.type_names[t.node_type[i]], graph.strings[t.node_role[i]])
            row = rows[i]
            entry = np.array([row[:_REASONS].sum(), row[_REASONS], row[_REASONS + 1], row[_REASONS + 2], row[_REASONS + 3]])
            sums[key] = sums[key] + entry if key in sums else entry
    out = []
    for (source, kind, role), (wait, queue, service, latency, count) in sums.items():
        n = max(int(count), 1)
        out.append(
            Operation(
                source,
                kind,
                role or "all",
                int(count),
                wait / n / ticks_per_cycle,
                queue / n / ticks_per_cycle,
                service / n / ticks_per_cycle,
                latency / n / ticks_per_cycle,
            )
        )
    return tuple(
        sorted(out, key=lambda o: -o.executions * (o.wait_cycles + o.queue_cycles + o.service_cycles + o.latency_cycles))
    )


def bound_by(utilization: Mapping[str, float], roles: Sequence[RoleTime]) -> str:
    """The busiest resource if it is busy enough, else what the busiest role spends its time on."""
    name = max(utilization, key=lambda k: utilization[k])
    if utilization[name] >= BOUND_SHARE:
        return f"{name} ({utilization[name]:.0%} busy)"
    if not roles:
        return "latency"

    def waiting(role: RoleTime) -> float:
        return sum(v for k, v in role.waits.items() if k == "idle" or k.startswith(("barrier", "sync")))

    role = min(roles, key=waiting)
    parts = sorted({"issue": role.working, **role.waits}.items(), key=lambda kv: -kv[1])[:3]
    text = ", ".join(f"{k} {v:.0%}" for k, v in parts)
    return f"latency of {role.role}: {text} ({name} only {utilization[name]:.0%} busy)"
