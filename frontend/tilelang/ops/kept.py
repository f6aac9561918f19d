"""What element-wise code does to buffers whose contents steer control."""

from __future__ import annotations

from ..translate import Translator
from .nest import Group, Item


def contents_lines(t: Translator, group: Group, item: Item) -> list[str]:
    """Keep the contents of a buffer that steers control."""
    if item.target is None or t.program.barrier(item.target.buffer) is not None:
        return []
    storage = t.program.storage(item.target.buffer)
    if storage not in t.tracked or t.is_scalar(storage):
        return []
    forget = [f"R.contents.forget({storage.index})"]
    if item.kind == "atomic" or item.value is None:
        return forget
    t.compile.guarded += 1  # computed for all iterations and threads, also those that a condition excludes
    try:
        parts = [t.compile(i) for i in item.target.indices]
        value = t.compile(item.value)
        conditions = [t.compile(c) for c in group.conditions]
    except Exception:  # noqa: BLE001  data
        return forget
    finally:
        t.compile.guarded -= 1
    names = ", ".join(f"x{i}" for i in range(len(group.loops)))
    index = ", ".join(p.src for p in parts)
    condition = " & ".join(f"({c.src})" for c in conditions) or "True"
    extents = tuple(x.extent for x in group.loops)
    return [f"R.contents.store({storage.index}, lambda {names}: (({index},), {value.src}, {condition}), {extents})"]
