"""How many CTAs of a launch fit an SM, and what limits them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, repeat

from ..graph import KernelGraph, Launch, Limits
from ..graph.check import limits_of
from ..graph.clusters import clusters_at_once
from ..hwconfigs import Hardware
from .errors import SimulationError


@dataclass(frozen=True)
class Occupancy:
    """CTAs an SM holds at once, the resource that limits them, resident warps, waves of the whole launch, and how many clusters
    the chip holds at once (CTAs, without clusters)."""

    ctas_per_sm: int
    limiter: str
    warps_per_sm: int
    waves: int
    full_waves: float
    clusters: int


def gpcs(hw: Hardware) -> tuple[int, ...]:
    """SMs of each GPC, `chip.sm_count` in all: the list of the hardware file, cut short or continued with its largest GPC."""
    left, out = hw.chip.sm_count, list[int]()
    for sms in chain(hw.chip.gpc_sms, repeat(max(hw.chip.gpc_sms))):
        out.append(min(sms, left))
        left -= out[-1]
        if not left:
            break
    return tuple(out)


#: What a CTA takes of its SM for as long as it lives.
RESOURCES = ("CTA slots", "threads", "shared memory", "registers")


def cta_needs(launch: Launch, hw: Hardware) -> tuple[int, int, int, int]:
    """What one CTA takes of each of :data:`RESOURCES`; threads come in whole warps, registers in whole allocation units."""
    sm = hw.sm
    warps, unit = -(-launch.threads // sm.warp_threads), sm.register_allocation_per_warp
    registers = warps * (-(-launch.registers_per_thread * sm.warp_threads // unit) * unit)
    return 1, warps * sm.warp_threads, launch.smem_bytes + sm.smem_reserved_per_cta_bytes, registers


def sm_offers(hw: Hardware) -> tuple[int, int, int, int]:
    """What an SM has of each of :data:`RESOURCES`."""
    return hw.sm.max_ctas, hw.sm.max_threads, hw.sm.smem_bytes, hw.sm.registers


def occupancy(graph: KernelGraph, hw: Hardware) -> Occupancy:
    """Residency of `graph` on `hw` by the allocation rules of the CUDA programming guide.

    Raises:
        SimulationError: one CTA does not fit an SM, or no GPC a cluster; names the resource, the need and the limit.
    """
    launch, sm = graph.launch, hw.sm
    warps = -(-launch.threads // sm.warp_threads)

    def refuse(what: str, need: int, limit: int, fix: str, who: str = "a CTA needs") -> None:
        raise SimulationError(f"{graph.name}: {who} {need} {what}, {hw.name} allows {limit} "
                              f"({need - limit} too many). {fix}")

    if launch.threads > sm.max_threads_per_cta:
        refuse("threads", launch.threads, sm.max_threads_per_cta, "Launch fewer threads a CTA.")
    if launch.smem_bytes > sm.smem_per_cta_max_bytes:
        refuse("bytes of shared memory", launch.smem_bytes, sm.smem_per_cta_max_bytes, "Use smaller tiles or fewer stages.")
    if launch.registers_per_thread > sm.registers_per_thread_max:
        refuse("registers a thread", launch.registers_per_thread, sm.registers_per_thread_max, "Use smaller register tiles.")
    needs = cta_needs(launch, hw)
    registers = needs[3]
    if registers > sm.registers:
        refuse("registers", registers, sm.registers, "Use fewer threads or smaller register tiles.")
    bounds = {what: have // max(need, 1) for what, need, have in zip(RESOURCES, needs, sm_offers(hw), strict=True)}
    limiter = min(bounds, key=lambda k: bounds[k])
    resident = bounds[limiter]
    size = launch.cluster_ctas
    if size > hw.chip.max_cluster_ctas:
        refuse("CTAs", size, hw.chip.max_cluster_ctas, "Use a smaller cluster.", "a cluster has")
    at_once = clusters_at_once(gpcs(hw), resident, size)
    if not at_once:
        refuse(f"places in one GPC, each SM holding {resident} ({limiter})", size, max(gpcs(hw)) * resident,
               "Use a smaller cluster, or smaller CTAs.", "a cluster needs")
    clusters = len(graph.instances)
    if clusters < at_once:
        limiter = "grid size"
    return Occupancy(resident, limiter, resident * warps, -(-clusters // at_once), clusters / at_once, at_once)


@dataclass(frozen=True)
class ClusterResidency:
    """How many clusters of one size a chip holds at once, and how many of its SMs they use."""

    cluster_ctas: int
    clusters: int
    ctas: int
    sms: int


def cluster_residency(hw: Hardware, ctas_per_sm: int = 1) -> tuple[ClusterResidency, ...]:
    """For each cluster size that `hw` allows (powers of two), what it holds when an SM holds `ctas_per_sm` CTAs.

    A cluster lies within one GPC, so GPCs whose SMs are no multiple of its size leave some empty.

    Raises:
        SimulationError: `ctas_per_sm` is not between 1 and what an SM can hold.
    """
    if not 1 <= ctas_per_sm <= hw.sm.max_ctas:
        raise SimulationError(f"{hw.name}: an SM holds 1 to {hw.sm.max_ctas} CTAs, not {ctas_per_sm}.")
    out = []
    for size in (1 << i for i in range(hw.chip.max_cluster_ctas.bit_length())):
        clusters = clusters_at_once(gpcs(hw), ctas_per_sm, size)
        sms = sum(min(n * ctas_per_sm // size * size, n) for n in gpcs(hw))  # a cluster takes an SM a CTA while there are any
        out.append(ClusterResidency(size, clusters, clusters * size, sms))
    return tuple(out)


def limits(hw: Hardware) -> Limits:
    """What one SM of `hw` offers to one CTA, for `gtsim.graph.check`."""
    sm = hw.sm
    target = limits_of(hw.chip.arch)
    return Limits(hw.name, sm.max_threads_per_cta, sm.smem_per_cta_max_bytes, sm.registers, sm.registers_per_thread_max,
                  target.tmem_columns, hw.chip.arch, hw.chip.sm_count, sm.max_threads, sm.smem_bytes, sm.max_ctas,
                  sm.smem_reserved_per_cta_bytes, sm.register_allocation_per_warp, hw.chip.max_cluster_ctas, gpcs(hw))
