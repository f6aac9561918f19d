"""The built-in hint rules. Each looks at one thing and states the numbers it saw."""

from __future__ import annotations

import math

from ..backend import RoleTime
from .facts import ASYNC_LOADS, TENSOR_TYPES, Facts
from .hints import Hint, hint
from .launch import GRID
from .style import count, percent, resource_name

#: Busy share from which a memory path counts as nearly used up.
SATURATED = 0.7


@hint
def near_peak(facts: Facts) -> Hint | None:
    """The tensor cores are busy: say that there is little left."""
    busy = facts.utilization("tensor")
    if busy < 0.85:
        return None
    return Hint("The tensor cores are close to their peak; only less work or a narrower data type would help much.",
                f"tensor cores {percent(busy)} busy", 0.05)


@hint
def loads_late(facts: Facts) -> Hint | None:
    """Warps that compute wait for asynchronous loads."""
    roles = facts.roles_doing(*TENSOR_TYPES) or [r for r in facts.result.roles if facts.waits_for_loads(r)]
    worst = max(roles, key=lambda r: sum(facts.waits_for_loads(r).values()), default=None)
    waits = facts.waits_for_loads(worst) if worst else {}
    late = sum(waits.values())
    if worst is None or late < 0.1:
        return None
    name = max(waits, key=lambda k: waits[k])
    evidence = f"{worst.role}: {facts.describe(worst, name)} {percent(late)} of its time"
    loads = [o for o in facts.result.operations if o.type in ASYNC_LOADS and o.executions]
    if loads:
        slowest = max(loads, key=lambda o: o.latency_cycles)
        evidence += f"; {slowest.source} takes {count(round(slowest.latency_cycles))} cycles"
    if any(facts.utilization(r) >= SATURATED for r in ("l2", "dram", "l2_to_sm")):
        return Hint("Loads arrive late because a memory path is nearly used up, not for want of stages.", evidence, late / 2)
    loaders = [r for r in facts.roles_doing(*ASYNC_LOADS) if r.role != worst.role]
    if loaders and max(sum(v for k, v in r.waits.items() if k.startswith("barrier")) for r in loaders) < 0.3:
        return Hint("The producer issues loads too slowly: give it fewer and larger copies, or less scalar work between them.",
                    evidence + f"; {loaders[0].role} works {percent(loaders[0].working)} of its time", late)
    return Hint("Loads arrive late: more pipeline stages hide their latency, a larger tile does more work for each.",
                evidence, late)


@hint
def memory_path(facts: Facts) -> Hint | None:
    """A path between memory and the SMs is nearly used up."""
    name = max(("l2", "dram", "l2_to_sm", "sm_to_l2", "smem"), key=facts.utilization)
    busy = facts.utilization(name)
    if busy < SATURATED:
        return None
    evidence = f"{resource_name(name)} {percent(busy)} busy"
    t, (read, _) = facts.result.traffic, facts.tensor_bytes
    if name == "dram":
        again = t.dram_read_bytes / read if read else 0.0
        if again >= 1.3:
            return Hint("DRAM is read more than once: let CTAs that share operands run close together (T.use_swizzle), "
                        "or use larger tiles.", f"{evidence}; {again:.1f} x the tensors are read", busy)
        return Hint("DRAM is the limit and is read about once: only fewer bytes help (narrower types, fusion).",
                    evidence, busy - 0.5)
    if name == "smem":
        return Hint("Shared memory is the limit: a wider tile in N re-uses each operand more often, operands in registers "
                    "do not pass through it.", evidence, busy - 0.3)
    if name == "sm_to_l2":
        return Hint("Stores are the limit: write each result once, in the narrowest type that will do.", evidence, busy - 0.3)
    return Hint("The L2 path is the limit: larger tiles in M and N fetch fewer bytes for the same work.",
                f"{evidence}; {t.l2_read_bytes / read:.0f} x the tensors pass through it" if read else evidence, busy - 0.3)


def _own_products(role: RoleTime) -> float:
    names = ("group wgmma", *(f"latency {t}" for t in TENSOR_TYPES))
    return sum(v for k, v in role.waits.items() if k in names)


@hint
def tensor_drains(facts: Facts) -> Hint | None:
    """Warps wait for their own tensor-core operation while the tensor cores are idle part of the time."""
    busy = facts.utilization("tensor")
    roles = facts.roles_doing(*TENSOR_TYPES)
    worst = max(roles, key=_own_products, default=None)
    if worst is None or busy >= 0.8 or _own_products(worst) < 0.3:
        return None
    stake = min(_own_products(worst), 0.9 - busy) * 0.6
    if any(facts.utilization(r) >= SATURATED for r in ("l2", "dram", "l2_to_sm", "smem")):
        stake *= 0.3
    alone = len(roles) == 1 and facts.result.ctas_per_sm == 1
    more = "let a second consumer warpgroup fill the gaps" if alone else "let consumers take turns"
    return Hint("Each tensor-core step drains before the next begins: keep one in flight (T.wgmma_gemm with T.wait_wgmma(1)), "
                f"{more}, or do more work a step (block_K).",
                f"{worst.role} waits {percent(_own_products(worst))} of its time for its own products, "
                f"tensor cores {percent(busy)} busy", stake)


