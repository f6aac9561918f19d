"""Contents of the on-chip integer buffers that steer control, as far as they are known while a program runs.

An array a buffer: its own dimensions, then one for the blocks of the class (1 if all agree). Index arrays have the same last
dimension, so that everything broadcasts.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FrontendError, RequestError
from .program import Program, Storage

MAX_CELLS = 1 << 24


class Contents:
    """The known contents; one a walk."""

    def __init__(self, storages: Sequence[Storage], metadata: Mapping[str, Any], blocks: int) -> None:
        self.storages, self.metadata, self.blocks = storages, metadata, blocks
        self._arrays: dict[int, Any] = {}

    def get(self, number: int, index: tuple[Any, ...], text: str) -> Any:
        """Elements of a buffer.

        Raises:
            FrontendError: its contents are not known.
        """
        storage = self.storages[number]
        array = self._arrays.get(number)
        if array is None:
            raise FrontendError(f"control flow reads the on-chip buffer {storage.name!r}, whose contents are not known here",
                                where=text, fix="Values that steer control must come from arguments or metadata.")
        found = array[self._index(storage, index, array.shape[-1])]
        if found.ndim <= 1 and found.size == 1:
            return int(found.reshape(-1)[0])
        return found

    def _index(self, storage: Storage, index: tuple[Any, ...], blocks: int) -> tuple[Any, ...]:
        last = np.arange(blocks) if blocks > 1 else np.zeros(1, dtype=np.int64)
        cut = [np.clip(np.asarray(i), 0, n - 1) for i, n in zip(index, storage.shape, strict=True)]
        if all(c.ndim == 0 for c in cut):
            return (*(int(c) for c in cut), last)
        return (*(c if c.ndim else c.reshape(1) for c in cut), last)

    def forget(self, number: int) -> None:
        """The buffer was written with something that is not known."""
        self._arrays.pop(number, None)

    def _array(self, number: int, blocks: int, dtype: Any = np.int64) -> Any:
        storage = self.storages[number]
        array = self._arrays.get(number)
        if array is None:
            array = np.zeros((*storage.shape, 1), dtype=dtype)
        if blocks > array.shape[-1]:
            if math.prod(storage.shape) * blocks > MAX_CELLS:
                raise FrontendError(f"the contents of {storage.name!r} differ between too many blocks",
                                    fix="Use a smaller problem.")
            array = np.repeat(array, blocks, axis=-1)
        self._arrays[number] = array
        return array

    def store(self, number: int, make: Callable[..., tuple[tuple[Any, ...], Any, Any]], extents: Sequence[int]) -> None:
        """Run the stores of an element-wise statement: `make(*iteration indices)` gives (index, value, condition)."""
        if math.prod(extents) > MAX_CELLS:
            self.forget(number)
            return
        mesh = [np.arange(e).reshape(*(e if d == i else 1 for d in range(len(extents))), 1) for i, e in enumerate(extents)]
        try:
            index, value, condition = make(*mesh)
        except FrontendError as e:
            if "metadata" in (e.fix or "") or "metadata" in e.problem:
                raise
            self.forget(number)
            return
        value = np.asarray(value)
        if value.dtype.kind == "f":
            self.forget(number)
            return
        parts = [np.asarray(i) for i in index]
        shape = np.broadcast_shapes(*(p.shape for p in parts), value.shape, np.shape(condition), (*extents, 1))
        array = self._array(number, shape[-1])
        where = np.broadcast_to(np.asarray(condition, dtype=bool), shape)
        blocks = np.arange(shape[-1]) if array.shape[-1] > 1 else np.zeros(1, dtype=np.int64)
        full = [np.broadcast_to(p, shape)[where] for p in (*parts, blocks)]
        keep = np.all([(p >= 0) & (p < n) for p, n in zip(full, array.shape, strict=True)], axis=0)
        array[tuple(p[keep] for p in full)] = np.broadcast_to(value, shape)[where][keep]

    def fill(self, number: int, mins: tuple[Any, ...], extents: Sequence[int], value: Any) -> None:
        """Set a box to one value."""
        box = tuple(slice(int(m), int(m) + e) for m, e in zip(mins, extents, strict=True))
        wide = np.asarray(value)
        self._array(number, wide.shape[-1] if wide.ndim else 1)[box] = wide

    def copy(self, source: int, source_mins: tuple[Any, ...], source_extents: Sequence[int], number: int, mins: tuple[Any, ...],
             extents: Sequence[int], text: str) -> None:
        """A tile copy."""
        storage = self.storages[source]
        mesh = [np.asarray(m) + np.arange(e).reshape(*(e if d == i else 1 for d in range(len(source_extents))), 1)
                for i, (m, e) in enumerate(zip(source_mins, source_extents, strict=True))]
        if storage.scope == "global":
            values = load(self.metadata, storage.name, storage.shape,
                          tuple(np.clip(m, 0, n - 1) for m, n in zip(mesh, storage.shape, strict=True)), text)
        elif source in self._arrays:
            held = self._arrays[source]
            values = held[self._index(storage, tuple(mesh), held.shape[-1])]
        else:
            self.forget(number)
            return
        values = np.broadcast_to(values, np.broadcast_shapes(values.shape, (*source_extents, 1)))
        box = tuple(slice(int(m), int(m) + e) for m, e in zip(mins, extents, strict=True))
        self._array(number, values.shape[-1])[box] = values.reshape(*extents, values.shape[-1])


def check_metadata(metadata: Mapping[str, Any], program: Program) -> None:
    """Refuse metadata that does not match the kernel's tensors: name, shape, type, and range of values.

    Raises:
        RequestError: names the tensor, what it is, and what was given.
    """
    tensors = {s.name: s for s in program.storages if s.scope == "global"}
    for name, data in metadata.items():
        storage = tensors.get(name)
        if storage is None:
            near = difflib.get_close_matches(name, tensors, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"It has {', '.join(tensors)}."
            raise RequestError(f"metadata names {name!r}, and the kernel has no such tensor", where=program.name, fix=hint)
        what = f"metadata {name!r}"
        match = re.fullmatch(r"(u?)int(\d+)|bool", storage.dtype)
        if match is None:
            raise RequestError(f"{what} is for a tensor of {storage.dtype}, and only integers steer control flow",
                               where=program.name)
        try:
            array = np.asarray(data)
        except (TypeError, ValueError) as e:
            raise RequestError(f"{what} is no array: {e}", where=program.name) from None
        if array.dtype.kind not in "iub":
            raise RequestError(f"{what} has type {array.dtype}, the kernel reads {storage.dtype}", where=program.name)
        if array.shape != storage.shape:
            raise RequestError(f"{what} has shape {list(array.shape)}, the kernel needs {list(storage.shape)}",
                               where=program.name)
        bits = int(match[2] or 1)
        low, high = (0, (1 << bits) - 1) if match[1] or not match[2] else (-(1 << bits - 1), (1 << bits - 1) - 1)
        if array.size and not (low <= int(array.min()) and int(array.max()) <= high):
            odd = int(array.min()) if int(array.min()) < low else int(array.max())
            raise RequestError(f"{what} holds {odd}, which is no {storage.dtype}", where=program.name)


def load(metadata: Mapping[str, Any], name: str, shape: tuple[int, ...], index: tuple[Any, ...], text: str,
         guarded: bool = False) -> Any:
    """Elements of a global integer tensor, from the metadata; `guarded` reads stand behind a condition and may leave it.

    Raises:
        FrontendError: no metadata for it, or the wrong shape, type or range.
    """
    data = metadata.get(name)
    if data is None:
        raise FrontendError(f"control flow reads the tensor {name!r}, shape {list(shape)}, whose contents are not known",
                            where=text, fix=f"Pass its values: metadata={{{name!r}: array}}.")
    array = np.asarray(data)
    if array.dtype.kind not in "iub":
        raise FrontendError(f"metadata {name!r} has type {array.dtype}, the kernel reads integers", where=text)
    if array.shape != shape:
        raise FrontendError(f"metadata {name!r} has shape {list(array.shape)}, the kernel needs {list(shape)}", where=text)
    if guarded:
        index = tuple(np.clip(i, 0, n - 1) for i, n in zip(index, shape, strict=True))
    for axis, (i, extent) in enumerate(zip(index, shape, strict=True)):
        low, high = int(np.min(i)), int(np.max(i))
        if low < 0 or high >= extent:
            raise FrontendError(f"metadata {name!r} is read at index {low if low < 0 else high} of dimension {axis}, "
                                f"whose size is {extent}", where=text, fix="Check the values that the index is computed from.")
    value = array[index]
    return value.astype(np.int64) if isinstance(value, np.ndarray) and value.ndim else int(value)
