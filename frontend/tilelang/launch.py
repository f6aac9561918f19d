"""Launch facts that the capture point does not state: launch order of the blocks, registers a thread."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import FrontendError
from .expr import op_name
from .program import Program, Storage

REGISTER_FILE = 65536  #: 32-bit registers of an SM
MAX_REGISTERS = 255  #: 32-bit registers of a thread
BASE_REGISTERS = 32  #: addresses, counters, temporaries (observed floor of TileLang kernels, TILELANG_IR section 18)
#: The same without tensor cores: ptxas 13.5 gives an element-wise kernel 16 with 8 words of tiles (fp32), 19 with as many
#: (fp16), and an RMS norm 125 with 104.
SIMPLE_REGISTERS = 16


def block_coordinates(grid: tuple[int, int, int]) -> Any:
    """Coordinates [n, 3] of all blocks, x fastest."""
    x, y, z = grid
    linear = np.arange(x * y * z, dtype=np.int64)
    return np.stack([linear % x, linear // x % y, linear // (x * y)], axis=1)


def launch_positions(grid: tuple[int, int, int], swizzle: tuple[str, int] | None) -> Any:
    """Position in launch order of each block of :func:`block_coordinates`.

    `threadblock_swizzle_pattern` remaps the hardware's block id to a logical one: the launch order is the hardware's.
    """
    x, y, z = grid
    linear = np.arange(x * y * z, dtype=np.int64)
    if swizzle is None:
        return linear
    name, panel = swizzle
    plane = x * y
    at = linear % plane
    if name == "rasterization2DRow":
        major, minor = y, x
    elif name == "rasterization2DColumn":
        major, minor = x, y
    else:
        raise FrontendError(f"the block swizzle {name!r} is not supported", fix="Use T.use_swizzle with order row or column.")
    del major
    size = panel * minor
    offset, index = at % size, at // size
    stride = np.where(index + 1 < -(-plane // size), panel, (plane - index * size) // minor)
    stride = np.maximum(stride, 1)
    across = np.where(index & 1, minor - 1 - offset // stride, offset // stride)
    along = offset % stride + index * panel
    column, row = (across, along) if name == "rasterization2DRow" else (along, across)
    logical = column + x * row + linear // plane * plane
    positions = np.empty_like(linear)
    positions[logical] = linear
    return positions


def registers_per_thread(program: Program, storages: Iterable[Storage], *, reallocates: bool, math_threads: int,
                         tensor_cores: bool = True, operand_words: float = 0.0, staging: Iterable[Storage] = (),
                         ctas_per_sm: int = 0) -> int:
    """Registers a thread at launch: the compiler's cap where roles reallocate, else an estimate from the register tiles.

    Args:
        program: the kernel.
        storages: all buffers; fragments and local arrays count as live at once.
        reallocates: the kernel changes register counts at run time (setmaxnreg).
        math_threads: threads that hold the fragments.
        tensor_cores: whether the kernel uses them; others have fewer addresses and counters.
        operand_words: registers of one step's mma.sync operands; ptxas keeps two steps in flight (144 registers for a 128x128
            tile on 256 threads, 238 on 128 threads: 32 + accumulator + two steps).
        staging: tiles that pass through registers from global to shared memory inside the main loop.
        ctas_per_sm: what the kernel asks for (:func:`occupancy_hint`): ptxas then gives no thread more than lets them fit.
    """
    cap = REGISTER_FILE // (program.threads * max(ctas_per_sm, 1)) // 8 * 8
    if reallocates:
        return min(240, cap)
    words = 2 * operand_words + sum(s.nbytes / 4 / program.threads for s in staging)
    for s in storages:
        if s.scope in ("fragment", "local") and "." not in s.name:
            size = s.nbytes / 4
            words += size / math_threads if s.scope == "fragment" else max(size, 1)
    base = BASE_REGISTERS if tensor_cores else SIMPLE_REGISTERS
    need = max(int(-(-(base + words) // 8) * 8), BASE_REGISTERS)
    return max(min(need, MAX_REGISTERS, cap), 16)


def occupancy_hint(program: Program) -> int:
    """CTAs an SM that `T.annotate_min_blocks_per_sm` asks for (second argument of `__launch_bounds__`); 0 if it does not. It is a
    statement of the body before device functions are split off."""
    import tvm

    found = int((program.func_attrs or {}).get("tl.min_blocks_per_sm", 0))

    def visit(statement: Any) -> None:
        nonlocal found
        if type(statement).__name__ == "AttrStmt" and str(statement.attr_key) == "tl.min_blocks_per_sm":
            found = max(found, int(statement.value))

    (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.post_order_visit(program.body, visit)
    return found


def orders_blocks(program: Program) -> bool:
    """Whether blocks may wait for each other: flags (`T.atomic_load`, `T.atomic_store`, tickets) or a grid barrier."""
    import tvm

    found = False

    def visit(node: Any) -> None:
        nonlocal found
        if type(node).__name__ == "Call" and re.search(r"atomic_(load|store|cas)|_ret_|sync_grid", op_name(node)):
            found = True

    (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.post_order_visit(program.body, visit)
    return found


def spill_warning(storages: Iterable[Storage], math_threads: int) -> str | None:
    """Says so if one register tile alone takes more registers than a thread can have."""
    largest = max((s for s in storages if s.scope == "fragment"), key=lambda s: s.nbytes, default=None)
    words = largest.nbytes / 4 / math_threads if largest else 0
    if largest is None or words <= MAX_REGISTERS:
        return None
    return (f"{largest.name} takes {words:.0f} registers of each of {math_threads} threads, and a thread has at most "
            f"{MAX_REGISTERS}: the compiler will spill to local memory, which gtsim does not model, so the real kernel is much "
            "slower. Use a smaller tile or more threads.")
