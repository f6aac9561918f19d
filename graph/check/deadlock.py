"""Why a program hangs: who waits for which phase, who should arrive, and what stands in its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .findings import Finding

if TYPE_CHECKING:
    from ..replay import Barrier, Draft, Slot

_FIX = "Some arrival is missing, comes too late, or the wait has the wrong parity."
_LINKS = 4  #: links of a chain that a message shows


@dataclass
class Names:
    """Names of node types and strings, by number."""

    types: Sequence[str]
    strings: Sequence[str]

    def actor(self, draft: Draft) -> str:
        """Who executes a node: its role, or its warps."""
        warps, role = draft.warps, self.strings[draft.role_id]
        text = f"warp {warps[0]}" if len(warps) == 1 else f"warps {warps[0]}-{warps[-1]}"
        if role and role != "all":
            text = role
        return f"{text} of CTA {draft.cta}" if draft.cta else text

    def statement(self, draft: Draft) -> str:
        """What a node is in the kernel's own words, with its loop position."""
        source, loop = self.strings[draft.source_id], self.strings[draft.loop_id]
        return (source or self.types[draft.type_id]) + (f" [{loop}]" if loop else "")

    def entry(self, draft: Draft) -> dict[str, Any]:
        """The same for programs."""
        return {
            "type": self.types[draft.type_id],
            "source": self.strings[draft.source_id],
            "role": self.strings[draft.role_id],
            "loop": self.strings[draft.loop_id],
            "warps": list(draft.warps),
            "cta": draft.cta,
        }


@dataclass
class Link:
    """One stop of a chain: a parked wait, and the operation that would arrive next, if any is left."""

    wait: int
    arrival: int | None
    enough: bool  #: whether the arrivals that are left would complete the phase
    next: int | None  #: the parked wait that keeps the arrival from happening


