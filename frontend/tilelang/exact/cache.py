"""Exact facts on disk: one file a kernel, in a folder of the user's."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ....graph.files import write_whole
from .facts import SCHEMA_VERSION, ExactFacts


def cache_folder() -> Path:
    """`GTSIM_CACHE_DIR`, else `gtsim` in the XDG cache folder (`~/.cache` by default)."""
    own = os.environ.get("GTSIM_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(shared) if os.path.isabs(shared) else Path.home() / ".cache") / "gtsim"


def key_of(module: Any, arch: str, configs: Mapping[str, Any], version: str, compiler: str) -> str:
    """Names everything that the facts depend on: IR at the capture point, target, pass configs, releases of the compilers."""
    settings = json.dumps({str(k): repr(v) for k, v in configs.items()}, sort_keys=True)
    text = "\0".join((str(SCHEMA_VERSION), version, compiler, arch, settings, module.script(show_meta=True)))
    return hashlib.sha256(text.encode()).hexdigest()


class Cache:
    """Files of facts. Readers and writers may be many: a file appears whole or not at all, and equal keys have equal contents."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or cache_folder()) / "exact"

    def path(self, key: str) -> Path:
        """The file of a key."""
        return self.folder / key[:2] / f"{key}.json"

    def load(self, key: str) -> ExactFacts | None:
        """The facts of a key; None if they are not there, or the file is damaged."""
        try:
            data = json.loads(self.path(key).read_bytes())
            if data.get("key") != key or data.get("sha256") != _digest(data["facts"]):
                return None
            return ExactFacts.model_validate_json(json.dumps(data["facts"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def store(self, key: str, facts: ExactFacts) -> None:
        """Write the facts of a key; a folder that cannot be written costs only the time of the next compile."""
        plain = facts.to_dict()
        text = json.dumps({"key": key, "sha256": _digest(plain), "facts": plain}, indent=1)
        with suppress(OSError):
            path = self.path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode())


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
