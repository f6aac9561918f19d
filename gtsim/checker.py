"""`gtsim.check`: prove or refute a kernel before simulating it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .arguments import check_call, check_choice
from .backend.occupancy import limits
from .errors import UsageError
from .graph import CheckError, Finding, KernelGraph, TileGraphBuilder
from .graph import check as check_graph
from .hwconfigs import Hardware, load_hardware
from .kernels import is_factory, is_prim_func
from .predictor import DEFAULT_HARDWARE, HardwareLike, Options, Predictor

#: Version of :meth:`CheckReport.to_dict`.
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class CheckedKernel:
    """One kernel (launch) of the program: its name, its graph if it could be built, and what was found."""

    name: str
    graph: KernelGraph | None
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """Size of the graph; zeros if a deadlock or a wrong arrival count kept it from being built."""
        g = self.graph
        return {
            "name": self.name,
            "built": g is not None,
            "templates": len(g.templates) if g else 0,
            "nodes": sum(t.nodes for t in g.templates) if g else 0,
            "instances": len(g.instances) if g else 0,
        }


@dataclass(frozen=True, repr=False)
class CheckReport:
    """What :func:`check` found.

    Attributes:
        kernels: the kernels of the program in launch order.
        hw: the GPU, overrides applied.
    """

    kernels: tuple[CheckedKernel, ...]
    hw: Hardware

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, errors first."""
        return tuple(sorted((f for k in self.kernels for f in k.findings), key=lambda f: f.severity != "error"))

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What makes the kernel hang, compute wrong results, or not run at all."""
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What costs time."""
        return tuple(f for f in self.findings if f.severity == "warning")

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return not self.errors

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented, versioned schema (docs/check.md)."""
        rows = [(k.name, f) for k in self.kernels for f in k.findings]
        rows.sort(key=lambda row: row[1].severity != "error")
        return {
            "schema": SCHEMA_VERSION,
            "kernel": self.kernels[0].name if self.kernels else "",
            "hw": self.hw.name,
            "arch": self.hw.chip.arch,
            "ok": self.ok,
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "kernels": [k.to_dict() for k in self.kernels],
            "findings": [
                {
                    "kind": f.kind,
                    "severity": f.severity,
                    "kernel": name,
                    "where": f.where,
                    "text": f.text,
                    "fix": f.fix,
                    "details": _plain(f.details),
                }
                for name, f in rows
            ],
        }

    def report(self, *, file: IO[str] | None = None, width: int | None = None) -> None:
        """Print a table; plain lines if it does not go to a terminal."""
        from .check_table import print_report

        print_report(self, file=file, width=width)

    def __repr__(self) -> str:
        from .check_table import plain_text

        return plain_text(self)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if hasattr(value, "item") else value


def check(
    kernel: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    hw: HardwareLike = DEFAULT_HARDWARE,
    overrides: Mapping[str, Any] | None = None,
    override_files: Sequence[str | Path | Mapping[str, Any]] = (),
    symbols: Mapping[str, int] | None = None,
    metadata: Mapping[str, Any] | None = None,
    pass_configs: Mapping[str, Any] | None = None,
    on_unknown: str = "error",
    detail: str = "fast",
    cache: bool = True,
) -> CheckReport:
    """Look for deadlocks, races, overflows, registers and residency that cannot be had, illegal operands, and what costs time.

    Args:
        kernel: a kernel graph, a `TileGraphBuilder`, or anything :func:`gtsim.lower` takes.
        args, kwargs: arguments of the factory.
        hw: name of a hardware file, path of one, or a loaded one.
        overrides, override_files: as for :func:`gtsim.predict`.
        symbols, metadata, pass_configs, on_unknown, detail, cache: as for :func:`gtsim.lower`.

    Raises:
        UsageError: something that is neither a kernel nor a graph.
        FrontendError: the kernel cannot be lowered.
        HardwareError: no such hardware.
    """
    check_call(args, kwargs)
    Options(
        overrides=overrides or {},
        symbols=symbols or {},
        metadata=metadata or {},
        pass_configs=pass_configs or {},
        on_unknown=on_unknown,
    ).check()
    machine = load_hardware(hw, overrides, override_files)
    if isinstance(kernel, Predictor):
        kernel = kernel.kernel
    if isinstance(kernel, KernelGraph):
        return CheckReport((_judge(kernel, machine),), machine)
    if isinstance(kernel, TileGraphBuilder):
        return CheckReport((_build(kernel.name, lambda: kernel.build(check=False), machine),), machine)
    if not (is_prim_func(kernel) or is_factory(kernel)):
        raise UsageError(f"gtsim.check was given {type(kernel).__name__} {kernel!r:.60}. It takes a kernel graph or a kernel.")
    check_choice("detail", detail, ("fast", "exact"))
    found = _lowered(kernel, args, kwargs or {}, machine, symbols, metadata, pass_configs, on_unknown, detail, cache)
    return CheckReport(tuple(found), machine)


def _judge(graph: KernelGraph, machine: Hardware) -> CheckedKernel:
    return CheckedKernel(graph.name, graph, tuple(check_graph(graph, limits(machine), cost=True)))


def _build(name: str, build: Any, machine: Hardware) -> CheckedKernel:
    """Judge what `build` makes. What keeps it from being made is found first; then whatever is wrong in any order."""
    try:
        return _judge(build(), machine)
    except CheckError as error:
        more = check_graph(error.partial, limits(machine), ordered=False, cost=True) if error.partial is not None else []
        return CheckedKernel(name, None, (*error.findings, *more))


def _lowered(
    kernel: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    machine: Hardware,
    symbols: Mapping[str, int] | None,
    metadata: Mapping[str, Any] | None,
    pass_configs: Mapping[str, Any] | None,
    on_unknown: str,
    detail: str,
    cache: bool,
) -> Iterable[CheckedKernel]:
    from .frontend.tilelang.capture import capture
    from .frontend.tilelang.lower import lower_captured
    from .frontend.tilelang.program import kernel_count
    from .frontend.tilelang.resolve import resolve

    arch = machine.chip.arch
    prim_func, configs, _ = resolve(kernel, tuple(args), dict(kwargs), arch, dict(pass_configs or {}) or None)
    captured = capture(prim_func, arch, configs, detail=detail, cache=cache)
    count = kernel_count(captured)
    for i in range(count):
        name = captured.name if count == 1 else f"{captured.name}.{i}"

        def build(index: int = i, name: str = name) -> KernelGraph:
            return lower_captured(
                captured,
                symbols=dict(symbols or {}) or None,
                metadata=dict(metadata or {}) or None,
                on_unknown=on_unknown,
                name=name,
                check=False,
                index=index,
            )

        yield _build(name, build, machine)
