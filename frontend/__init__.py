"""Programs in, tile graphs out.

    from gtsim.frontend import lower
    graph = lower(factory, args=(4096, 4096, 4096), arch="sm_90a")

`import gtsim.frontend` does not import tilelang; the first call does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..graph import KernelGraph
from .errors import FrontendError, UnknownStatement

if TYPE_CHECKING:
    from .tilelang.capture import CapturedKernel
    from .tilelang.exact import ExactFacts

__all__ = ["CapturedKernel", "ExactFacts", "FrontendError", "UnknownStatement", "capture", "exact_facts", "lower",
           "lower_captured", "lower_program"]


def capture(prim_func: Any, arch: str, pass_configs: Mapping[Any, Any] | None = None, *, detail: str = "fast",
            cache: bool = True) -> CapturedKernel:
    """Run TileLang's lowering of `prim_func` for `arch` up to the capture point, without a GPU and without nvcc.

    With `detail="exact"` the passes behind it run too, and the result holds what they decide (see :func:`exact_facts`).
    """
    from .tilelang.capture import capture as run

    return run(prim_func, arch, pass_configs, detail=detail, cache=cache)


def exact_facts(kernel: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, arch: str,
                pass_configs: Mapping[Any, Any] | None = None, cache: bool = True) -> ExactFacts:
    """What TileLang's own passes decide about a kernel: layouts and swizzles, TMA boxes, instruction shapes, shared-memory bytes,
    added barriers, registers (docs/exact.md).

    Args:
        kernel, args, kwargs, arch, pass_configs: as for :func:`lower`.
        cache: read facts from, and write them to, the user's cache folder.

    Raises:
        FrontendError: TileLang cannot compile the kernel.
    """
    from .tilelang.capture import capture as run
    from .tilelang.resolve import resolve

    prim_func, configs, _ = resolve(kernel, tuple(args), dict(kwargs or {}), arch, pass_configs)
    facts = run(prim_func, arch, configs, detail="exact", cache=cache).exact
    assert facts is not None
    return facts


def lower_captured(captured: CapturedKernel, *, symbols: Mapping[str, int] | None = None,
                   metadata: Mapping[str, Any] | None = None, on_unknown: str = "error", name: str | None = None,
                   check: bool = True) -> KernelGraph:
    """Build the kernel graph of a captured kernel. See :func:`lower`."""
    from .tilelang.lower import lower_captured as run

    return run(captured, symbols=symbols, metadata=metadata, on_unknown=on_unknown, name=name, check=check)


def lower(kernel: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, arch: str,
          symbols: Mapping[str, int] | None = None, metadata: Mapping[str, Any] | None = None,
          pass_configs: Mapping[Any, Any] | None = None, on_unknown: str = "error", name: str | None = None,
          check: bool = True, detail: str = "fast", cache: bool = True) -> KernelGraph:
    """Lower a TileLang kernel to a kernel graph.

    Args:
        kernel: a PrimFunc, a factory that returns one, a lazy or eager `@tilelang.jit` object, or an autotuned one (its first
            configuration fills what is not given).
        args, kwargs: arguments of the factory.
        arch: compilation target, e.g. "sm_90a".
        symbols: values of symbolic sizes and scalar parameters, by name.
        metadata: integer tensors that steer control flow, by name.
        pass_configs: TileLang pass configs; they win over the kernel's own.
        on_unknown: "error", or "warn" to go on without statements that cannot be interpreted.
        name: name of the graph; the kernel's by default.
        check: run :func:`gtsim.graph.check` on the result.
        detail: "fast" computes by rule what passes behind the capture point decide; "exact" runs them, and the graph's `meta`
            says where the rules were wrong.
        cache: with "exact", keep facts in the user's cache folder.

    Raises:
        FrontendError: wrong use, or a kernel that cannot be lowered or interpreted.
        GraphError: the kernel deadlocks or races.
    """
    from .tilelang.capture import capture as run
    from .tilelang.resolve import resolve

    prim_func, configs, _ = resolve(kernel, tuple(args), dict(kwargs or {}), arch, pass_configs)
    captured = run(prim_func, arch, configs, detail=detail, cache=cache)
    return lower_captured(captured, symbols=symbols, metadata=metadata, on_unknown=on_unknown, name=name, check=check)


def lower_program(kernel: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, arch: str,
                  symbols: Mapping[str, int] | None = None, metadata: Mapping[str, Any] | None = None,
                  pass_configs: Mapping[Any, Any] | None = None, on_unknown: str = "error", name: str | None = None,
                  check: bool = True, detail: str = "fast", cache: bool = True) -> list[KernelGraph]:
    """Lower a TileLang program that launches one or more kernels: a graph for each, in stream order, named `name.0`, `name.1`,
    ... if there are several. Arguments and errors as for :func:`lower`."""
    from .tilelang.capture import capture as run
    from .tilelang.lower import lower_program_captured
    from .tilelang.resolve import resolve

    prim_func, configs, _ = resolve(kernel, tuple(args), dict(kwargs or {}), arch, pass_configs)
    captured = run(prim_func, arch, configs, detail=detail, cache=cache)
    return lower_program_captured(captured, symbols=symbols, metadata=metadata, on_unknown=on_unknown, name=name, check=check)


def __getattr__(attribute: str) -> Any:
    if attribute == "ExactFacts":
        from .tilelang.exact import ExactFacts

        return ExactFacts
    if attribute == "CapturedKernel":
        from .tilelang.capture import CapturedKernel

        return CapturedKernel
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")
