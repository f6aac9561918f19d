"""Bytes of shared memory, behind the passes that merge buffers and lower the launch."""

from __future__ import annotations

from typing import Any

from ...expr import op_name
from ..facts import SharedMemoryFacts
from ..ir import integer, leaves
from . import Unreadable, View, reader

_STATIC = ("shared", "shared.barrier", "shared.cluster_barrier")


@reader("shared_memory", after="tl.LowerDeviceKernelLaunch")
def read(view: View) -> SharedMemoryFacts:
    """The dynamic size is an attribute of the function, offsets are where buffers begin in the one that is left."""
    offsets: dict[str, int] = {}
    static = 0
    for leaf, _ in leaves(view.body):
        kind = type(leaf).__name__
        if kind == "AllocBuffer" and str(leaf.buffer.scope()) in _STATIC:
            size = _bytes(leaf.buffer)
            static = -(-static // 16) * 16 + size
        elif kind == "Bind" and type(leaf.value).__name__ == "Call" and op_name(leaf.value).endswith("handle_add_byte_offset"):
            at = integer(leaf.value.args[1])
            if at is not None:
                offsets.setdefault(str(leaf.var.name), at)
    dynamic = int(view.func.attrs.get("dyn_shared_memory_buf", 0))
    return SharedMemoryFacts(dynamic_bytes=dynamic, static_bytes=static, offsets=offsets)


def _bytes(buffer: Any) -> int:
    import tvm

    total = 1
    for extent in buffer.shape:
        size = integer(extent)
        if size is None:
            raise Unreadable(f"the size of the static buffer {buffer.name} is not constant")
        total *= size
    dtype = tvm.DataType(str(buffer.dtype))
    return -(-total * int(dtype.bits) * int(getattr(dtype, "lanes", 1)) // 8)


