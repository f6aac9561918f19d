"""The network between the SMs of a GPC: what a crossbar takes, and the mesh that is as fast on average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..hwconfigs import Hardware


@dataclass(frozen=True)
class Network:
    """What crossed the network between SMs. A request is up to 128 bytes (a line) of a message; a signal or the request of a load
    counts as one without bytes."""

    requests: int = 0
    bytes: int = 0
    mean_hops: float = 0.0  #: links that a request passes; 1 in a crossbar
    residence_cycles: float = 0.0  #: mean time of a request between the ports of two SMs
    link_utilization: float = 0.0  #: share of the run that links were busy, mean over all links of all GPCs; 0 in a crossbar
    link_wait_cycles: float = 0.0  #: how much of the residence was waiting for links, mean over requests


def network_of(counters: Sequence[int], end_ticks: int, ticks_per_cycle: int) -> Network:
    """From the engine's counters: requests, bytes, hops, residence, busy and waiting time of links, links."""
    requests, moved, hops, residence, busy, waited, links = counters
    if not requests:
        return Network()
    return Network(requests, moved, hops / requests, residence / requests / ticks_per_cycle,
                   busy / (links * end_ticks) if links else 0.0, waited / requests / ticks_per_cycle)  # fmt: skip


def crossbar_transit_cycles(hw: Hardware) -> float:
    """One way through the crossbar, cycles: a load is a way there, one through shared memory, and a way back."""
    return max(hw.cluster.load_cycles - hw.smem.latency_cycles, 0.0) / 2


def mesh_like_crossbar(hw: Hardware, columns: int, rows: int) -> Mapping[str, Any]:
    """Overrides that make the network of `hw` a mesh of `rows` x `columns` SMs with the crossbar's average latency and bandwidth.

    Latency: over all pairs of different SMs the mean way, (hops + 1) routers, takes what the crossbar takes. Bandwidth: if every
    SM sends to all others evenly, the busiest link is as busy as the ports of the SMs, so that both networks carry as much.

    Raises:
        ValueError: fewer than two SMs.
    """
    sms = columns * rows
    if min(columns, rows) < 1 or sms < 2:
        raise ValueError(f"a mesh of {rows} x {columns} SMs connects nothing. Use at least two.")
    pairs = sms * (sms - 1)
    hops = sum(abs(a // columns - b // columns) + abs(a % columns - b % columns) for a in range(sms) for b in range(sms)) / pairs
    # Ways along the row come first: a link between columns c and c + 1 carries what the c + 1 SMs to the left in its row send to
    # the SMs right of it in all rows; a link between rows what the rows above send to the SMs of its column below.
    along = max(((c + 1) * (columns - c - 1) * rows for c in range(columns - 1)), default=0)
    down = max(((r + 1) * columns * (rows - r - 1) for r in range(rows - 1)), default=0)
    port = hw.resources["sm_to_sm_out"].rate_per_cycle
    return {
        "cluster.network": "mesh",
        "cluster.mesh_columns": columns,
        "cluster.hop_cycles": crossbar_transit_cycles(hw) / (hops + 1),
        "cluster.link_bytes_per_cycle": port * max(along, down) / (sms - 1),
    }
