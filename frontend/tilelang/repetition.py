"""Serial loops whose iterations repeat are walked for a few periods; the template says how often the last of them runs.

A loop of n iterations becomes

    [ lead ][ before ][ again ] x times [ tail ]

`before` and `again` are one period each, the least common multiple of the periods of everything the loop decides. The probe (see
:mod:`.probe`) has proven that all decisions between lead and tail repeat with that period and that every tile moves by the same
step each period; the graph builder then compares the two periods node by node. Barrier parities are no part of the graph, but
the walk needs them: as many iterations are left out as bring them back to where they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FrontendError

if TYPE_CHECKING:
    from .walk import Walk

MAX_PERIOD = 64
SHORTEST = 6  #: loops below this many iterations are not looked at
MAX_CELLS = 1 << 22  #: most numbers of a probe that are compared

#: Place of a record: (region, part) with part 1 before, 2 again, 3 behind; None in front of the first region.
Place = tuple["Region", int] | None


class Replan(Exception):
    """A loop needs a longer period, lead or tail than loops walked before it: walk the class again."""


@dataclass
class Needs:
    """What all repeated loops of a kernel agree on: iterations of a period, those that bring barrier parities back too, and
    those in front of the first and behind the last period."""

    period: int = 1
    parity: int = 1
    lead: int = 0
    tail: int = 0

    def add(self, period: int, parity: int, lead: int, tail: int) -> bool:
        """Extend; says whether anything changed."""
        new = (math.lcm(self.period, period), math.lcm(self.parity, parity), max(self.lead, lead), max(self.tail, tail))
        changed = new != (self.period, self.parity, self.lead, self.tail)
        self.period, self.parity, self.lead, self.tail = new
        return changed

    @property
    def skipped(self) -> int:
        """Iterations are left out in multiples of this."""
        return math.lcm(self.period, self.parity)

    @property
    def fewest(self) -> int:
        """Iterations that are walked at least: lead, a period that shows dependences longer than one, two periods, tail."""
        return self.lead + 3 * self.period + self.tail

    def walked(self, trips: Any) -> Any:
        """Iterations of a loop of `trips` that are walked (of an array, element by element)."""
        return self.fewest + (trips - self.fewest) % self.skipped

    @property
    def shortest(self) -> int:
        """Trip count from which a loop is cut: whatever the remainder, something is left out."""
        return self.fewest + 2 * self.skipped - 1


@dataclass(eq=False)  # compared and hashed by identity
class Region:
    """A repeated period: how often `again` runs (per block if an array), and the tensor operations of one run."""

    times: Any
    flops: int = 0


@dataclass
class Repetition:
    """The repeated loops of one walk. `enabled` is false for a class that has to be walked step by step."""

    needs: Needs
    enabled: bool = True
    regions: list[Region] = field(default_factory=list)  #: in the order in which they are executed
    places: dict[int, Place] = field(default_factory=dict)  #: warp -> where its next record belongs
    carried: tuple[int, ...] | None = None  #: values of the carried variables behind the iterations left out
    _known: dict[Any, Region] = field(default_factory=dict)
    _visits: dict[Any, int] = field(default_factory=dict)

    def of_rank(self, rank: int) -> Repetition:
        """That of the CTA with one rank of a cluster: the ranks share the regions, each is somewhere in them."""
        if rank == 0:
            return self
        return Repetition(self.needs, self.enabled, self.regions, _known=self._known)

    def iterate(self, walk: Walk, probe: Callable[..., None], state: tuple[Any, ...], start: Any, stop: Any) -> Iterable[int]:
        """The iterations of a loop from `start` to `stop` that are walked."""
        if not self.enabled:
            return range(walk.scalar(start), walk.scalar(stop))
        first = walk.scalar(start)
        stop = walk.lane(stop)
        trips = np.asarray(stop).reshape(-1) - first
        most = int(trips.max())
        if most < SHORTEST:
            return range(first, walk.scalar(stop))
        rows = _run(probe, walk, range(first, first + most), state)
        found = _period(rows) if rows is not None else None
        if rows is None or found is None:
            return range(first, walk.scalar(stop))
        period, parity, lead, tail = found
        same = bool((trips == most).all())
        if not same and (tail or self.needs.tail or any(a != b for a, b in zip(rows[-1][0], rows[0][0], strict=True))):
            return range(first, walk.scalar(stop))  # splits the class by trip count
        if self.needs.add(period, parity, lead, tail) and self.regions:
            raise Replan
        needs = self.needs
        if not same:
            from .walk import Split

            kinds = np.where(trips < needs.shortest, trips, -needs.walked(trips))
            if (kinds != kinds[0]).any():
                raise Split(kinds)
        if most < needs.shortest:
            return range(first, walk.scalar(stop))
        return self._walk(walk, first, trips if not same else most, most, rows)

    def _walk(self, walk: Walk, first: int, trips: Any, most: int, rows: Any) -> Iterator[int]:
        needs, period = self.needs, self.needs.period
        lead = needs.walked(most) - needs.tail - 2 * period
        region = self._region(walk, trips, (trips - needs.walked(most)) // period + 1)
        yield from range(first, first + lead)
        self._enter(walk, region, 1)
        yield from range(first + lead, first + lead + period)
        self._enter(walk, region, 2)
        flops = walk.flops
        yield from range(first + lead + period, first + lead + 2 * period)
        region.flops += walk.flops - flops
        self._enter(walk, region, 3)
        self.carried = rows[most - needs.tail][0] or None
        yield from range(first + most - needs.tail, first + most)

    def _enter(self, walk: Walk, region: Region, part: int) -> None:
        place = (region, part)
        for w in walk.active.warps:
            self.places[w] = place

    def _region(self, walk: Walk, trips: Any, times: Any) -> Region:
        """The region of a loop; loops of several roles over the same iterations share one."""
        key = (walk.loop, trips.tobytes() if isinstance(trips, np.ndarray) else trips)
        visit = self._visits.get((key, walk.active), 0)
        self._visits[key, walk.active] = visit + 1
        region = self._known.get((key, visit))
        if region is None:
            region = self._known[key, visit] = Region(times)
            last = self.places.get(walk.active.warps[0])
            self.regions.insert(self.regions.index(last[0]) + 1 if last else 0, region)
        return region

    def stretch(self, records: Iterable[Any]) -> int:
        """How many times longer periods must be, so that no wait for groups reaches back more than one: a period closes at least
        as many groups of a queue as may be pending."""
        closed: dict[Any, int] = {}
        pending: dict[Any, int] = {}
        for kind, warps, _, _, _, _, attrs, *_, place in records:
            if kind in ("commit", "close") and isinstance(place, tuple) and place[1] == 2:
                for w in warps:
                    key = (w, attrs["queue"], place[0])
                    closed[key] = closed.get(key, 0) + 1
            elif kind == "wait_group":
                for w in warps:
                    pending[w, attrs["queue"]] = max(pending.get((w, attrs["queue"]), 0), int(attrs["pending"]))
        return max((-(-pending.get(key[:2], 0) // count) for key, count in closed.items()), default=1) or 1

    def of(self, warps: tuple[int, ...]) -> Any:
        """Place of a record of `warps`: one, or a tuple of all of them if they differ."""
        places = self.places
        first = places.get(warps[0])
        for w in warps:
            if places.get(w) != first:
                return [places.get(w) for w in warps]
        return first

    def segments(self) -> Callable[[Any], int]:
        """The function from a place to its position in the order of execution; of several places the last one."""
        position = {region: 3 * i for i, region in enumerate(self.regions)}

        def segment(place: Any) -> int:
            if place is None:
                return 0
            if isinstance(place, list):
                return max(segment(p) for p in place)
            return position[place[0]] + int(place[1])

        return segment


def _run(probe: Callable[..., None], walk: Walk, values: range, state: tuple[Any, ...]) -> list[Any] | None:
    from .walk import Split

    rows: list[Any] = []
    active = walk.active
    try:
        probe(walk, rows, values, *map(walk.lane, state))
    except (Split, FrontendError):
        return None
    finally:
        walk.active = active
    if any(not isinstance(x, int) for row in rows for x in (*row[0], *row[1], *row[3])):
        return None
    return rows


def _period(rows: list[Any]) -> tuple[int, int, int, int] | None:
    """(iterations of a period, of one of the parities, iterations in front of the first, behind the last) of a probe's rows."""
    n = len(rows) - 1
    codes: dict[Any, int] = {}
    decisions = np.array([codes.setdefault((tuple(c), len(g), len(q)), len(codes)) for _, c, g, q in rows[:-1]])
    parities = np.array([codes.setdefault(tuple(q), len(codes)) for *_, q in rows[:-1]])
    origins = _origins([g for _, _, g, _ in rows[:-1]])
    if origins is None:
        return None
    for period in range(1, min(MAX_PERIOD, n // 4) + 1):
        steps = origins[period:] - origins[:-period]
        wrong = (decisions[period:] != decisions[:-period]) | (steps != steps[len(steps) // 2]).any(axis=1)
        middle = len(wrong) // 2
        if wrong[middle]:
            continue
        left = np.flatnonzero(wrong[:middle])
        right = np.flatnonzero(wrong[middle:])
        lead = int(left[-1]) + 1 if len(left) else 0
        tail = n - (middle + int(right[0]) + period) if len(right) else 0
        if n - lead - tail < max(4 * period, n // 2):
            continue
        end = n - tail
        for multiple in range(period, min(4 * period, end - lead) + 1, period):
            if (parities[lead + multiple:end] == parities[lead:end - multiple]).all():
                return period, multiple, lead, tail
    return None


def _origins(cells: list[list[Any]]) -> Any:
    """Tile origins of all iterations as one array [iterations, numbers]; None if that are too many."""
    n = len(cells)
    if not any(isinstance(x, np.ndarray) for x in cells[0]):
        try:
            return np.array(cells, dtype=np.int64).reshape(n, -1)  # the common case: integers, as many each time
        except (ValueError, TypeError):
            pass
    parts = []
    for i in range(max(map(len, cells))):
        column = [row[i] if i < len(row) else 0 for row in cells]
        size = max(np.size(x) for x in column)
        if size * n > MAX_CELLS:
            return None
        parts.append(np.stack([np.broadcast_to(np.asarray(x, dtype=np.int64).reshape(-1), (size,)) if np.size(x) in (1, size)
                               else np.zeros(size, dtype=np.int64) for x in column]))
    return np.concatenate(parts, axis=1) if parts else np.zeros((n, 0), dtype=np.int64)
