"""Promises about registers and residency that cannot be kept.

`setmaxnreg` moves registers between the warpgroups of one CTA: the pool is what the CTA was launched with, a decrease gives to
it, an increase waits until it holds enough (PTX ISA, setmaxnreg). `meta["min_blocks_per_sm"]` is the kernel's occupancy hint
(second argument of `__launch_bounds__`): ptxas then caps the registers at launch; `meta["registers_wanted"]` is what a thread
would take otherwise, where a frontend has applied the cap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ...model import KernelGraph, Node, Template
from ..findings import Finding
from ..subject import Subject, rule
from .overflow import register_file

REGISTER_FILE = 65536


def occupancy_hint(graph: KernelGraph) -> int:
    """CTAs an SM that the kernel asks for; 0 if it does not."""
    return int(graph.meta.get("min_blocks_per_sm", 0) or 0)


def launch_registers(subject: Subject) -> int:
    """Registers a thread at launch, with the cap that an occupancy hint puts on them."""
    launch, hint = subject.graph.launch, occupancy_hint(subject.graph)
    if not hint:
        return launch.registers_per_thread
    return min(launch.registers_per_thread, (subject.limits.registers or REGISTER_FILE) // (hint * subject.warps * 32) // 8 * 8)


@rule("target")
def occupancy_hint_is_met(subject: Subject) -> Iterable[Finding]:
    """The CTAs an SM that the kernel asks for fit by shared memory, threads and slots."""
    graph, limits, hint = subject.graph, subject.limits, occupancy_hint(subject.graph)
    if hint <= 1:
        return
    launch = graph.launch
    needs = (
        ("shared memory", "bytes", hint * (launch.smem_bytes + limits.smem_reserved_bytes), limits.sm_smem_bytes),
        ("threads", "threads", hint * subject.warps * 32, limits.sm_threads),
        ("CTA slots", "slots", hint, limits.sm_ctas),
    )
    for what, unit, need, have in needs:
        if have and need > have:
            yield Finding(
                "residency",
                "error",
                graph.name,
                f"the kernel asks for {hint} CTAs an SM, which need {need} {unit} of {what}; {limits.name} has {have} an "
                f"SM: {need - have} too many",
                "Ask for fewer CTAs an SM, or use smaller tiles or fewer stages.",
                {"resource": what, "asked": hint, "need": need, "limit": have, "over": need - have},
            )
    cap, wanted = launch_registers(subject), int(graph.meta.get("registers_wanted", launch.registers_per_thread))
    if cap < wanted and "setmaxnreg" not in graph.type_names:
        yield Finding(
            "spill",
            "warning",
            graph.name,
            f"{hint} CTAs an SM leave {cap} registers a thread, the kernel needs about {wanted}: it "
            "will spill to local memory",
            "Ask for fewer CTAs an SM, or use smaller register tiles.",
            {"asked": hint, "registers": cap, "need": wanted},
        )


@rule("target")
def register_pool(subject: Subject) -> Iterable[Finding]:
    """Every `setmaxnreg` increase can be satisfied from what the decreases free."""
    if "setmaxnreg" not in subject.graph.type_names:
        return
    told = set()
    for t in subject.graph.templates:
        for finding in _pool(subject, t):
            if finding.text not in told:
                told.add(finding.text)
                yield finding


def _pool(subject: Subject, t: Template) -> Iterable[Finding]:
    graph = subject.graph
    kind = graph.type_names.index("setmaxnreg")
    changes = {i: graph.node(t, i) for i in range(t.nodes) if t.node_type[i] == kind}
    if not changes:
        return
    for cta in range(graph.launch.cluster_ctas):
        yield from _pool_of(subject, t, cta, changes)


def _pool_of(subject: Subject, t: Template, cta: int, changes: dict[int, Node]) -> Iterable[Finding]:
    """The pool of one CTA: changes of the others always succeed here."""
    at_launch = launch_registers(subject)
    changes = {i: node for i, node in changes.items() if node.cta == cta}
    groups = {w // 4 for w in range(subject.warps)}
    held = dict.fromkeys(groups, at_launch)
    for node in changes.values():
        for group in {w // 4 for w in node.warps}:
            whole = {w for w in range(4 * group, 4 * group + 4) if w < subject.warps}
            if not whole <= set(node.warps):
                yield Finding(
                    "illegal",
                    "error",
                    f"{t.name} {node.label()}",
                    f"setmaxnreg must be executed by all warps of a warpgroup; {_who(node.role, node.warps)} is only "
                    f"{len(set(node.warps) & whole)} of {len(whole)}",
                    "Let the whole warpgroup execute it.",
                )
                return
    # Untimed execution, decreases first: what stays parked can never be satisfied.
    left = [0] * t.nodes
    for d in t.edge_dst.tolist():
        left[d] += 1
    ptr, dst = t.edge_ptr.tolist(), t.edge_dst.tolist()
    free, parked = 0, list[int]()
    ready = deque(i for i, n in enumerate(left) if n == 0)
    while ready or parked:
        if not ready:
            fits = next((i for i in parked if _cost(changes[i].attrs["registers"], changes[i].warps, held) <= free), None)
            if fits is None:
                yield _stuck(subject, t, parked, held, free, at_launch)
                return
            parked.remove(fits)
            ready.append(fits)
        i = ready.popleft()
        if i in changes:
            registers, warps = int(changes[i].attrs["registers"]), changes[i].warps
            cost = _cost(registers, warps, held)
            if cost > max(free, 0):
                parked.append(i)
                continue
            free -= cost
            held.update({w // 4: registers for w in warps})
        for j in dst[ptr[i] : ptr[i + 1]]:
            left[j] -= 1
            if left[j] == 0:
                ready.append(j)


def _cost(registers: int, warps: Iterable[int], held: dict[int, int]) -> int:
    """Registers a thread (summed over warpgroups) that a change takes from the pool; negative if it gives."""
    return sum(int(registers) - held[g] for g in {w // 4 for w in warps})


def _stuck(subject: Subject, t: Template, parked: list[int], held: dict[int, int], free: int, at_launch: int) -> Finding:
    graph = subject.graph
    node = graph.node(t, parked[0])
    need = _cost(node.attrs["registers"], node.warps, held)
    groups = len(held)
    hint = occupancy_hint(graph)
    why = f" ({hint} CTAs an SM, as the kernel asks, leave no more)" if hint > 1 else ""
    wanted = {**held, **{w // 4: int(graph.node(t, i).attrs["registers"]) for i in parked for w in graph.node(t, i).warps}}
    total = " + ".join(str(wanted[g]) for g in sorted(wanted))
    text = (
        f"{_who(node.role, node.warps)} waits for ever at {node.source or 'setmaxnreg'}: it needs {128 * need} more registers, "
        f"the other warpgroups have freed {128 * free}; the pool is {groups} x {at_launch} = {groups * at_launch} a thread of "
        f"each warpgroup{why}, the roles want {total} = {sum(wanted.values())}"
    )
    return Finding(
        "residency",
        "error",
        t.name,
        text,
        "Lower the increase, let a decrease come before it, or launch with more registers a thread.",
        {
            "role": node.role,
            "need": 128 * need,
            "free": 128 * free,
            "over": 128 * (need - free),
            "launch": at_launch,
            "pool": 128 * groups * at_launch,
            "wanted": 128 * sum(wanted.values()),
        },
    )


def _who(role: str, warps: tuple[int, ...]) -> str:
    return role if role and role != "all" else f"warps {warps[0]}-{warps[-1]}"


def resident(subject: Subject) -> tuple[int, str]:
    """CTAs that one SM of the target holds, and what limits them; (0, "") where the target is not known well enough."""
    limits, launch = subject.limits, subject.graph.launch
    if not (limits.sm_threads and limits.sm_smem_bytes and limits.sm_ctas and limits.registers):
        return 0, ""
    registers = register_file(launch_registers(subject), subject.warps, limits.register_unit)
    bounds = {
        "CTA slots": limits.sm_ctas,
        "threads": limits.sm_threads // (subject.warps * 32),
        "shared memory": limits.sm_smem_bytes // max(launch.smem_bytes + limits.smem_reserved_bytes, 1),
        "registers": limits.registers // max(registers, 1),
    }
    limiter = min(bounds, key=lambda k: bounds[k])
    return bounds[limiter], limiter
