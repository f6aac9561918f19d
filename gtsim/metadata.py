"""Integer tensors from files, for kernels whose control flow reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .errors import UsageError


def load_metadata(items: Sequence[str]) -> dict[str, np.ndarray]:
    """What `--metadata` options say: `FILE.npz` holds an array for each tensor, `NAME=FILE.npy` is one.

    Raises:
        UsageError: no such file, not an array file, an array that holds no integers, or a tensor given twice.
    """
    out: dict[str, np.ndarray] = {}
    for item in items:
        name, equals, file = item.rpartition("=")
        loaded = _load(file, item)
        if isinstance(loaded, np.ndarray) != bool(equals):
            raise UsageError(f"--metadata {item}: must read FILE.npz, or NAME=FILE.npy for one tensor.")
        found = {name: loaded} if isinstance(loaded, np.ndarray) else loaded
        for key, array in found.items():
            if array.dtype.kind not in "iub":
                raise UsageError(f"--metadata {item}: {key} holds {array.dtype}, and must hold integers.")
            if key in out:
                raise UsageError(f"--metadata {item}: {key} is given twice.")
            out[key] = array
    return out


def _load(file: str, item: str) -> Any:
    if not Path(file).is_file():
        raise UsageError(f"--metadata {item}: {file}: no such file.")
    try:
        loaded = np.load(file, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {key: loaded[key] for key in loaded.files}
    except Exception as error:  # whatever zipfile, zlib and numpy raise for what is no array file
        raise UsageError(f"--metadata {item}: {file} is no .npy or .npz file of plain arrays ({type(error).__name__}).") from None
