"""Shared-memory hazards between warps of one set, as the compiler's thread-sync pass would see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .program import Storage
from .warps import Active

Box = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Access:
    """One access of shared memory by a warp set.

    `mapping` names how elements go to threads: equal mappings of one box touch each element by the same thread. `engine` is
    "cp_async" for copies whose overlap with each other needs no barrier.
    """

    storage: Storage
    origin: tuple[int, ...]
    extent: tuple[int, ...]
    write: bool
    mapping: Any = None
    engine: str = ""


@dataclass
class Hazards:
    """Accesses since the last barrier, by buffer; `aliases` are buffers that share bytes after the merge of shared memory."""

    aliases: dict[Storage, list[Storage]] = field(default_factory=dict)
    reads: dict[Storage, dict[tuple[Access, Active], None]] = field(default_factory=dict)
    writes: dict[Storage, dict[tuple[Access, Active], None]] = field(default_factory=dict)

    def conflicts(self, access: Access, active: Active) -> bool:
        """Whether `access` by `active` must wait for an earlier access by another warp of its set."""
        storage = access.storage
        if self._meets(self.writes.get(storage), access, active, same=True):
            return True
        if access.write and self._meets(self.reads.get(storage), access, active, same=True):
            return True
        for other in self.aliases.get(storage, ()):
            if self._meets(self.writes.get(other), access, active, same=False):
                return True
            if access.write and self._meets(self.reads.get(other), access, active, same=False):
                return True
        return False

    @staticmethod
    def _meets(earlier: dict[tuple[Access, Active], None] | None, access: Access, active: Active, *, same: bool) -> bool:
        if not earlier:
            return False
        warps = active.warps
        for old, who in earlier:
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
                if old.write and access.write and old.engine == access.engine == "cp_async":
                    continue
            return True
        return False

    def add(self, access: Access, active: Active) -> None:
        """Remember `access`."""
        table = self.writes if access.write else self.reads
        table.setdefault(access.storage, {})[access, active] = None

    def clear(self, active: Active) -> None:
        """A barrier over `active`: forget what its warps did."""
        inside = set(active.warps)
        for table in (self.reads, self.writes):
            for storage in list(table):
                entries = table[storage]
                if active.whole:
                    entries.clear()
                else:
                    for key in [k for k in entries if inside.issuperset(k[1].warps)]:
                        del entries[key]
