"""What a simulation found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .memory import DeviceMemory
from .network import Network
from .stream import Schedule

#: Version of the dictionary that :meth:`Result.to_dict` returns; documented in docs/result.md.
RESULT_SCHEMA = 1


@dataclass(frozen=True)
class Traffic:
    """Bytes moved at each level, the share of L2 requests that hit, and the bytes that the L2 was spared because their lines were
    under way for the other SM of the pair."""

    l2_read_bytes: int
    l2_written_bytes: int
    dram_read_bytes: int
    dram_written_bytes: int
    l2_hit_rate: float
    l2_coalesced_bytes: int = 0


@dataclass(frozen=True)
class RoleTime:
    """Where the warps of one role spend their time, as shares of it (they sum to 1).

    `working` is executing instructions (their pipes are busy with this role, mma included); `waits` names what the rest was:
    `barrier <name>`, `data <producer>`, `queue <resource>`, `latency <operation>`, `group <queue>`, `sync`, `idle`.
    """

    role: str
    warps: int
    working: float
    waits: Mapping[str, float]


@dataclass(frozen=True)
class Operation:
    """One source operation, summed over all its executions: mean cycles of each part."""

    source: str
    type: str
    role: str
    executions: int
    wait_cycles: float  #: from program order until what it depends on was there
    queue_cycles: float  #: ready, but its resources were busy
    service_cycles: float  #: holding its warps
    latency_cycles: float  #: from then to completion


@dataclass(frozen=True)
class Result:
    """A prediction. Times are in SM cycles unless the name says otherwise."""

    kernel: str
    hardware: str
    arch: str
    clock_mhz: float
    fidelity: str
    cycles: int
    time_us: float
    flops: int
    tflops: float
    ctas: int
    ctas_per_sm: int
    occupancy_limiter: str
    warps_per_sm: int
    waves: int
    full_waves: float
    cta_cycles: float  #: mean lifetime of a CTA
    utilization: Mapping[str, float]  #: resource -> share of the run that it was busy, mean over its instances
    queued_cycles: Mapping[str, float]  #: resource -> mean cycles a CTA's requests waited for it
    traffic: Traffic
    network: Network  #: between SMs; zeros without clusters
    roles: tuple[RoleTime, ...]
    operations: tuple[Operation, ...]
    bound_by: str
    graph: Mapping[str, int]  #: templates, nodes, edges, instances, bytes, instance_bytes, executed_nodes
    events: int
    seconds: Mapping[str, float]  #: host seconds: lowering, graph, compile, simulation
    versions: Mapping[str, str]
    hashes: Mapping[str, str]
    skipped: Mapping[str, float] = field(default_factory=dict)  #: fidelity "fast": ctas, share of the run, bound of the error
    warnings: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timeline: tuple[Mapping[str, Any], ...] = ()
    schedule: Schedule | None = field(default=None, repr=False, compare=False)
    memory: DeviceMemory | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data with `schema` = :data:`RESULT_SCHEMA`; see docs/result.md."""
        out = {"schema": RESULT_SCHEMA, **asdict(replace(self, schedule=None, memory=None))}
        for name in ("timeline", "schedule", "memory"):
            out.pop(name)
        return out

    def report(self, *, width: int | None = None) -> None:
        """Print the report to the terminal. Replaced by the front door when it is loaded."""
        print(self.to_dict())
