"""The one exception class of the frontend room."""

from __future__ import annotations

#: What can be done about a statement that cannot be interpreted.
GO_ON = 'on_unknown="warn" goes on without it.'


class FrontendError(ValueError):
    """A kernel that cannot become a tile graph, or a wrong request for one.

    Args:
        problem: what is wrong, in one sentence.
        where: the statement (a shortened line of the printed IR), kernel or argument; empty if the whole kernel is meant.
        fix: what the user can do about it.

    Attributes:
        printed: what TileLang printed to standard error meanwhile.
    """

    def __init__(self, problem: str, *, where: str = "", fix: str = "") -> None:
        self.problem, self.where, self.fix, self.printed = problem, where, fix, ""
        text = f"{where}: {problem}" if where else problem
        super().__init__(f"{text}. {fix}" if fix else text)


class RequestError(FrontendError):
    """A kernel that was asked for in a wrong way: an unknown pass config, metadata that does not match."""


class UnknownStatement(FrontendError):
    """A construct the frontend cannot interpret; `on_unknown="warn"` turns it into an `opaque` node."""


def shorten(text: str, width: int = 100) -> str:
    """`text` on one line, cut to `width` characters."""
    line = " ".join(part for part in text.split("\n") if not part.lstrip().startswith("#"))
    line = " ".join(line.split())
    return line if len(line) <= width else line[: width - 3] + "..."
