"""Memory between the kernels of a sequence: where named tensors lie, and what the L2 holds of them.

Every run of the engine says which blocks of tensors (lines, in fidelity "line") are in the L2 at its end, which of their bytes
are modified, and in which order they were used. The next kernel starts with that. It may cut the same tensors into other blocks,
or see the same bytes as another shape: the engine then cuts what is there anew, by address (gtsim/backend/engine/recut.hpp). What
the next kernel does not touch stays in the L2, takes its room, and is written back when it has to leave.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..graph import Buffer, KernelGraph
from ..hwconfigs import Hardware
from .errors import SimulationError

#: Allocations start on pages of this size.
PAGE_BYTES = 2 << 20
#: Bits of a block's key below the number of its tensor.
_KEY_BITS = 48

#: base address, bits of an element, shape, strides in bytes, shape of a block
View = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class L2Contents:
    """What is in the L2, the least recently used first. Made by a run, for the next one.

    Attributes:
        hardware: hash of the GPU that it is of.
        by_line: whether keys are lines (address over line size), or blocks of `views`.
        views: tensors as they were cut: the number of one is the upper part of a key.
        keys: uint64[n].
        there, dirty: bytes that are there, and of them modified; of lines the masks of their sectors, int32[n].
        copies: which other partitions hold it too, uint32[n].
        foreign: what is left of other programs, and what was written back of it, bytes, int64[2 * groups].
    """

    hardware: str
    by_line: bool
    views: tuple[View, ...]
    keys: np.ndarray
    there: np.ndarray
    dirty: np.ndarray
    copies: np.ndarray
    foreign: np.ndarray


@dataclass(frozen=True, eq=False)
class DeviceMemory:
    """Where the tensors of a sequence of kernels lie, and what the L2 holds of them between two kernels. `DeviceMemory()` is that
    in front of the first one; `Result.memory` is what a run leaves.

    Attributes:
        addresses: name of a tensor -> (address, bytes).
        names: name of a tensor in the kernel to come -> its name in the sequence, where they differ.
        l2: None: the L2 is as the hardware file has it at a start.
    """

    addresses: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    l2: L2Contents | None = None

    def placed(self, graph: KernelGraph, names: Mapping[str, str] | None = None) -> DeviceMemory:
        """The same with room for the tensors of `graph`: those that are known (by `names`, else by their own name) keep their
        place, unless they grew; others lie behind all there are.

        Raises:
            SimulationError: `names` has a name that the kernel lacks.
        """
        own = {b.name for b in graph.buffers if b.scope == "global"}
        for name in names or {}:
            if name not in own:
                raise SimulationError(f"{graph.name} has no tensor {name!r}. It has {', '.join(sorted(own))}.")
        addresses = dict(self.addresses)
        end = max((address + size for address, size in addresses.values()), default=0)
        for buffer, name in zip(graph.buffers, _known_as(graph, names or {}), strict=True):
            size = _span(buffer)
            if not name or name in addresses and addresses[name][1] >= size:
                continue
            start = -(-end // PAGE_BYTES) * PAGE_BYTES
            addresses[name] = (start, size)
            end = start + size
        return replace(self, addresses=addresses, names=dict(names or {}))

    def bases(self, graph: KernelGraph) -> list[int]:
        """Address of each buffer of `graph`, which was placed; 0 of what is not in global memory."""
        return [self.addresses[name][0] if name else 0 for name in _known_as(graph, self.names)]

    def check(self, hw: Hardware, fidelity: str) -> None:
        """Raises SimulationError if a run on `hw` cannot start with these contents."""
        if self.l2 is None:
            return
        if self.l2.hardware != hw.hash:
            raise SimulationError("the L2 contents are of another GPU, or of other overrides. Start with DeviceMemory().")
        if self.l2.by_line != (fidelity == "line"):
            raise SimulationError(f"the L2 contents are of another fidelity, and cannot be used with {fidelity!r}. Run all "
                                  "kernels of a sequence with the same.")

    def after(self, raw: Mapping[str, Any], program: Mapping[str, Any], hw: Hardware, fidelity: str) -> DeviceMemory:
        """What a run leaves that gave `raw` for the engine input `program`."""
        if not hw.l2.carried:
            return replace(self, names={}, l2=None)
        by_line = fidelity == "line"
        keys = raw["l2_keys"]
        views: tuple[View, ...] = ()
        if not by_line:
            numbers = (keys >> np.uint64(_KEY_BITS)).astype(np.int64)
            used, place = np.unique(numbers, return_inverse=True)
            views = tuple(_view(program["tensors"][i]) for i in used.tolist())
            keys = _keyed(keys, place.reshape(-1))
        l2 = L2Contents(hw.hash, by_line, views, keys, raw["l2_there"], raw["l2_dirty"], raw["l2_copies"], raw["l2_foreign"])
        return replace(self, names={}, l2=l2)

    @property
    def digest(self) -> str:
        """Hex digits that are the same for the same addresses and contents."""
        found = hashlib.sha256(repr(sorted(self.addresses.items())).encode())
        if self.l2 is not None:
            found.update(repr((self.l2.hardware, self.l2.by_line, self.l2.views)).encode())
            for array in (self.l2.keys, self.l2.there, self.l2.dirty, self.l2.copies, self.l2.foreign):
                found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()

    def __repr__(self) -> str:
        held = 0 if self.l2 is None else len(self.l2.keys)
        return f"<DeviceMemory of {len(self.addresses)} tensors, {held} blocks in the L2>"


def _known_as(graph: KernelGraph, names: Mapping[str, str]) -> list[str]:
    """What each buffer of `graph` is called in the sequence; "" if it is not in global memory. Of several with one name,
    the first is meant."""
    out: list[str] = []
    for buffer in graph.buffers:
        name = names.get(buffer.name, buffer.name)
        while name in out:
            name += "'"
        out.append(name if buffer.scope == "global" else "")
    return out


def _span(buffer: Buffer) -> int:
    """Bytes from the first to the last of a tensor."""
    strides = [max(1, s * buffer.bits // 8) for s in buffer.element_strides()]
    return max(0, sum((n - 1) * s for n, s in zip(buffer.shape, strides, strict=True)) + max(1, buffer.bits // 8))


def tensor_views(graph: KernelGraph, blocks: Sequence[Sequence[int]], memory: DeviceMemory) -> list[dict[str, Any]]:
    """The tensors of `graph`, cut into `blocks`, for the engine."""
    return [
        _engine_tensor((base, b.bits, tuple(b.shape), tuple(max(1, s * b.bits // 8) for s in b.element_strides()), tuple(block)))
        for b, block, base in zip(graph.buffers, blocks, memory.bases(graph), strict=True)
    ]  # fmt: skip


def carried_input(graph: KernelGraph, tensors: list[dict[str, Any]], memory: DeviceMemory | None) -> dict[str, Any]:
    """The engine's input about tensors and what of them is in the L2."""
    own = len(tensors)
    l2: dict[str, Any] = {
        "keep": int(memory is not None),
        "carried": 0,
        "own_tensors": own,
        "carried_into": np.array([i for i, b in enumerate(graph.buffers) if b.scope == "global" and b.shape], dtype=np.int32),
    }
    contents = None if memory is None else memory.l2
    if contents is None:
        return {"tensors": tensors, "l2": l2}
    # What is cut as the kernel cuts it is one of its own tensors, so far as that is the only one there.
    known: dict[View, int] = {}
    for i, (t, b) in enumerate(zip(tensors, graph.buffers, strict=True)):
        if b.scope == "global":
            known.setdefault(_view(t), i)
    number = np.array([known.get(v, -1) for v in contents.views], dtype=np.int64)
    more = np.flatnonzero(number < 0)
    number[more] = own + np.arange(len(more))
    keys = contents.keys
    if not contents.by_line:
        keys = _keyed(keys, number[(keys >> np.uint64(_KEY_BITS)).astype(np.int64)])
    l2 |= {"carried": 1, "keys": keys, "there": contents.there, "dirty": contents.dirty, "copies": contents.copies,
           "foreign": contents.foreign}
    return {"tensors": [*tensors, *(_engine_tensor(contents.views[i]) for i in more.tolist())], "l2": l2}


def _keyed(keys: np.ndarray, tensor: np.ndarray) -> np.ndarray:
    """`keys` with other numbers of tensors."""
    index = keys & np.uint64((1 << _KEY_BITS) - 1)
    return np.asarray(index | (tensor.astype(np.uint64) << np.uint64(_KEY_BITS)), dtype=np.uint64)


def _view(tensor: Mapping[str, Any]) -> View:
    shape, strides, block = (tuple(tensor[k].tolist()) for k in ("shape", "stride_bytes", "block"))
    return tensor["base"], tensor["element_bits"], shape, strides, block


def _engine_tensor(view: View) -> dict[str, Any]:
    base, bits, shape, strides, block = view
    arrays = {"shape": shape, "stride_bytes": strides, "block": block}
    return {"base": base, "element_bits": bits, **{k: np.array(v, dtype=np.int64) for k, v in arrays.items()}}
