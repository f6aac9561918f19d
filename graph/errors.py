"""The one exception class of the graph room."""

from __future__ import annotations


class GraphError(ValueError):
    """A graph, a graph file or a use of the builder that is wrong.

    Args:
        problem: what is wrong, in one sentence.
        where: the place (template and node, array name, file); empty if the whole graph is meant.
        fix: what the user can do about it; empty if nothing better than `problem` can be said.
    """

    def __init__(self, problem: str, *, where: str = "", fix: str = "") -> None:
        self.problem, self.where, self.fix = problem, where, fix
        text = f"{where}: {problem}" if where else problem
        super().__init__(f"{text}. {fix}" if fix else text)
