"""Demands: what one node asks of the hardware. A node type is taught to the backend by one function::

    @demand("fused_mma")
    def fused_mma(node: Node, hw: Hardware) -> Demand:
        return Demand([warp({"issue": 4}), unit({"tensor": 2 * m * n * k}, latency_cycles=40)])

The engine sees only stages, resources and latencies; it knows no node-type names.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..graph import Node
from ..hwconfigs import Hardware
from .errors import SimulationError


@dataclass(frozen=True)
class MemoryAccess:
    """How one tile of the node travels between an SM and the memory system.

    Attributes:
        tile: which tile of the node (index into `node.tiles`).
        direction: "load", "store" or "atomic".
        front: resource that makes the requests (work 1 a request).
        port: resource that moves bytes between the SM and the L2.
        port_work: work on it a byte; more than 1 where requests carry headers.
        sink: resource of the on-chip memory that the data enters or leaves, or None for registers.
        sink_work: work on it a byte; more than 1 where bank conflicts slow it down.
        pool: "tma" or "lsu": whose lines in flight it counts among.
        request_bytes: contiguous bytes of one request.
        write_bytes: bytes that one write request occupies on the port.
        launch_cycles: before the first request.
        needs: name of something that an SM fetches at its first use and then keeps, such as a tensor map; empty if nothing.
        fetch_cycles: how much longer the access takes where that has to be fetched.
        merge_rows: rows that touch in memory make common requests.
        receivers: mask of the ranks of other CTAs of the cluster whose port and sink the data passes too (loads only).
    """

    tile: int
    direction: str
    front: str
    port: str
    pool: str
    request_bytes: int
    sink: str | None = None
    sink_work: float = 1.0
    write_bytes: int = 0
    port_work: float = 1.0
    launch_cycles: float = 0.0
    needs: str = ""
    fetch_cycles: float = 0.0
    merge_rows: bool = False
    receivers: int = 0


#: `Message.cta` of a signal to every other CTA of the cluster.
EVERY_CTA = -1


@dataclass(frozen=True)
class Message:
    """What a stage sends over the network between SMs, or fetches over it.

    Attributes:
        cta: rank of the other CTA; :data:`EVERY_CTA` for a signal to all others.
        nbytes: data; it leaves an SM by the port `sm_to_sm_out`, which is among the uses of the stage (or of its `remote` work,
            when it is fetched). 0 for a signal, which only takes time.
        fetch: a request goes there, the data comes back.
    """

    cta: int
    nbytes: int = 0
    fetch: bool = False


@dataclass(frozen=True)
class Stage:
    """One step of a node. `kind` is "warp" (the executing warps are held), "unit" (a unit works behind their back, the first
    resource in `uses` is that unit) or "memory".

    `uses` maps a resource to the work in its unit, summed over all executing warps; resources of sub-partition scope share
    it evenly among the warps' sub-partitions. `hold_cycles` holds the warps beyond the work, `latency_cycles` delays what
    follows. `pieces` is how many parts of the stage may interleave with other nodes; chosen by the backend if None.
    `remote` is work, besides `uses`, on resources of the SM of another CTA of the cluster, the one with rank `cta`; not of
    sub-partitions. `latency_cycles` counts the network between SMs as a crossbar; `message` says what crosses it, so that the
    way in another network takes its place. `queue` is for units: stages of one queue of a CTA are executed in order; None if it
    stands in none.
    """

    kind: str
    uses: Mapping[str, float] = field(default_factory=dict)
    hold_cycles: float = 0.0
    latency_cycles: float = 0.0
    pieces: int | None = None
    access: MemoryAccess | None = None
    remote: Mapping[str, float] = field(default_factory=dict)
    cta: int = 0
    message: Message | None = None
    queue: int | None = None


@dataclass(frozen=True)
class Demand:
    """The stages of a node, one after the other; warp stages come first.

    `signal` is what the node says to other kernels of the stream: "trigger" (this CTA does not keep the next kernel from
    starting), "wait" (the node is not ready before the kernels before its own have completed), or "". To other CTAs of its own
    kernel: "grid" (the node is not ready before all of them have come as far).
    """

    stages: Sequence[Stage]
    signal: str = ""


def warp(uses: Mapping[str, float], *, hold_cycles: float = 0.0, latency_cycles: float = 0.0, pieces: int | None = None,
         remote: Mapping[str, float] | None = None, cta: int = 0, message: Message | None = None) -> Stage:
    """A stage that the warps execute themselves."""
    return Stage("warp", uses, hold_cycles, latency_cycles, pieces, None, remote or {}, cta, message)


def unit(uses: Mapping[str, float], *, latency_cycles: float = 0.0, pieces: int | None = None,
         remote: Mapping[str, float] | None = None, cta: int = 0, message: Message | None = None,
         queue: int | None = None) -> Stage:
    """A stage that an asynchronous unit executes; the unit is the first resource of `uses`. Stages of one `queue` (at least 0) of
    a CTA are executed in order; those of others, or of none, get their turn in between."""
    return Stage("unit", uses, 0.0, latency_cycles, pieces, None, remote or {}, cta, message, queue)


def memory(access: MemoryAccess, *, latency_cycles: float = 0.0) -> Stage:
    """A stage that moves a tile."""
    return Stage("memory", latency_cycles=latency_cycles, access=access)


DemandFunction = Callable[[Node, Hardware], Demand]
_FUNCTIONS: dict[str, DemandFunction] = {}
_loaded = False


def demand(node_type: str, *, replace: bool = False) -> Callable[[DemandFunction], DemandFunction]:
    """Decorator that registers the demand of a node type.

    Raises:
        SimulationError: the type already has one, unless `replace`.
    """

    def register(function: DemandFunction) -> DemandFunction:
        if not replace and node_type in _FUNCTIONS:
            raise SimulationError(f"node type {node_type!r} already has a demand. Pass replace=True to change it.")
        _FUNCTIONS[node_type] = function
        return function

    return register


def demand_of(node: Node, hw: Hardware) -> Demand:
    """The demand of `node` on `hw`.

    Raises:
        SimulationError: no function is registered for its type, or the node lacks what the function reads.
    """
    global _loaded
    if not _loaded:
        _loaded = True
        from . import demands

        for module in pkgutil.iter_modules(demands.__path__):
            importlib.import_module(f"{demands.__name__}.{module.name}")
    function = _FUNCTIONS.get(node.type)
    if function is None:
        raise SimulationError(f"node {node.label()}: no demand is registered for node type {node.type!r}. "
                              f"Register one with @gtsim.backend.demand({node.type!r}).")
    try:
        return function(node, hw)
    except KeyError as exc:
        raise SimulationError(f"{node.label()}: the demand of {node.type!r} found no {exc}: an attribute that the node lacks, or "
                              f"a resource that {hw.name} lacks.") from exc
    except IndexError as exc:
        raise SimulationError(f"{node.label()}: a {node.type!r} node with {len(node.reads)} tiles read and {len(node.writes)} "
                              "written, fewer than its demand expects.") from exc
