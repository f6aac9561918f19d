"""The exception class of the backend."""

from __future__ import annotations


class SimulationError(ValueError):
    """A graph that cannot run on the hardware asked for, or a demand that makes no sense; says what and how to mend it."""
