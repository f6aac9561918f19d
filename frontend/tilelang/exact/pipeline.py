"""Collecting the modules behind TileLang's later passes, and reading the facts from them."""

from __future__ import annotations

import re
from typing import Any

from ...errors import FrontendError, shorten
from ..program import launches
from .facts import ExactFacts, KernelFacts
from .ir import integer
from .readers import SPLIT, Entry, Unreadable, View, readers


class Stages:
    """A listener of the pass pipeline: it keeps the modules that the readers want, in front of their passes and behind.

    Attributes:
        last: the pass behind which nothing more is wanted.
    """

    last = "tl.LowerDeviceKernelLaunch"

    def __init__(self) -> None:
        self.wanted = {entry.after for entry in readers().values()} | {SPLIT}
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}
        self.order: list[str] = []

    def entered(self, name: str, module: Any) -> None:
        """A pass begins."""
        if name in self.wanted:
            self.before[name] = module

    def left(self, name: str, module: Any) -> bool:
        """A pass ended; whether it was the last that is wanted."""
        if name in self.wanted:
            self.after[name] = module
            self.order.append(name)
        return name == self.last


def read_facts(captured: Any, stages: Stages, target: Any, arch: str, version: str, name: str) -> ExactFacts:
    """The facts of each kernel of the program. `captured` is the module at the capture point.

    Raises:
        FrontendError: the pipeline ended before the pass that a fact needs.
    """
    missing = sorted(stages.wanted - set(stages.after))
    if missing:
        raise FrontendError(f"TileLang's pipeline has no pass {missing[0]}", where=name,
                            fix='Use detail="fast", or tilelang 0.1.15.')
    nests = _nests(captured)
    entries = readers()
    kernels = [KernelFacts(**_kernel_facts(i, nest, entries, stages, target)) for i, nest in enumerate(nests)]
    return ExactFacts(kernels=tuple(kernels), arch=arch, tilelang=version)


def _kernel_facts(index: int, nest: Any, entries: dict[str, Entry], stages: Stages, target: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for field, entry in entries.items():
        try:
            found[field] = entry.read(_view(index, nest, entry, stages, target))
        except Unreadable as e:
            unknown[field] = str(e)
        except Exception as e:  # noqa: BLE001  another release may print its IR differently: the fact is unknown, and says why
            last = [ln for ln in str(e).strip().split("\n") if ln.strip()]
            unknown[field] = f"{type(e).__name__}: {shorten(last[-1] if last else '', 200)}"
    return {**found, "unknown": unknown}


def _view(index: int, nest: Any, entry: Entry, stages: Stages, target: Any) -> View:
    after = stages.after[entry.after]
    split = stages.order.index(SPLIT) < stages.order.index(entry.after)
    if split:
        devices = _devices(after)
        if index >= len(devices):
            raise Unreadable(f"the module behind {entry.after} has {len(devices)} device functions")
        func = devices[index]
        body = func.body
    else:
        func = _only(after)
        body = _nests(after)[index]
    before_nest = None if split else _nests(stages.before[entry.after])[index]

    def relower(changed: Any) -> Any:
        import tilelang
        import tvm

        module = stages.before[entry.after]
        owner = _only(module)
        replaced = owner.with_body(_substitute(owner.body, before_nest, changed))
        run = getattr(tilelang.transform, entry.after.removeprefix("tl."))
        with target:
            made = run()(tvm.IRModule({next(iter(module.functions.items()))[0]: replaced}))
        return _nests(made)[index]

    return View(nest, body, func, before_nest, relower, target, _threads(nest))


def _substitute(body: Any, old: Any, new: Any) -> Any:
    import tvm

    if body.same_as(old):
        return new
    tir = getattr(tvm, "tirx", None) or tvm.tir
    prefix = "tirx" if hasattr(tvm, "tirx") else "tir"
    return tir.stmt_functor.ir_transform(body, lambda s: new if s.same_as(old) else None, lambda s: None, [f"{prefix}.AttrStmt"])


def _only(module: Any) -> Any:
    functions = [f for _, f in module.functions.items()]
    if len(functions) != 1:
        raise Unreadable(f"{len(functions)} functions where one was expected")
    return functions[0]


def _nests(module: Any) -> list[Any]:
    return launches(_only(module).body)


def _devices(module: Any) -> list[Any]:
    """Device functions in launch order: the compiler numbers them behind `_kernel`."""
    named = [(str(v.name_hint), f) for v, f in module.functions.items() if int((f.attrs or {}).get("calling_conv", 0)) == 2]

    def number(name: str) -> int:
        found = re.search(r"_kernel_(\d+)$", name)
        return int(found[1]) if found else 0

    return [f for _, f in sorted(named, key=lambda item: number(item[0]))]


def _threads(nest: Any) -> int:
    total, node = 1, nest
    while type(node).__name__ == "AttrStmt" and str(node.attr_key) == "thread_extent":
        if str(node.node.thread_tag).startswith("threadIdx"):
            total *= integer(node.value) or 1
        node = node.body
    return total
