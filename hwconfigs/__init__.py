"""Hardware files: one TOML file a GPU, and the schema that loads it.

>>> hardware = load_hardware("h200_sxm", {"l2.latency_near_cycles": 200})
>>> hardware.l2.latency_near_cycles
200.0
"""

from .errors import HardwareError
from .load import diff_hardware, list_hardware, load_hardware, load_override_file, parse_override
from .schema import Hardware
from .tables import Resource

__all__ = [
    "Hardware",
    "HardwareError",
    "Resource",
    "diff_hardware",
    "list_hardware",
    "load_hardware",
    "load_override_file",
    "parse_override",
]
