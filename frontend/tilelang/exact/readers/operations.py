"""What each tile operation becomes, behind `LowerTileOp`.

The pass replaces an operation by many statements. To know which are whose, it is run a second time on a copy of its input in
which an attribute with the operation's number surrounds each operation; the attribute survives, and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...expr import op_name
from ..facts import OperationFacts, TensorCoreFacts, TmaFacts
from ..ir import called_name, find, integer, leaves, tile_operation, trips
from . import Unreadable, View, reader

_MARK = "gtsim.place"
_MULTICAST = "tl.tma_load_multicast"
_UNITS = {
    "tl.tma_load": "tma_load", "tl.tma_load_im2col": "tma_load", _MULTICAST: "tma_load", "tl.tma_store": "tma_store",
    "tl.tma_reduce": "tma_reduce", "tl.ptx_cp_async": "cp_async", "tirx.ptx_cp_async": "cp_async", "tl.ptx_wgmma_ss": "wgmma",
    "tl.ptx_wgmma_rs": "wgmma", "tl.ptx_wgmma_sp_ss": "wgmma", "tl.ptx_wgmma_sp_rs": "wgmma", "tirx.ptx_mma": "mma",
    "tl.ptx_mma": "mma", "tirx.ptx_mma_sp": "mma", "tl.ptx_mma_sp": "mma", "tl.ptx_mma_sm70": "mma",
    "tl.ptx_ldmatrix": "ldmatrix", "tirx.ptx_ldmatrix": "ldmatrix", "tl.ptx_stmatrix": "stmatrix",
}  # fmt: skip
_DESCRIPTOR = "tl.create_tma_descriptor"
_SWIZZLE = (0, 32, 64, 128)  #: bytes, by CUtensorMapSwizzle


@reader("operations", after="tl.LowerTileOp")
def read(view: View) -> tuple[OperationFacts, ...]:
    """One entry a tile operation of the captured kernel, in statement order."""
    names = _operations(view.captured)
    if names != _operations(view.before):
        raise Unreadable("the tile operations behind LayoutInference are not those of the captured kernel")
    marked = view.relower(_mark(view.before))
    if _instructions(marked) != _instructions(view.body):
        raise Unreadable("tile operations lower differently when they are numbered")
    bodies: dict[int, list[Any]] = {}
    for attr in find(marked, "AttrStmt"):
        if str(attr.attr_key) == _MARK:
            bodies.setdefault(int(attr.value.value), []).append(attr.body)
    missing = sorted(set(range(len(names))) - set(bodies))
    if missing:
        raise Unreadable(f"operation {missing[0]} ({names[missing[0]]}) has no counterpart behind LowerTileOp")
    return tuple(_facts(place, name, bodies[place]) for place, name in enumerate(names))


def _operations(body: Any) -> list[str]:
    return [name for name in (tile_operation(leaf) for leaf, _ in leaves(body)) if name]


def _mark(body: Any) -> Any:
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    count = 0

    def surround(statement: Any) -> Any:
        nonlocal count
        if not tile_operation(statement):
            return None
        count += 1
        return tir.AttrStmt(tir.StringImm("tile operation"), _MARK, tir.IntImm("int32", count - 1), statement)

    return tir.stmt_functor.ir_transform(body, None, surround, [f"{'tirx' if hasattr(tvm, 'tirx') else 'tir'}.Evaluate"])


def _instructions(body: Any) -> Counter[tuple[str, str, int | None]]:
    return Counter((name, str(leaf.value.args[0].value) if _UNITS[name] in ("wgmma", "mma") else "", trips(loops))
                   for leaf, loops in leaves(body) for name in (called_name(leaf),) if name in _UNITS)


def _facts(place: int, name: str, bodies: list[Any]) -> OperationFacts:
    found: list[tuple[str, Any, int | None]] = []
    plain = False
    for body in bodies:
        for leaf, loops in leaves(body):
            unit = _UNITS.get(called_name(leaf))
            if unit:
                found.append((unit, leaf.value, trips(loops)))
            plain = plain or (type(leaf).__name__ == "BufferStore" and str(leaf.buffer.scope()).startswith(("shared", "global")))
    units = {unit for unit, _, _ in found} | ({"simt"} if plain else set())
    return OperationFacts(place=place, operation=name, units=tuple(sorted(units)), tensor_core=_tensor_core(found),
                          tma=_tma(found))


def _tensor_core(found: list[tuple[str, Any, int | None]]) -> TensorCoreFacts | None:
    mine = [(unit, call, n) for unit, call, n in found if unit in ("wgmma", "mma")]
    if not mine:
        return None
    shapes = {str(call.args[0].value) for unit, call, _ in mine}
    if len(shapes) != 1 or any(n is None for _, _, n in mine):
        raise Unreadable(f"a product of several instruction shapes ({', '.join(sorted(shapes))}) or of unknown length")
    unit = mine[0][0]
    return TensorCoreFacts(unit=unit, shape=shapes.pop(), instructions=sum(n or 0 for _, _, n in mine),
                           a_register=unit == "wgmma" and op_name(mine[0][1]).endswith("_rs"))


def _tma(found: list[tuple[str, Any, int | None]]) -> TmaFacts | None:
    mine = [(unit, call, n) for unit, call, n in found if unit in ("tma_load", "tma_store")]
    if not mine:
        return None
    together = [m for m in mine if op_name(m[1]) == _MULTICAST]
    mine = together or mine  # the others are what CTAs outside of the mask do instead
    kinds = {(unit, *_box(unit, call)) for unit, call, _ in mine}
    if len(kinds) != 1 or any(n is None for _, _, n in mine):
        raise Unreadable("a TMA copy of several different boxes, or of unknown length")
    unit, mapped, box, swizzle, strides = kinds.pop()
    return TmaFacts(unit=unit, tensor_map=mapped, box=box, instructions=sum(n or 0 for _, _, n in mine), swizzle_bytes=swizzle,
                    element_strides=strides)


def _box(unit: str, call: Any) -> tuple[bool, tuple[int, ...], int, tuple[int, ...]]:
    first = call.args[0]
    if type(first).__name__ == "Call" and op_name(first) == _DESCRIPTOR:
        args, rank = first.args, integer(first.args[1]) or 0
        at = 3 + 2 * rank
        numbers = [integer(a) for a in args[at:at + 2 * rank]]
        mode = integer(args[at + 2 * rank + 1])
        if None in numbers or mode not in range(len(_SWIZZLE)):
            raise Unreadable("a tensor map whose box or swizzle is not constant")
        boxes = [n or 0 for n in numbers]
        return True, tuple(reversed(boxes[:rank])), _SWIZZLE[mode or 0], tuple(reversed(boxes[rank:]))
    # A run of bytes: load(shared, barrier, global, bytes), store(global, shared, bytes).
    size = integer(call.args[3 if unit == "tma_load" else 2])
    pointers = [a for a in call.args if type(a).__name__ == "Call" and op_name(a).endswith(("access_ptr", "address_of"))]
    if size is None or not pointers:
        raise Unreadable("a bulk copy whose length is not constant")
    return False, (size * 8 // _pointer_bits(pointers[0]),), 0, ()


def _pointer_bits(pointer: Any) -> int:
    import tvm

    first = pointer.args[0]
    dtype = str(first.buffer.dtype) if type(first).__name__ == "BufferLoad" else str(first.dtype)
    if type(first).__name__ == "Call" and first.args and type(first.args[0]).__name__ == "StringImm":
        dtype = str(first.args[0].value)
    return int(tvm.DataType(dtype).bits) or 8
