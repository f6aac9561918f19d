"""What the tests of `gtsim validate` share: the command in a process of its own, with a cache of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gtsim

ENTRY = "from gtsim.cli import main; main()"


@dataclass
class Done:
    """What the command did."""

    status: int
    out: str
    err: str

    @property
    def record(self) -> dict[str, Any]:
        """What it wrote for `--json -`."""
        return json.loads(self.out)


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The process environment: gtsim as this process has it, predictions kept in a folder of the tests."""
    path = os.pathsep.join([str(Path(gtsim.__path__[0]).parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "GTSIM_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture(scope="session")
def validate(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Done]:
    """Run `gtsim validate` with these arguments, on one worker."""
    folder = tmp_path_factory.mktemp("run")

    def command(*arguments: object) -> Done:
        done = subprocess.run([sys.executable, "-c", ENTRY, "validate", "--jobs", "1", *map(str, arguments)], env=environment,
                              cwd=folder, capture_output=True, text=True, timeout=600)
        return Done(done.returncode, done.stdout, done.stderr)

    return command
