"""SSA versions: which write a read sees, in the order the replay found."""

from __future__ import annotations

from .model import EdgeKind, Reason
from .replay import Access, Draft

_DATA, _READS = int(EdgeKind.DATA), int(Reason.DATA)


def _overlap(a: Access, b: Access) -> bool:
    if a.column != b.column:
        # Origins that differ by instance cannot be compared here; only on-chip tiles have fixed origins.
        return False
    return all(x < y + f and y < x + e for x, e, y, f in zip(a.offset, a.extent, b.offset, b.extent, strict=True))


def _covers(a: Access, b: Access) -> bool:
    return a.column == b.column and all(
        x <= y and y + f <= x + e for x, e, y, f in zip(a.offset, a.extent, b.offset, b.extent, strict=True))


def assign_versions(drafts: list[Draft], order: list[int]) -> dict[int, tuple[list[int], list[int]]]:
    """Number the writes of every buffer and add a data edge from each write to the reads that see it.

    Returns node -> (versions of its reads, versions of its writes). A read of a tile that was written in pieces gets the
    newest version among them and an edge from every piece; a read of a tile never written gets version 0.
    """
    exact: dict[Access, tuple[int, int]] = {}
    live: dict[tuple[int, int, int], dict[Access, tuple[int, int]]] = {}
    counter: dict[int, int] = {}
    versions: dict[int, tuple[list[int], list[int]]] = {}
    for i in order:
        draft = drafts[i]
        read_versions = []
        for access in draft.reads:
            version = 0
            entries = live.get((access.buffer, access.private, access.cta))
            if entries:
                hit = entries.get(access)
                found = [hit] if hit is not None and access in exact else [
                    entry for other, entry in entries.items() if _overlap(access, other)]
                for source, number in found:
                    version = max(version, number)
                    if source != i:
                        draft.depend(source, _DATA, _READS)
            read_versions.append(version)
        write_versions = []
        for access in draft.writes:
            number = counter[access.buffer] = counter.get(access.buffer, 0) + 1
            entries = live.setdefault((access.buffer, access.private, access.cta), {})
            if access in exact:
                entries[access] = (i, number)
            else:
                touching = [other for other in entries if _overlap(access, other)]
                for other in touching:
                    exact.pop(other, None)
                    if _covers(access, other):
                        del entries[other]
                entries[access] = (i, number)
                if not any(other in entries for other in touching):
                    exact[access] = (i, number)
            write_versions.append(number)
        versions[i] = (read_versions, write_versions)
    return versions
