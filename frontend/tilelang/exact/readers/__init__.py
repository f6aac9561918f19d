"""One file a kind of fact. A reader names the pass behind which it looks and is called once a kernel of the program."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: The device function is split off behind this pass: from it on there is one function a kernel.
SPLIT = "tl.SplitHostDevice"


@dataclass(frozen=True)
class View:
    """What a reader sees of one kernel.

    Attributes:
        captured: the launch nest at the capture point.
        body: the launch nest, or the body of the device function, behind the pass the reader asked for.
        func: the function that `body` is of.
        before: the launch nest that went into that pass.
        relower: runs the pass on another body of the nest; gives its result.
        target: the compilation target.
        threads: threads of a block.
    """

    captured: Any
    body: Any
    func: Any
    before: Any
    relower: Callable[[Any], Any]
    target: Any
    threads: int


Reader = Callable[[View], Any]


@dataclass(frozen=True)
class Entry:
    """A registered reader: the field of :class:`~..facts.KernelFacts` it fills, and the pass."""

    field: str
    after: str
    read: Reader


_READERS: dict[str, Entry] = {}


class Unreadable(Exception):
    """The reader does not understand what the compiler made; says what."""


def reader(field: str, after: str) -> Callable[[Reader], Reader]:
    """Register a reader of `field` that looks at the module behind the last run of pass `after`."""
    def register(function: Reader) -> Reader:
        _READERS[field] = Entry(field, after, function)
        return function

    return register


def readers() -> dict[str, Entry]:
    """All readers, by field."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(_READERS.items()))
