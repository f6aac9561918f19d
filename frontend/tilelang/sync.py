"""Shared-memory hazards between warps of one set, as the compiler's thread-sync pass would see them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .program import Storage
from .warps import Active

Box = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Access:
    """One access of shared memory by a warp set.

    `mapping` names how elements go to threads: equal mappings of one box touch each element by the same thread. `engine` is
    "cp_async" or "tma" for asynchronous copies, whose overlap with each other needs no barrier. `pointer` tells how the address
    is given: "" by index (loads and stores), "tile" by the address of a tile (wgmma, TMA, a workspace), "lane" by an address that
    each lane computes (cp.async, ldmatrix, stmatrix).
    """

    storage: Storage
    origin: tuple[int, ...]
    extent: tuple[int, ...]
    write: bool
    mapping: Any = None
    engine: str = ""
    pointer: str = ""


@dataclass
class Hazards:
    """Accesses since the last barrier, by buffer, with the loop iteration they were made in (last); `aliases` are buffers that
    share bytes after the merge of shared memory.

    The compiler sees dynamic shared memory as one buffer, and proves two accesses apart if both go by index, or both by the
    address of a tile. All others conflict if one of them writes, whatever buffers they mean.
    """

    aliases: dict[Storage, list[Storage]] = field(default_factory=dict)
    reads: dict[Storage, dict[tuple[Access, Active], str]] = field(default_factory=dict)
    writes: dict[Storage, dict[tuple[Access, Active], str]] = field(default_factory=dict)
    #: Who accessed dynamic memory, by pointer, write and engine.
    kinds: dict[tuple[str, bool, str], dict[Active, str]] = field(default_factory=dict)
    #: Accesses behind which some warps have met at a barrier: in order for those, not for the others.
    behind: dict[Storage, dict[tuple[Access, Active], tuple[str, Active]]] = field(default_factory=dict)

    def conflicts(self, access: Access, active: Active) -> Iterator[str]:
        """The loop iterations of earlier accesses by another warp of its set that `access` by `active` must wait for."""
        storage = access.storage
        if storage.dynamic:
            yield from self._unproven(access, active)
        for other, same in ((storage, True), *((o, False) for o in self.aliases.get(storage, ()))):
            yield from self._meets(self.writes.get(other), access, active, same=same)
            if access.write:
                yield from self._meets(self.reads.get(other), access, active, same=same)
            if other in self.behind:
                yield from self._meets(self._unmet(other, access.write, active), access, active, same=same)

    def _unmet(self, storage: Storage, reads: bool, active: Active) -> dict[tuple[Access, Active], str]:
        """Accesses (of `reads` too) behind a barrier that not all warps of `active` were at."""
        warps = set(active.warps)
        return {key: loop for key, (loop, barrier) in self.behind[storage].items()
                if barrier is not active and (reads or key[0].write) and not warps.issubset(barrier.warps)}

    def _unproven(self, access: Access, active: Active) -> Iterator[str]:
        """Accesses by a warp of the set that the compiler cannot prove apart from this one."""
        for (pointer, write, engine), users in self.kinds.items():
            if not users or not (write or access.write) or (pointer == access.pointer and pointer != "lane"):
                continue
            if write and access.write and engine and access.engine:
                continue
            for who, loop in users.items():
                if (who is active or set(who.warps) & set(active.warps)) and (len(active.warps) > 1 or who.warps != active.warps):
                    yield loop

    @staticmethod
    def _meets(earlier: dict[tuple[Access, Active], str] | None, access: Access, active: Active, *, same: bool) -> Iterator[str]:
        warps = active.warps
        for (old, who), loop in (earlier or {}).items():
            if who is not active and not set(who.warps) & set(warps):
                continue
            if len(warps) == 1 and who.warps == warps:
                continue
            if same:
                if not all(a < b + f and b < a + e
                           for a, e, b, f in zip(access.origin, access.extent, old.origin, old.extent, strict=True)):
                    continue
                if old.mapping is not None and old.mapping == access.mapping and who is active \
                        and old.origin == access.origin and old.extent == access.extent:
                    continue
            if old.write and access.write and old.engine and access.engine:
                continue
            yield loop

    def add(self, access: Access, active: Active, loop: str) -> None:
        """Remember `access`, made in a loop iteration such as "k=3, "."""
        table = self.writes if access.write else self.reads
        table.setdefault(access.storage, {})[access, active] = loop
        if access.storage.dynamic:
            self.kinds.setdefault((access.pointer, access.write, access.engine), {})[active] = loop

    def written_by(self, active: Active) -> bool:
        """Whether exactly these threads have written since their last barrier."""
        return any(who is active for entries in self.writes.values() for _, who in entries)

    def clear(self, active: Active) -> None:
        """A barrier over `active`: what its warps did is in order for them, and for everybody if they are all warps."""
        inside = set(active.warps)
        for users in self.kinds.values():
            for who in [w for w in users if active.whole or inside.issuperset(w.warps)]:
                del users[who]
        for table in (self.reads, self.writes):
            for storage in list(table):
                entries = table[storage]
                if active.whole:
                    entries.clear()
                else:
                    for key in [k for k in entries if inside.issuperset(k[1].warps)]:
                        self.behind.setdefault(storage, {})[key] = entries.pop(key), active
        if active.whole:
            self.behind.clear()
            return
        for met in self.behind.values():
            for access, (loop, barrier) in met.items():
                if inside.issuperset(barrier.warps):
                    met[access] = loop, active


def left_loops(earlier: str, now: str) -> list[str]:
    """Loops that a barrier between two accesses need not be in, outermost first: those that were entered after the earlier one.

    The arguments are loop iterations such as "t=0, k=3, ". A loop of which the two are different iterations keeps the barrier.
    """
    before, after = (text.split(", ")[:-1] for text in (earlier, now))
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    if same < min(len(before), len(after)) and before[same].split("=")[0] == after[same].split("=")[0]:
        same += 1
    return [text.split("=")[0] for text in after[same:]]