class Hang:
    """A replay that got stuck."""

    def __init__(
        self, drafts: Sequence[Draft], executed: set[int], slots: Mapping[tuple[Barrier, int], Slot], names: Names, where: str
    ) -> None:
        self.drafts, self.executed, self.slots, self.names, self.where = drafts, executed, slots, names, where
        self.parked = {i: key for key, slot in slots.items() for i in slot.parked}
        self.future: dict[tuple[Barrier, int], list[tuple[int, int]]] = {}
        self.deliveries: dict[tuple[Barrier, int], list[tuple[int, int]]] = {}
        for i, draft in enumerate(drafts):
            if i not in executed:
                for barrier, index, count in draft.arrives:
                    self.future.setdefault((barrier, index), []).append((i, count))
                for at in draft.deliver:
                    self.deliveries.setdefault(at, []).append((i, 1))
        self._roots: dict[int, int | None] = {}

    def root(self, node: int) -> int | None:
        """The parked wait that `node` is stuck behind; program order is followed first."""
        if node not in self._roots:
            at, seen = node, set()
            while at not in self.parked:
                seen.add(at)
                draft = self.drafts[at]
                at = next((p for p in (*draft.program, *draft.preds) if p not in self.executed and p not in seen), -1)
                if at < 0:
                    break
            self._roots[node] = at if at >= 0 else None
        return self._roots[node]

    def link(self, wait: int) -> Link:
        """Who should arrive next for a parked wait, and what it is stuck behind."""
        key = self.parked[wait]
        left, lacks = self.left(key)
        enough = sum(count for _, count in left) >= lacks
        if not left:
            return Link(wait, None, False, None)
        arrival = left[0][0]
        return Link(wait, arrival, enough, self.root(arrival))

    def left(self, key: tuple[Barrier, int]) -> tuple[list[tuple[int, int]], int]:
        """Operations that are left and arrive (or, once all arrivals are there, deliver data), and how many are needed."""
        slot = self.slots[key]
        if slot.pending or not slot.owed:
            return self.future.get(key, []), slot.pending
        return self.deliveries.get(key, []), slot.owed

    def chain(self, wait: int) -> tuple[list[Link], bool]:
        """Links from `wait` to a missing arrival, or the circle it runs into (then True)."""
        links: list[Link] = []
        at: int | None = wait
        while at is not None:
            known = [i for i, link in enumerate(links) if link.wait == at]
            if known:
                return links[known[0] :], True
            links.append(self.link(at))
            if not links[-1].enough:
                return links, False
            at = links[-1].next
        return links, False

    def findings(self) -> list[Finding]:
        """One finding for each cause; the waits that only follow from it are counted."""
        if not self.parked:
            return [Finding("deadlock", "error", self.where, "deadlock: the order of the nodes is circular", _FIX)]
        chains: dict[Any, tuple[list[Link], bool]] = {}
        for wait in sorted(self.parked):
            links, circle = self.chain(wait)
            cause = frozenset(link.wait for link in links) if circle else self.parked[links[-1].wait]
            if cause not in chains or len(links) < len(chains[cause][0]):
                chains[cause] = links, circle
        missing = {c: v for c, v in chains.items() if not v[1]}
        return [self._finding(links, circle) for links, circle in (missing or chains).values()][:4]

    def _state(self, wait: int) -> str:
        barrier, index = key = self.parked[wait]
        slot = self.slots[key]
        got = slot.count - slot.pending
        by = sorted({self.names.actor(self.drafts[i]) for i in slot.arrivals})
        text = f"{barrier.name}[{index}] phase {slot.done} has {got} of {slot.count} arrivals"
        if slot.owed:
            text += f" and lacks data that {slot.owed} copies of another CTA should deliver"
        return f"{text} (from {', '.join(by)})" if got and by else text

    def _waits(self, wait: int) -> str:
        draft = self.drafts[wait]
        return f"{self.names.actor(draft)} waits at {self.names.statement(draft)}: {self._state(wait)}"

    def _finding(self, links: list[Link], circle: bool) -> Finding:
        shown = links if len(links) <= _LINKS else [*links[: _LINKS - 1], links[-1]]
        lines = [f"deadlock: {self._waits(links[0].wait)}"]
        for link, following in zip(shown, [*shown[1:], None], strict=True):
            barrier, index = key = self.parked[link.wait]
            if link.arrival is None:
                verb = "delivers to" if self.slots[key].owed and not self.slots[key].pending else "arrives on"
                lines.append(f"nothing that is left to run {verb} {barrier.name}[{index}]{self._history(key)}")
                break
            arrival = self.drafts[link.arrival]
            would = f"{self.names.actor(arrival)} should arrive at {self.names.statement(arrival)}"
            if not link.enough:
                coming, lacks = self.left(key)
                left = sum(count for _, count in coming)
                lines.append(f"only {left} of the {lacks} arrivals that phase lacks are left to come: {would}")
                break
            if following is None:
                lines.append(f"{would}, but waits for that itself: a circle" if circle else would)
            elif link.next == following.wait:
                lines.append(f"{would}, but {self._waits(following.wait)}")
            else:
                lines.append(
                    f"{would}, but is stuck behind {len(links) - len(shown) + 1} more waits; at their end "
                    f"{self._waits(following.wait)}"
                )
        others = len(self.parked) - len(links)
        barrier, index = self.parked[links[0].wait]
        slot = self.slots[barrier, index]
        details = {
            "barrier": barrier.name,
            "slot": index,
            "phase": slot.done,
            "arrived": slot.count - slot.pending,
            "needed": slot.count,
            "circle": circle,
            "waiting": len(self.parked),
            "other_waits": max(others, 0),
            "arrived_by": [self.names.entry(self.drafts[i]) for i in slot.arrivals],
            "chain": [
                {
                    "wait": self.names.entry(self.drafts[x.wait]),
                    "barrier": f"{self.parked[x.wait][0].name}[{self.parked[x.wait][1]}]",
                    "arrival": None if x.arrival is None else self.names.entry(self.drafts[x.arrival]),
                }
                for x in links
            ],
        }
        return Finding("deadlock", "error", self.where, "\n".join(lines), self._advice(links, circle), details)

    def _advice(self, links: list[Link], circle: bool) -> str:
        """What the barrier at the bottom of it suggests: a count, a parity, or an arrival."""
        for link in links if circle else links[-1:]:
            barrier, index = key = self.parked[link.wait]
            slot, name = self.slots[key], f"{barrier.name}[{index}]"
            brought = {count for d in self.drafts for b, i, count in d.arrives if (b, i) == key}
            if not brought:
                return f"Let someone arrive on {name}, or wait for the slot that is meant."
            if len(brought) == 1 and max(brought) < slot.count and slot.pending < slot.count:
                return (
                    f"{name} counts {slot.count} arrivals a phase, and each arrival on it brings {max(brought)}: make the count "
                    "match the threads that arrive."
                )
            if circle and slot.done == 0 and link is links[0]:
                return (
                    f"No phase of {name} has completed yet. If {self.names.statement(self.drafts[link.wait])} is meant to pass "
                    "the first time, it needs the other parity."
                )
            if slot.phases and not link.enough:
                last = self.drafts[slot.phases[-1][-1]]
                return (
                    f"The last arrival on {name} was at {self.names.statement(last)}: one is missing for "
                    f"{self.names.statement(self.drafts[link.wait])}."
                )
        return _FIX

    def _history(self, key: tuple[Barrier, int]) -> str:
        """Who arrived on a barrier before: tells a wait too many from an arrival that does not exist."""
        slot = self.slots[key]
        data = next((self.drafts[i] for i in slot.arrivals if self.drafts[i].tx is not None), None)
        if data is not None and slot.pending == slot.count:
            return f", although {self.names.statement(data)} completes its bytes there"
        return f" ({slot.done} phase(s) were completed before)" if slot.done else "; nothing ever does"


def too_many(barrier: Barrier, index: int, slot: Slot, draft: Draft, names: Names, where: str) -> Finding:
    """A phase that gets more arrivals than its count."""
    got = slot.count - slot.pending
    by = sorted({names.actor(d) for d in (draft,)})
    return Finding(
        "arrivals",
        "error",
        where,
        f"barrier {barrier.name}[{index}] takes {slot.count} arrivals a phase but phase {slot.done} received {got}, the last "
        f"from {by[0]} at {names.statement(draft)}",
        "Make the arrival count of the barrier match the threads that arrive.",
        {
            "barrier": barrier.name,
            "slot": index,
            "phase": slot.done,
            "arrived": got,
            "needed": slot.count,
            "last": names.entry(draft),
        },
    )
