"""Tile graphs in, predictions out: demand lowering, the event engine and its resource models.

This room knows the graph and the hardware files, nothing of frontends, and never imports tilelang, tvm or torch.
"""

from .compile import POLICIES
from .demand import EVERY_CTA, Demand, MemoryAccess, Message, Stage, demand, memory, unit, warp
from .errors import SimulationError
from .memory import DeviceMemory
from .network import Network, mesh_like_crossbar
from .occupancy import ClusterResidency, Occupancy, cluster_residency, limits, occupancy
from .result import RESULT_SCHEMA, Operation, Result, RoleTime, Traffic
from .simulate import FIDELITIES, MAX_THREADS, simulate
from .stream import Earlier, EarlyStart, Schedule, early_start, waits_for_earlier

__all__ = ["EVERY_CTA", "FIDELITIES", "MAX_THREADS", "POLICIES", "RESULT_SCHEMA", "ClusterResidency", "Demand",
           "DeviceMemory", "Earlier",
           "EarlyStart", "MemoryAccess", "Message", "Network", "Occupancy", "Operation", "Result", "RoleTime", "Schedule",
           "SimulationError", "Stage", "Traffic", "cluster_residency", "demand", "early_start", "limits", "memory",
           "mesh_like_crossbar", "occupancy", "simulate", "unit", "waits_for_earlier", "warp"]
