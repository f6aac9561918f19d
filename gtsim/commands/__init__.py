"""The subcommands, one file each; a file registers its command with `app` and is found by being here."""

from __future__ import annotations

import importlib
import pkgutil

from ._app import app

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["app"]
