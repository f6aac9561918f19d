"""The benchmark suite of TileOPs, collected by pytest and run one case at a time, up to its TileOPs call."""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..cases import NotBuilt
from .capture import RECORDER, Call, install, stub_autotuning
from .fake_gpu import Inert, active
from .fake_gpu import install as install_gpu


class _Done(BaseException):
    """Ends a benchmark once the TileOPs side has run. Not an Exception: benchmarks catch those."""

    def __init__(self, name: str | None) -> None:
        self.name = name


def _nothing(*_a: Any, **_k: Any) -> None:
    return None


@cache
def benchmarks(folder: Path) -> Benchmarks:
    """The benchmarks of a checkout; loads them once, and patches this process. Raises NotBuilt if there are none."""
    return Benchmarks(folder)


class Benchmarks:
    """The cases by their pytest id.

    Needs tilelang, torch, pytest and PyYAML.
    """

    def __init__(self, folder: Path) -> None:
        root = folder.resolve()
        sys.dont_write_bytecode = True  # leave the checkout as it is
        warnings.simplefilter("ignore")
        try:
            import pytest
            import yaml  # type: ignore[import-untyped]  # noqa: F401  TileOPs reads its manifest with it
        except ImportError as error:
            raise NotBuilt(f"the benchmarks of TileOPs need {error.name}: pip install pytest pyyaml") from None

        install_gpu()
        install()
        sys.path[:0] = [str(root), str(root / "src")]
        _stub_baselines()
        found: list[Any] = []

        class Collector:
            def pytest_collection_modifyitems(self, items: list[Any]) -> None:
                found.extend(items)

        with contextlib.redirect_stdout(io.StringIO()) as said:
            pytest.main(["--collect-only", "-p", "no:cacheprovider", "-p", "no:terminal", "--rootdir", str(root),
                         "-c", str(root / "pyproject.toml"), "--import-mode=importlib",
                         "--continue-on-collection-errors", str(root / "benchmarks" / "ops")], plugins=[Collector()])
        if not found:
            raise NotBuilt("pytest found no benchmark cases: " + " ".join(said.getvalue().split())[-300:])
        from tileops.kernels import kernel_base  # type: ignore[import-not-found]

        stub_autotuning(kernel_base)
        self._items: dict[str, list[Any]] = {}
        self._source: dict[str, str] = {}
        for item in found:
            for name, stand_in in (("pool_baseline", lambda *a, **k: ("baseline", None)), ("_warmup_gpu", _nothing)):
                if hasattr(item.module, name):
                    setattr(item.module, name, stand_in)
            if hasattr(item, "callspec"):
                self._items.setdefault(item.callspec.id, []).append(item)

    def launches(self, op: str, case: str, config: Mapping[str, Any] | None = None) -> Call:
        """Run the benchmark of a measured row up to its TileOPs call.

        Args:
            op, case: as the row names them.
            config: instead of the default configuration of autotuned kernels.

        Returns:
            What was launched in the call.

        Raises:
            NotBuilt: there is no such benchmark, or it cannot run without a GPU.
        """
        candidates = self._items.get(case, [])
        if not candidates:
            raise NotBuilt(f"no benchmark case with id {case!r} in this checkout")
        reasons = []
        for item in sorted(candidates, key=lambda i: op not in self._text(i)):
            try:
                named, call = _run(item, config)
            except Exception as exc:  # noqa: BLE001  whatever a benchmark raises becomes the reason
                where = traceback.extract_tb(exc.__traceback__)[-1]
                reasons.append(f"{item.name}: {type(exc).__name__}: {str(exc)[:300]} ({where.name}:{where.lineno})")
                continue
            if named in (op, None):
                return call
            reasons.append(f"{item.name} is {named}")
        raise NotBuilt("; ".join(reasons))

    def _text(self, item: Any) -> str:
        path = str(item.path)
        if path not in self._source:
            self._source[path] = Path(path).read_text(encoding="utf-8")
        return self._source[path]


def _stub_baselines() -> None:
    """Libraries that TileOPs is compared with answer with nothing, and its timer runs the TileOPs side once."""
    import torch

    from benchmarks import baselines, benchmark_base  # type: ignore[import-not-found]

    baselines._resolve = lambda *a, **k: Inert()
    baselines.assert_matches_reference = _nothing
    baselines.compiled_reference = lambda fn, **k: fn
    for name in ("flaggems_op", "vllm_op", "flashinfer_op", "flaggems_group_norm"):
        setattr(baselines, name, lambda *a, **k: Inert())
    torch.testing.assert_close = _nothing
    benchmark_base.BenchmarkBase.compare = _compare
    benchmark_base.BenchmarkBase.profile = _profile
    benchmark_base.BenchmarkReport.record = staticmethod(_nothing)
    benchmark_base.bench_kernel = lambda fn, args=(), **k: _run_tileops(None, fn, args)


def _run(item: Any, config: Mapping[str, Any] | None) -> tuple[str | None, Call]:
    """The operator's name, if the benchmark gives one, and what it launched."""
    import torch

    RECORDER.reset(config)
    with contextlib.redirect_stdout(io.StringIO()), active(RECORDER.torch_op):
        torch.manual_seed(1235)  # as benchmarks/conftest.py does
        try:
            item.obj(**item.callspec.params)
        except _Done as done:
            return done.name, RECORDER.end()
        except BaseException as exc:
            if type(exc).__name__ in ("Skipped", "Failed"):
                raise NotBuilt(f"the benchmark skips itself: {exc}") from None
            raise
        finally:
            RECORDER.end()
    raise NotBuilt("the benchmark ended without timing a TileOPs kernel")


def _compare(self: Any, functors: Any, *inputs: Any, record_as: Any = None, params: Any = None) -> None:
    """Replaces BenchmarkBase.compare: run only the TileOPs contender, once."""
    tag = next(t for t in functors if t.startswith("tileops"))
    functor = functors[tag]
    if isinstance(functor, tuple):
        functor, inputs = functor
    record_as = record_as if record_as is not None else getattr(self, "_op", None)
    _run_tileops(record_as, functor, inputs)


def _profile(self: Any, functor: Any, *inputs: Any) -> None:
    """Replaces BenchmarkBase.profile. Benchmarks that use it directly time TileOPs first."""
    _run_tileops(None, functor, inputs)


def _run_tileops(record_as: Any, functor: Any, inputs: Any) -> None:
    functor(*inputs)  # first call: builds kernels, fills caches; the benchmark warms up as well
    RECORDER.begin()
    functor(*inputs)
    raise _Done(record_as if isinstance(record_as, str) or record_as is None else type(record_as).__name__)