@hint
def tail_wave(facts: Facts) -> Hint | None:
    """The last round of CTAs leaves SMs idle."""
    r, sms = facts.result, facts.hw.chip.sm_count
    if r.ctas < sms:
        return Hint("The grid is smaller than the chip: smaller tiles or splitting K would give every SM work.",
                    f"{count(r.ctas)} CTAs for {sms} SMs", 1 - r.ctas / sms)
    lost = 1 - facts.wave_efficiency
    if r.full_waves <= 1 or lost < 0.08:
        return None
    return Hint("The last wave is poorly filled: another tile size, splitting K, or a persistent kernel evens it out.",
                f"{r.full_waves:.2f} waves, so up to {percent(lost)} of the SM time is idle", lost)


@hint
def alone_on_sm(facts: Facts) -> Hint | None:
    """One CTA an SM: nothing overlaps its start and end."""
    r, launch = facts.result, facts.graph.launch
    if r.ctas_per_sm > 1 or r.full_waves <= 1 or facts.utilization("tensor") >= 0.8 or r.occupancy_limiter == "grid size":
        return None
    need = (f"{launch.registers_per_thread} registers x {launch.threads} threads" if r.occupancy_limiter == "registers"
            else f"{launch.smem_bytes / 1024:.0f} KiB of shared memory")
    gap = facts.hw.launch.cta_gap_cycles
    less = f"{'fewer' if r.occupancy_limiter.endswith('s') else 'less'} {r.occupancy_limiter}"
    return Hint("One CTA fills an SM, so nothing runs while it starts, loads its first tiles and stores its result: "
                f"{less} a CTA, or a persistent kernel, would overlap that.",
                f"{need}; a CTA lives {count(r.cta_cycles)} cycles, {gap:g} more pass until the next", 0.1)


@hint
def narrow_stores(facts: Facts) -> Hint | None:
    """Results leave by small stores straight from registers."""
    g, r = facts.graph, facts.result
    narrow = {g.strings[t.node_source[i]] for t in g.templates for i in range(t.nodes)
              if g.type_names[t.node_type[i]] == "global_store" and int(g.attrs[t.node_attrs[i]].get("row_bytes", 128)) < 64}
    cost = {o.source: (o.service_cycles + o.latency_cycles + o.queue_cycles) * o.executions / r.ctas
            for o in r.operations if o.type == "global_store" and o.source in narrow}
    if not cost or sum(cost.values()) < 0.04 * r.cta_cycles:
        return None
    name = max(cost, key=lambda k: cost[k])
    share = min(sum(cost.values()) / r.cta_cycles, 1.0)
    return Hint("Results leave in small pieces: copy them to shared memory first and store that with one T.copy.",
                f"{name} takes {count(round(cost[name]))} of a CTA's {count(round(r.cta_cycles))} cycles", share * 0.7)


@hint
def control_code(facts: Facts) -> Hint | None:
    """Scalar control code takes warp time."""
    worst, share = facts.longest_wait("control")
    if worst is None or share < 0.05:
        return None
    return Hint("Scalar control code takes its toll: a power-of-two number of stages, or an unrolled loop, makes stage and phase "
                "cheaper to compute.", f"{worst.role} spends {percent(share)} of its time on it", share * 0.5)


@hint
def cta_barriers(facts: Facts) -> Hint | None:
    """Warps wait at CTA-wide barriers."""
    worst, share = facts.longest_wait("sync")
    if worst is None or share < 0.1:
        return None
    return Hint("Warps wait for each other at __syncthreads: more CTAs an SM, or specialised roles with mbarriers, decouple "
                "them.", f"{worst.role} waits {percent(share)} of its time", share * 0.5)


@hint
def cuda_cores(facts: Facts) -> Hint | None:
    """Ordinary arithmetic is the bound."""
    name = max(("fma", "fp64", "alu", "sfu", "cvt", "shuffle", "issue"), key=facts.utilization)
    busy = facts.utilization(name)
    if busy < 0.6:
        return None
    return Hint("Arithmetic outside the tensor cores is the limit: fewer operations an element, or two consumer warpgroups "
                "that take turns with the tensor cores.", f"{resource_name(name)} {percent(busy)} busy", busy - 0.3)


@hint
def exposed_latency(facts: Facts) -> Hint | None:
    """Warps wait for the data of plain loads."""
    if "global_load" not in facts.roles_of_type or facts.utilization("dram") >= SATURATED:
        return None

    staged = bool(facts.roles_doing(*TENSOR_TYPES))  # what is loaded goes to shared memory, and a barrier waits for it there

    def exposed(role: RoleTime) -> float:
        return role.waits.get("data", 0.0) + role.waits.get("latency global_load", 0.0) + staged * role.waits.get("sync", 0.0)

    worst = max(facts.result.roles, key=exposed, default=None)
    share = exposed(worst) if worst else 0.0
    if worst is None or share < 0.3:
        return None
    r = facts.result
    warps = min(r.warps_per_sm, math.ceil(r.ctas / facts.hw.chip.sm_count) * (r.warps_per_sm // r.ctas_per_sm))
    evidence = (f"{worst.role} waits {percent(share)} of its time for data; {warps} warps an SM (limited by "
                f"{r.occupancy_limiter}), DRAM {percent(facts.utilization('dram'))} busy")
    if staged:
        return Hint("Warps load and then wait: a pipelined loop (T.Pipelined with num_stages of 2 or more) fetches ahead.",
                    evidence, share * 0.6)
    more = "smaller tiles, so that the grid fills the SMs," if r.occupancy_limiter == GRID else "more CTAs an SM"
    return Hint(f"Memory latency is exposed: {more} or more bytes a thread in flight would hide it.", evidence, share * 0.6)
