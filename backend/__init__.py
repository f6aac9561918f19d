"""Tile graphs in, predictions out: demand lowering, the event engine and its resource models.

This room knows the graph and the hardware files, nothing of frontends, and never imports tilelang, tvm or torch.
"""

from .compile import POLICIES
from .demand import Demand, MemoryAccess, Stage, demand, memory, unit, warp
from .errors import SimulationError
from .occupancy import Occupancy, limits, occupancy
from .result import RESULT_SCHEMA, Operation, Result, RoleTime, Traffic
from .simulate import FIDELITIES, MAX_THREADS, simulate
from .stream import Earlier, EarlyStart, Schedule, early_start, waits_for_earlier

__all__ = ["FIDELITIES", "MAX_THREADS", "POLICIES", "RESULT_SCHEMA", "Demand", "Earlier", "EarlyStart", "MemoryAccess",
           "Occupancy", "Operation", "Result", "RoleTime", "Schedule", "SimulationError", "Stage", "Traffic", "demand",
           "early_start", "limits", "memory", "occupancy", "simulate", "unit", "waits_for_earlier", "warp"]
