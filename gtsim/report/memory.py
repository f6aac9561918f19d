"""What moved, and how fast."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from .facts import Facts
from .style import columns, nbytes, percent, plural, titled


def section(facts: Facts) -> RenderableType:
    """Traffic of L2 and DRAM against their peaks and against the size of the tensors."""
    t = facts.result.traffic
    table = columns(("", "left"), ("read", "right"), ("written", "right"), ("GB/s", "right"), ("of peak", "right"), ("", "left"))
    l2 = facts.gbs(t.l2_read_bytes + t.l2_written_bytes)
    # Reads and writes have ports of their own: the fuller one counts.
    l2_share = max(facts.gbs(t.l2_read_bytes) / facts.l2_peak_gbs, facts.gbs(t.l2_written_bytes) / facts.l2_write_peak_gbs)
    dram = facts.gbs(t.dram_read_bytes + t.dram_written_bytes)
    table.add_row("L2", nbytes(t.l2_read_bytes), nbytes(t.l2_written_bytes), f"{l2:,.0f}", percent(l2_share),
                  f"{percent(t.l2_hit_rate)} of requests hit")
    table.add_row("DRAM", nbytes(t.dram_read_bytes), nbytes(t.dram_written_bytes), f"{dram:,.0f}",
                  percent(dram / facts.hw.dram.peak_gbs), _rereads(facts))
    read, written = facts.tensor_bytes
    table.add_row("tensors, once", nbytes(read), nbytes(written), "", "", "")
    kept = written - t.dram_written_bytes
    notes = [f"{nbytes(kept)} of what was written still stand in the L2 at the end"] if kept > 0 else []
    notes += _between_sms(facts)
    return titled("Memory traffic", table, *([Text("\n".join(notes), style="dim")] if notes else []))


def _between_sms(facts: Facts) -> list[str]:
    n = facts.result.network
    if not n.requests:
        return []
    way = f"over {n.mean_hops:.1f} links, busy {percent(n.link_utilization)}, " if facts.hw.cluster.network == "mesh" else ""
    return [f"between SMs: {nbytes(n.bytes)} and signals in {plural(n.requests, 'request')}, {way}"
            f"{n.residence_cycles:.0f} cycles each in the network"]  # fmt: skip


def _rereads(facts: Facts) -> str:
    read = facts.tensor_bytes[0]
    if not read or facts.result.traffic.dram_read_bytes < 1.05 * read:
        return ""
    return f"{facts.result.traffic.dram_read_bytes / read:.1f} x the tensors read"
