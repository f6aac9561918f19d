"""From the engine's raw counters to shares of time by role, operation and resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import KernelGraph, Reason, Template
from .result import Operation, RoleTime

_REASONS = len(Reason)
#: Busy share from which a resource is called the bound.
BOUND_SHARE = 0.75
#: Shares of a role's time below this are not listed.
SMALLEST_SHARE = 0.0005


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
    warps: dict[str, int] = {}
    for t, rows, lifetime in zip(graph.templates, stats, lifetime_ticks.tolist(), strict=True):
        for role, mask, mine in (lead for cta in np.unique(t.node_cta).tolist() for lead in _leads(t, cta)):
            name = graph.strings[role]
            totals[name] = totals.get(name, 0.0) + lifetime
            warps[name] = warps.get(name, 0) | mask
            _add_parts(graph, t, rows, mine, parts.setdefault(name, {}))
    result = []
    for name, total in totals.items():
        shares = {k: v / total for k, v in parts[name].items() if total > 0 and v / total >= SMALLEST_SHARE}
        working = shares.pop("working", 0.0)
        idle = 1.0 - working - sum(shares.values())
        if idle >= SMALLEST_SHARE:
            shares["idle"] = idle
        result.append(
            RoleTime(name or "all", warps[name].bit_count(), working, dict(sorted(shares.items(), key=lambda kv: -kv[1])))
        )
    return tuple(sorted(result, key=lambda r: r.role))


def _leads(t: Template, cta: int) -> list[tuple[int, int, np.ndarray]]:
    """(role string, warps, nodes its first warp executes) for every role that most work of its first warp belongs to, in the
    CTA of the cluster with that rank. A role that all warps share only at start or end is no role of its own."""
    own = t.node_cta == cta
    present = np.unique(t.node_role[own]).tolist()
    masks = {role: int(np.bitwise_or.reduce(t.node_warps[own & (t.node_role == role)])) for role in present}
    out = []
    for role, mask in masks.items():
        mine = own & ((t.node_warps & np.uint64(mask & -mask)) != 0)
        roles, counts = np.unique(t.node_role[mine], return_counts=True)
        if roles[np.argmax(counts)] == role:
            out.append((role, mask, mine))
    return out


def _add_parts(graph: KernelGraph, t: Template, rows: np.ndarray, mine: np.ndarray, out: dict[str, float]) -> None:
    """Add the time of the nodes `mine` to `out`, by what it was spent on."""

    def add(key: str, ticks: float) -> None:
        if ticks:
            out[key] = out.get(key, 0.0) + float(ticks)

    add("queue", rows[mine, _REASONS].sum())
    add("working", rows[mine, _REASONS + 1].sum())
    for reason in Reason:
        named = reason in (Reason.BARRIER, Reason.GROUP)
        if not named:
            add(reason.name.lower(), rows[mine, reason].sum())
            continue
        for attrs in np.unique(t.node_attrs[mine & (rows[:, reason] > 0)]).tolist():
            add(_wait_name(reason, graph.attrs[attrs]), rows[mine & (t.node_attrs == attrs), reason].sum())
    for kind in np.unique(t.node_type[mine & t.node_blocking]).tolist():
        name = graph.type_names[kind]
        add(
            "control" if name == "control" else f"latency {name}",
            rows[mine & t.node_blocking & (t.node_type == kind), _REASONS + 2].sum(),
        )


def operations(graph: KernelGraph, stats: Sequence[np.ndarray], ticks_per_cycle: int) -> tuple[Operation, ...]:
    """Mean cycles an execution of every source operation, the most time-consuming first."""
    sums: dict[tuple[str, str, str], np.ndarray] = {}
    for t, rows in zip(graph.templates, stats, strict=True):
        entries = np.column_stack([rows[:, :_REASONS].sum(axis=1), rows[:, _REASONS:]])
        keys = np.stack([t.node_source, t.node_type.astype(np.int32), t.node_role], axis=1)
        unique, where = np.unique(keys, axis=0, return_inverse=True)
        added = np.zeros((len(unique), entries.shape[1]), dtype=np.int64)
        np.add.at(added, where.reshape(-1), entries)
        for (source, kind, role), row in zip(unique.tolist(), added, strict=True):
            key = (graph.strings[source], graph.type_names[kind], graph.strings[role])
            sums[key] = sums[key] + row if key in sums else row
    out = []
    for (source, kind, role), row in sums.items():
        wait, queue, service, latency, count = row.tolist()
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
    role = critical_role(roles)
    if role is None:
        return "latency"
    parts = sorted({"executing": role.working, **role.waits}.items(), key=lambda kv: -kv[1])[:3]
    text = ", ".join(f"{k} {v:.0%}" for k, v in parts)
    return f"latency of {role.role}: {text} ({name} only {utilization[name]:.0%} busy)"


def critical_role(roles: Sequence[RoleTime]) -> RoleTime | None:
    """The role that waits least for others: barriers, CTA-wide synchronisation, and before or after its operations."""

    def waiting(role: RoleTime) -> float:
        return sum(v for k, v in role.waits.items() if k == "idle" or k.startswith(("barrier", "sync")))

    return min(roles, key=waiting, default=None)
