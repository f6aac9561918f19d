"""One request for exact facts: from the cache, or read while the compile goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import ptxas
from .cache import Cache, key_of
from .facts import ExactFacts
from .pipeline import Stages, read_facts


class Request:
    """Listens to the pass pipeline from the capture point on.

    Args:
        arch, target: what is compiled for.
        configs: pass configs.
        version: of tilelang.
        name: of the kernel, for errors.
        cache: whether the disk may be read and written.

    Attributes:
        complete: whether all passes that facts are read from have run; what fails later (code generation) concerns ptxas only.
        cached: whether the facts came from the disk.
    """

    def __init__(self, arch: str, target: Any, configs: Mapping[str, Any], version: str, name: str, cache: bool = True) -> None:
        self.arch, self.target, self.configs, self.version, self.name = arch, target, configs, version, name
        self.compiler = ptxas.find_compiler()
        self.cache = Cache() if cache else None
        self.stages = Stages()
        self.complete = self.cached = False
        self._key = ""
        self._facts: ExactFacts | None = None

    @property
    def ready(self) -> bool:
        """Whether facts can be had although the compile ended early."""
        return self.complete or self.cached

    def begin(self, module: Any) -> bool:
        """The module at the capture point is known; whether the compile may stop, because the facts are on the disk."""
        if self.cache is None:
            return False
        self._key = key_of(module, self.arch, self.configs, self.version, self.compiler.version if self.compiler else "")
        self._facts = self.cache.load(self._key)
        self.cached = self._facts is not None
        return self.cached

    def entered(self, name: str, module: Any) -> None:
        """A pass begins."""
        self.stages.entered(name, module)

    def left(self, name: str, module: Any) -> bool:
        """A pass ended; whether the compile may stop: without ptxas nobody needs the source code."""
        if self.stages.left(name, module):
            self.complete = True
        return self.complete and self.compiler is None

    def result(self, captured: Any, source: str) -> ExactFacts:
        """The facts. `source` is the CUDA code, empty if none was made. Raises FrontendError."""
        if self._facts is not None:
            return self._facts
        facts = read_facts(captured, self.stages, self.target, self.arch, self.version, self.name)
        if self.compiler is not None:
            facts = ptxas.with_registers(facts, self.compiler, source, self.arch)
        if self.cache is not None:
            self.cache.store(self._key, facts)
        return facts
