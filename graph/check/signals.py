"""What is signalled behind stores: TileLang's graphs do not show the barrier that its compiler puts in between.

Where threads store to shared memory and one of them (or all) then arrive on a barrier, the compiler makes those that stored meet
first. So whoever is ordered behind that signal is ordered behind the whole store, whichever warps executed its parts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..model import Reason, Template


class Signals:
    """The signals of a template: nodes that some wait on a barrier stands behind."""

    def __init__(self, t: Template) -> None:
        self.t = t
        self._of: dict[int, list[int]] = defaultdict(list)
        for i in np.unique(t.edge_src()[t.edge_reason == int(Reason.BARRIER)]).tolist():
            for warp in _warps(int(t.node_warps[i])):
                self._of[warp].append(i)

    def behind(self, node: int) -> Sequence[int]:
        """The next signal of each warp that took part in the operation of `node`."""
        found = set()
        for sibling in self._operations[self._key(node)]:
            for warp in _warps(int(self.t.node_warps[sibling])):
                signals = self._of.get(warp, [])
                at = bisect_right(signals, sibling)
                if at < len(signals):
                    found.add(signals[at])
        return sorted(found)

    @cached_property
    def _operations(self) -> dict[Any, list[int]]:
        """Nodes of one operation: it is split among warpgroups."""
        found: dict[Any, list[int]] = defaultdict(list)
        for i in range(self.t.nodes):
            found[self._key(i)].append(i)
        return found

    def _key(self, i: int) -> Any:
        t = self.t
        return int(t.node_source[i]), int(t.node_loop[i]), int(t.node_type[i]), int(t.node_cta[i])


def _warps(mask: int) -> list[int]:
    return [w for w in range(mask.bit_length()) if mask >> w & 1]
