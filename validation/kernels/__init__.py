"""TileLang kernels of ours that stand for measured ones: of the same structure, written from descriptions.

A file `NAME.py` holds the factory `NAME`.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..cases import NotBuilt


def kernel(name: str) -> Any:
    """The factory `name`. Loads TileLang. Raises NotBuilt if there is none."""
    try:
        return getattr(importlib.import_module(f"{__name__}.{name}"), name)
    except ModuleNotFoundError as error:
        if error.name in ("tilelang", "tvm", "torch"):
            raise NotBuilt("lowering kernels needs TileLang: pip install 'gtsim[tilelang]'") from None
        raise
