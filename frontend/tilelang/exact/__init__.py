"""Exact facts: what TileLang's passes behind the capture point decide, read from the compiler instead of computed by rule.

`facts` is the data model, `pipeline` runs the passes, `readers` (one self-registering file each) read a fact behind one pass,
`cache` keeps the result on disk, `ptxas` asks the assembler, `compare` holds rules and facts together.
"""

from __future__ import annotations

from .facts import (
    BarrierFacts,
    BufferFacts,
    ExactFacts,
    KernelFacts,
    OperationFacts,
    RegisterFacts,
    SharedMemoryFacts,
    TensorCoreFacts,
    TmaFacts,
)

__all__ = ["BarrierFacts", "BufferFacts", "ExactFacts", "KernelFacts", "OperationFacts", "RegisterFacts", "SharedMemoryFacts",
           "TensorCoreFacts", "TmaFacts"]
