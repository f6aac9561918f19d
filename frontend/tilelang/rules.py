"""What each tile operation becomes: by rule, and as the compiler decided where that is known.

The rules are the fast way. With `detail="exact"` the compiler's decision replaces a rule's, and both are kept to be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exact import KernelFacts, OperationFacts

#: Gives what a rule said of an operation, by fact, once the kernel has been walked.
Said = Callable[[], Mapping[str, Any]]


class Rules:
    """The tile operations of one kernel, numbered in statement order.

    Args:
        body: the captured kernel.
        exact: the compiler's facts about it, if they were asked for.
    """

    def __init__(self, body: Any, exact: KernelFacts | None = None) -> None:
        from .exact.ir import leaves, tile_operation

        self.facts = exact
        self.places: dict[Any, list[int]] = {}
        self.names: list[str] = []
        for leaf, _ in leaves(body):
            name = tile_operation(leaf)
            if name:
                self.places.setdefault(leaf, []).append(len(self.names))
                self.names.append(name)
        self.said: dict[int, tuple[str, Said]] = {}
        self._now: list[int] = []

    def at(self, statement: Any) -> None:
        """The statement that is about to be translated."""
        self._now = self.places.get(statement, [])

    @property
    def exact(self) -> OperationFacts | None:
        """The compiler's facts about the current operation; None if they are not known, or one statement became two things."""
        if self.facts is None or not self._now or not self.facts.operations:
            return None
        found = [self.facts.operations[place] for place in self._now]
        first = found[0]
        return first if all(f.model_copy(update={"place": first.place}) == first for f in found) else None

    def says(self, source: str, said: Said) -> None:
        """What the rules say of the current operation, named `source` in messages."""
        for place in self._now:
            self.said[place] = (source, said)
