"""How the launch fills the chip."""

from __future__ import annotations

import math

from rich.console import RenderableType
from rich.text import Text

from ..backend import waits_for_earlier
from ..backend.occupancy import gpcs
from ..graph.clusters import clusters_at_once
from .facts import Facts
from .style import count, percent, plural, titled

#: The limiter of a launch that does not fill the chip.
GRID = "grid size"


def section(facts: Facts) -> RenderableType:
    """Grid, residency and its limiter, waves."""
    r, launch, hw = facts.result, facts.graph.launch, facts.hw
    grid = " x ".join(str(n) for n in launch.grid)
    fit = f"{plural(r.ctas_per_sm, 'CTA')} ({plural(r.warps_per_sm, 'warp')}) per SM"
    limiter = r.occupancy_limiter
    resident = f"up to {fit}, more than the grid fills" if limiter == GRID else f"{fit}, limited by {limiter}"
    needs = (f"a CTA takes {launch.smem_bytes / 1024:.1f} KiB of shared memory and {launch.registers_per_thread} registers "
             "a thread")
    lines = [f"grid {grid} = {plural(r.ctas, 'CTA')} of {launch.threads} threads; {resident}", needs, _waves(facts)]
    if launch.cluster_ctas > 1:
        shape = " x ".join(str(n) for n in launch.cluster)
        lines.append(f"clusters of {shape} CTAs, {_at_once(facts)} at once: each within a GPC")
    if waits_for_earlier(facts.graph):
        lines.append("by itself, as here, its pdl_sync has no kernel to wait for")
    mean = f"a {'cluster' if launch.cluster_ctas > 1 else 'CTA'} lives {count(r.cta_cycles)} cycles on average"
    if r.full_waves > 1:
        mean += f"; the next one starts {count(hw.launch.cta_gap_cycles)} cycles after it"
    return titled("Launch", Text("\n".join([*lines, mean])))


def _at_once(facts: Facts) -> int:
    """Clusters (CTAs, without) that the chip holds at once."""
    return clusters_at_once(gpcs(facts.hw), facts.result.ctas_per_sm, facts.graph.launch.cluster_ctas)


def _waves(facts: Facts) -> str:
    r, sms = facts.result, facts.hw.chip.sm_count
    places = _at_once(facts) * facts.graph.launch.cluster_ctas
    if r.full_waves <= 1:
        busy = min(sms, r.ctas)
        return f"one wave, {percent(r.full_waves)} full: {busy} of {sms} SMs have work"
    rounds = math.ceil(r.full_waves)
    used = r.cta_cycles * r.ctas / (places * r.cycles)
    return (f"{r.full_waves:.2f} waves: {rounds} rounds of {places} CTAs, the last one {percent(facts.last_wave_fill)} full; "
            f"a CTA runs in {percent(used)} of the places on average")
