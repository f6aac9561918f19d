"""Times a kernel on this machine's own GPU and puts the result beside the prediction (docs/measure.md).

`device.Device` is all that touches a GPU; everything else runs, and is tested, without one.
"""

from __future__ import annotations

from .device import Clocks, Device, Gpu, Kernel, Samples, Timer
from .run import Measurement, measure

__all__ = ["Clocks", "Device", "Gpu", "Kernel", "Measurement", "Samples", "Timer", "measure"]
