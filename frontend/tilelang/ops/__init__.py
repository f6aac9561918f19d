"""Tile operations and intrinsics, one file a family; each registers handlers for calls by name.

A handler takes the translator and the call, and adds lines to the program under construction. Adding an operation is adding a
file here: the files load themselves when the first kernel is translated.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..translate import Translator

Handler = Callable[["Translator", Any], None]
_HANDLERS: dict[str, Handler] = {}
_loaded = False


def tile_op(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for calls of these names (`tl.tileop.copy`, `tirx.ptx_commit_group`, ...)."""
    def register(handler: Handler) -> Handler:
        for name in names:
            _HANDLERS[name] = handler
        return handler

    return register


def handler(name: str) -> Handler | None:
    """The handler of a call, if there is one."""
    global _loaded
    if not _loaded:
        _loaded = True
        for module in pkgutil.iter_modules(__path__):
            importlib.import_module(f"{__name__}.{module.name}")
    return _HANDLERS.get(name)
