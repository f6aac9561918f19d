"""The front door: lower a kernel, simulate a graph, and `predict`, which does both."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

from .arguments import check_call, check_choice, check_clock, check_graph, check_mapping, check_symbols, check_threads
from .backend import FIDELITIES, POLICIES, DeviceMemory, EarlyStart, waits_for_earlier
from .backend import simulate as run_backend
from .errors import UsageError
from .graph import KernelGraph
from .hwconfigs import Hardware, load_hardware
from .kernels import is_factory, is_prim_func
from .prediction import Prediction
from .sequence import SequencePrediction, run_in_order

DEFAULT_HARDWARE = "h100_sxm"
Progress = Callable[[float], None]
HardwareLike = str | Path | Hardware


@dataclass(frozen=True)
class Options:
    """What `predict` takes besides the kernel; see :func:`predict`."""

    hw: HardwareLike = DEFAULT_HARDWARE
    clock_mhz: float | None = None
    fidelity: str = "bulk"
    policy: str = "gto"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    override_files: Sequence[str | Path | Mapping[str, Any]] = ()
    symbols: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    on_unknown: str = "error"
    threads: int = 1
    detail: str = "fast"
    cache: bool = True

    def check(self) -> None:
        """Refuse early what would fail only after the kernel was lowered. Raises UsageError."""
        check_choice("fidelity", self.fidelity, FIDELITIES)
        check_choice("policy", self.policy, POLICIES)
        check_choice("on_unknown", self.on_unknown, ("error", "warn"))
        check_choice("detail", self.detail, ("fast", "exact"))
        if not isinstance(self.cache, bool):
            raise UsageError(f"cache is {self.cache!r:.60}. It is True or False; GTSIM_CACHE_DIR names the folder.")
        check_clock(self.clock_mhz)
        check_threads(self.threads)
        check_symbols(self.symbols)
        check_mapping("overrides", self.overrides, '"l2.latency_near_cycles": 200')
        check_mapping("metadata", self.metadata, '"sizes": array')
        check_mapping("pass_configs", self.pass_configs, '"tl.disable_tma_lower": True')

    def hardware(self) -> Hardware:
        """The GPU with the overrides applied. Raises HardwareError."""
        return load_hardware(self.hw, self.overrides, self.override_files)


def lower(kernel: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *,
          hw: HardwareLike = DEFAULT_HARDWARE, symbols: Mapping[str, int] | None = None,
          metadata: Mapping[str, Any] | None = None, pass_configs: Mapping[str, Any] | None = None,
          on_unknown: str = "error", detail: str = "fast", cache: bool = True) -> KernelGraph:
    """The kernel graph of a TileLang kernel as compiled for `hw`.

    Args:
        kernel: a PrimFunc, a factory that returns one, or a `tilelang.jit` or autotuned object.
        args, kwargs: arguments of the factory.
        hw: name of a hardware file, path of one, or a loaded one; its architecture is the compilation target.
        symbols: values of symbolic sizes.
        metadata: integer tensors that control flow or extents depend on.
        pass_configs: switches of the TileLang compiler.
        on_unknown: "error", or "warn" to let statements that gtsim cannot interpret cost nothing.
        detail: "fast" computes by rule what the compiler's later passes decide; "exact" runs them too (docs/exact.md).
        cache: with "exact", keep what they decided in the user's cache folder.

    Raises:
        UsageError: an argument of the wrong kind.
        FrontendError: the kernel cannot be built or lowered; says which statement and what to do.
        HardwareError: no such hardware.
    """
    from .frontend import lower as run_frontend

    check_call(args, kwargs)
    Options(symbols=symbols or {}, metadata=metadata or {}, pass_configs=pass_configs or {}, on_unknown=on_unknown,
            detail=detail, cache=cache).check()
    if isinstance(kernel, Predictor):
        kernel = kernel.kernel
    arch = load_hardware(hw).chip.arch
    graph: KernelGraph = run_frontend(kernel, tuple(args), dict(kwargs or {}), arch=arch, symbols=dict(symbols or {}) or None,
                                      metadata=dict(metadata or {}) or None, pass_configs=dict(pass_configs or {}) or None,
                                      on_unknown=on_unknown, detail=detail, cache=cache)
    return graph


def simulate(graph: KernelGraph, hw: HardwareLike = DEFAULT_HARDWARE, *, fidelity: str = "bulk", clock_mhz: float | None = None,
             overrides: Mapping[str, Any] | None = None, threads: int = 1, progress: Progress | None = None,
             **options: Any) -> Prediction:
    """Predict how a kernel graph runs on `hw`. Needs neither TileLang nor a GPU.

    Args:
        graph: from :func:`lower`, `load_graph` or a `TileGraphBuilder`.
        hw: name of a hardware file, path of one, or a loaded one.
        fidelity: "bulk", or "line" to simulate every 128-byte line by itself (slower, within 1 %), or "fast" to leave out CTAs
            that only repeat what others did (large grids; the result says how many and how sure that is).
        clock_mhz: SM clock; the hardware file's if None.
        overrides: dotted path -> value, such as {"l2.latency_near_cycles": 200}.
        threads: host threads.
        progress: called now and then with the share of CTAs that are done.
        options: passed on to `gtsim.backend.simulate` (`policy`, `timeline_sm`, `start`, `memory`, `tensors`).

    Raises:
        UsageError: an argument of the wrong kind.
        SimulationError: the graph cannot run on this GPU; says why and what to do.
        HardwareError: no such hardware, or a wrong override.
    """
    check_graph(graph)
    Options(clock_mhz=clock_mhz, fidelity=fidelity, overrides=overrides or {}, threads=threads).check()
    machine = load_hardware(hw, overrides)
    result = run_backend(graph, machine, fidelity=fidelity, clock_mhz=clock_mhz, threads=threads, progress=progress, **options)
    seconds = {("lowering" if k == "capture" else k): v for k, v in result.seconds.items()}
    parameters = {**result.parameters, "overrides": dict(overrides or {}), "detail": str(graph.meta.get("detail", "fast"))}
    return Prediction(replace(result, seconds=seconds, parameters=parameters), graph, machine)


class Predictor:
    """A kernel that predicts instead of running: call it with the kernel's arguments and get a :class:`Prediction`.

    Attributes:
        kernel: what was decorated.
        options: what the decorator was given.
    """

    def __init__(self, kernel: Any, options: Options) -> None:
        functools.update_wrapper(self, kernel, updated=())
        self.kernel = kernel
        self.options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Prediction | SequencePrediction:
        """Lower the kernel for these arguments and simulate it. Raises what :func:`lower` and :func:`simulate` raise."""
        return run(self.kernel, args, kwargs, self.options)

    def lower(self, *args: Any, **kwargs: Any) -> KernelGraph:
        """The kernel graph for these arguments, not simulated."""
        o = self.options
        return lower(self.kernel, args, kwargs, hw=o.hardware(), symbols=o.symbols, metadata=o.metadata,
                     pass_configs=o.pass_configs, on_unknown=o.on_unknown, detail=o.detail, cache=o.cache)

    def __repr__(self) -> str:
        return f"<gtsim predictor of {getattr(self.kernel, '__name__', type(self.kernel).__name__)} on {self.options.hw}>"


def run(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], options: Options,
        progress: Progress | None = None) -> Prediction | SequencePrediction:
    """Lower and simulate once; a program of several kernels gives a sequence. Raises as :func:`lower` and :func:`simulate`."""
    from .frontend import lower_program

    options.check()
    machine = options.hardware()
    started = time.perf_counter()
    graphs = lower_program(kernel, tuple(args), dict(kwargs), arch=machine.chip.arch, symbols=dict(options.symbols) or None,
                           metadata=dict(options.metadata) or None, pass_configs=dict(options.pass_configs) or None,
                           on_unknown=options.on_unknown, detail=options.detail, cache=options.cache)
    # Building the PrimFunc and importing TileLang count as lowering, and lowering is shared by the kernels of a program.
    lowered = time.perf_counter() - started - sum(g.meta.get("seconds", {}).get("graph", 0.0) for g in graphs)

    def once(graph: KernelGraph, start: EarlyStart | None = None, memory: DeviceMemory | None = None) -> Prediction:
        prediction = simulate_graph(graph, options, progress, start, memory)
        seconds = {**prediction.result.seconds, "lowering": lowered / len(graphs)}
        return replace(prediction, result=replace(prediction.result, seconds=seconds))

    if len(graphs) == 1:
        return once(graphs[0])
    if options.fidelity == "fast" and any(map(waits_for_earlier, graphs)):
        options = replace(options, fidelity="bulk")  # when each CTA ends, and where, is needed
    return run_in_order(str(graphs[0].meta.get("kernel", graphs[0].name)), graphs, once)


def simulate_graph(graph: KernelGraph, options: Options, progress: Progress | None = None,
                   start: EarlyStart | None = None, memory: DeviceMemory | None = None,
                   tensors: Mapping[str, str] | None = None) -> Prediction:
    """Simulate on the GPU that `options` describe, and keep in the result what was changed. Raises as :func:`simulate`."""
    made = simulate(graph, options.hardware(), fidelity=options.fidelity, clock_mhz=options.clock_mhz, threads=options.threads,
                    progress=progress, policy=options.policy, start=start, memory=memory, tensors=tensors)
    files = [str(f) if isinstance(f, str | Path) else "given in Python" for f in options.override_files]
    parameters = {**made.result.parameters, "overrides": dict(options.overrides), "override_files": files}
    return replace(made, result=replace(made.result, parameters=parameters))


#: "No kernel was given", which None would not tell from a mistake.
_DECORATE: Any = object()


@overload
def predict(**options: Any) -> Callable[[Any], Predictor]: ...
@overload
def predict(kernel: Any, **options: Any) -> Any: ...
def predict(kernel: Any = _DECORATE, **options: Any) -> Any:
    """Predict a TileLang kernel.

    As a decorator, bare or with options, on a factory that returns a PrimFunc, or on a `tilelang.jit` or autotuned object
    (autotuned kernels use the first configuration for what is not given)::

        @gtsim.predict(hw="h100_sxm", clock_mhz=1500)
        def matmul(M, N, K, block_M=128): ...

        matmul(4096, 4096, 4096).report()

    As a call on a PrimFunc: `gtsim.predict(prim_func, hw="h100_sxm", symbols={"m": 4096})`.

    Args:
        kernel: what is decorated, or a PrimFunc.
        options: `hw` (name or path of a hardware file, or a loaded one; "h100_sxm" by default), `clock_mhz`, `fidelity` ("bulk"
            or "line"), `overrides` (dotted path -> value), `override_files` (TOML files or dicts laid over the hardware file),
            `symbols`, `metadata`, `pass_configs`, `on_unknown`, `detail`, `cache` as in :func:`lower`, `policy` (issue
            scheduling: "gto", "lrr", "oldest"), `threads`.

    Returns:
        A :class:`Prediction` for a PrimFunc (a :class:`SequencePrediction` if it launches several kernels), a :class:`Predictor`
        for anything else that makes kernels, or a decorator.

    Raises:
        UsageError: an unknown option, or something that is not a kernel.
    """
    chosen = _options(options)
    if kernel is _DECORATE:
        return functools.partial(_decorate, options=chosen)
    if is_prim_func(kernel):
        return run(kernel, (), {}, chosen)
    return _decorate(kernel, options=chosen)


def _decorate(kernel: Any, *, options: Options) -> Predictor:
    if not is_factory(kernel):
        raise UsageError(f"gtsim.predict was given {type(kernel).__name__} {kernel!r:.60}. It takes a PrimFunc, a function that "
                         "returns one, or a tilelang.jit or autotuned object.")
    return Predictor(kernel.kernel if isinstance(kernel, Predictor) else kernel, options)


def _options(given: Mapping[str, Any]) -> Options:
    unknown = [k for k in given if k not in Options.__dataclass_fields__]
    if unknown:
        raise UsageError(f"gtsim.predict has no option {unknown[0]!r}. It takes {', '.join(Options.__dataclass_fields__)}.")
    options = Options(**{k: v for k, v in given.items() if v is not None})
    options.check()
    return options
