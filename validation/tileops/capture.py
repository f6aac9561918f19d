"""Records what TileOPs would launch: every TileLang kernel call, with its PrimFunc, symbolic sizes and integer inputs.

TileLang's `@tilelang.jit` factories are intercepted where they would compile. The factory still builds its PrimFunc, exactly as
for a real launch; instead of a compiled kernel it returns a :class:`RecordingKernel`, whose call notes the arguments and returns
empty tensors of the right shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tilelang  # noqa: F401  makes the tvm package importable
import torch
from numpy.typing import NDArray
from tvm import arith, tirx

from . import fake_gpu

#: Integer arrays of up to this many elements are kept by value (offsets, sizes, tables).
KEEP_VALUES = 1 << 22


@dataclass
class Recorded:
    """One kernel launch.

    Attributes:
        prim_func: what TileLang would compile.
        factory: name of the `@tilelang.jit` function.
        config: what the factory was called with (tile sizes, stages, threads, ...).
        pass_configs: TileLang pass options that the factory asks for, by name.
        symbols: values of the PrimFunc's symbolic sizes, strides and scalar parameters.
        arrays: integer inputs by value, buffer name -> array.
        unknown: other integer inputs: too large, or computed by a kernel.
        tuned: not empty if the benchmark autotunes this kernel: the measured configuration is one of `candidates`.
    """

    prim_func: Any
    factory: str
    config: dict[str, Any]
    pass_configs: dict[str, Any]
    symbols: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    tuned: str = ""
    candidates: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Call:
    """The launches of one operator call, in order. `torch_ops` names the PyTorch operations that it runs besides (copies, fills,
    ...): each is one or more kernels, part of the measured time."""

    launches: list[Recorded] = field(default_factory=list)
    torch_ops: list[str] = field(default_factory=list)


class Recorder:
    """Collects launches while `on`. `config` replaces the default configuration of autotuned kernels."""

    def __init__(self) -> None:
        self.on = False
        self.call = Call()
        self.config: Mapping[str, Any] | None = None
        self.tuned: tuple[str, list[dict[str, Any]]] = ("", [])

    def reset(self, config: Mapping[str, Any] | None) -> None:
        """Forget everything; the next call uses `config` for autotuned kernels."""
        self.on, self.call, self.config, self.tuned = False, Call(), config, ("", [])

    def begin(self) -> None:
        """What is launched from now on counts."""
        self.on, self.call = True, Call()

    def end(self) -> Call:
        """What was launched since `begin`."""
        self.on = False
        return self.call

    def torch_op(self, name: str) -> None:
        """Note an operation of PyTorch's own."""
        if self.on:
            self.call.torch_ops.append(name)


RECORDER = Recorder()


class RecordingKernel:
    """Stands in for a compiled kernel (`tilelang.JITKernel`)."""

    def __init__(self, prim_func: Any, jit: Any, call_config: dict[str, Any]) -> None:
        attrs = prim_func.attrs or {}
        out_idx = list(attrs["tilelang_out_idx"]) if "tilelang_out_idx" in attrs else jit.out_idx
        out_idx = [] if out_idx is None else [out_idx] if isinstance(out_idx, int) else list(out_idx)
        n = len(prim_func.params)
        self.prim_func, self.out_idx = prim_func, sorted(int(i) + n if i < 0 else int(i) for i in out_idx)
        pass_configs = dict(attrs.get("tilelang_pass_configs", {}))
        pass_configs.update(jit.pass_configs or {})
        self.pass_configs = {getattr(k, "value", str(k)): v for k, v in pass_configs.items()}
        inner = getattr(jit.func, "orig_func", None)
        self.factory = str(getattr(jit.func, "__name__", None) or getattr(inner, "__name__", "kernel"))
        self.call_config = call_config
        self.config, self.latency = dict(call_config), 0.0
        self.written = _written_buffers(prim_func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        params = list(self.prim_func.params)
        given = params if len(args) == len(params) else [p for i, p in enumerate(params) if i not in self.out_idx]
        if kwargs:
            args = args + tuple(kwargs[p.name] for p in given[len(args):])
        if len(given) != len(args):
            raise TypeError(f"{self.factory}: {len(args)} arguments for {len(given)} parameters")
        # What the operator at hand tunes: TileLang hands out the same kernel again for the same arguments.
        launch = Recorded(self.prim_func, self.factory, self.call_config, self.pass_configs, tuned=RECORDER.tuned[0],
                          candidates=RECORDER.tuned[1])
        bound: dict[Any, Any] = {}
        for param, value in zip(given, args, strict=True):
            _bind(self.prim_func, param, value, launch, bound)
        for param, value in zip(given, args, strict=True):
            if isinstance(value, torch.Tensor) and self.prim_func.buffer_map[param].name in self.written:
                fake_gpu.mark_unknown(value)
        returned = []
        for i in self.out_idx:
            buffer = self.prim_func.buffer_map[params[i]]
            shape = [_value(d, bound) for d in buffer.shape]
            if len(given) < len(params):
                returned.append(torch.empty(shape, dtype=_torch_dtype(buffer.dtype), device="cuda"))
        launch.symbols = {str(v.name): n for v, n in bound.items()}
        if RECORDER.on:
            RECORDER.call.launches.append(launch)
        return None if not returned else returned[0] if len(returned) == 1 else returned

    def get_profiler(self, *_a: Any, **_k: Any) -> Any:
        """Refused."""
        raise RuntimeError("nothing is measured here")


def _written_buffers(prim_func: Any) -> set[str]:
    """Names of the buffers that a PrimFunc stores to, by assignment, tile operation or atomic."""
    names: set[str] = set()

    def note(node: Any) -> None:
        if isinstance(node, tirx.BufferLoad):
            names.add(node.buffer.name)

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferStore):
            names.add(node.buffer.name)
        elif isinstance(node, tirx.Call):
            op = str(getattr(node.op, "name", node.op))
            if op.endswith("region") and int(node.args[1]) & 2:
                names.add(node.args[0].buffer.name)
            elif "atomic" in op or op.endswith(("call_extern", "access_ptr")):
                tirx.stmt_functor.post_order_visit(node, note)

    tirx.stmt_functor.post_order_visit(prim_func.body, visit)
    return names


def _torch_dtype(dtype: Any) -> Any:
    return getattr(torch, str(dtype).replace("float8_e4m3", "float8_e4m3fn").replace("fnfn", "fn"))


def _bind(prim_func: Any, param: Any, value: Any, launch: Recorded, bound: dict[Any, Any]) -> None:
    """Match one argument against its parameter: bind symbolic dimensions, keep small integer arrays by value."""
    buffer = prim_func.buffer_map.get(param) if param in prim_func.buffer_map else None
    if buffer is None:
        bound[param] = value
        return
    if value is None:
        return
    shape = tuple(value.shape)
    if len(shape) != len(buffer.shape):
        raise TypeError(f"{launch.factory}: {buffer.name} has {len(buffer.shape)} dimensions, got shape {shape}")
    for dim, size in zip(buffer.shape, shape, strict=True):
        if isinstance(dim, tirx.Var):
            bound.setdefault(dim, int(size))
        elif _value(dim, bound) not in (None, int(size)):
            raise TypeError(f"{launch.factory}: {buffer.name} is {list(buffer.shape)}, got shape {shape}")
    for dim, size in zip(buffer.strides or [], tuple(value.stride()), strict=False):
        if isinstance(dim, tirx.Var):
            bound.setdefault(dim, int(size))
    if value.dtype.is_floating_point or value.dtype.is_complex:
        return
    if value.is_meta or value.numel() > KEEP_VALUES or fake_gpu.value_state(value) == fake_gpu.UNKNOWN:
        launch.unknown.append(buffer.name)
    else:
        launch.arrays[buffer.name] = np.array(value.detach().numpy(), copy=True)


def _value(expr: Any, bound: Mapping[Any, Any]) -> int | None:
    """Integer value of a size expression, or None when a symbol in it is unbound."""
    if isinstance(expr, int):
        return expr
    known = {v: tirx.IntImm(v.dtype, n) for v, n in bound.items() if isinstance(n, int)}
    out = arith.Analyzer().simplify(tirx.stmt_functor.substitute(expr, known))
    return int(out) if isinstance(out, tirx.IntImm) else None


def _call_config(jit: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The factory's arguments by name, tensors left out."""
    items = jit.signature.bind(*args, **kwargs).arguments.items()
    return {k: v for k, v in items if not isinstance(v, torch.Tensor)}


def _compile(self: Any, *args: Any, **kwargs: Any) -> RecordingKernel:
    return RecordingKernel(self.get_tir(*args, **kwargs), self, _call_config(self, args, kwargs))


def install() -> None:
    """Intercept `@tilelang.jit`. Call before TileOPs is imported."""
    from tilelang.jit import JITImpl

    JITImpl.compile = _compile
    from tilelang import cache

    if hasattr(cache, "load_frontend_cached"):  # 0.1.11 asks an on-disk cache of compiled kernels first
        cache.load_frontend_cached = lambda *a, **k: None


def stub_autotuning(kernel_base: Any) -> None:
    """Make every Kernel class of TileOPs take its default configuration where the benchmark would autotune."""

    def autotune(self: Any, *_a: Any, **_k: Any) -> None:
        self.config = {**self.default_config, **(RECORDER.config or {})}
        if "tile_n" in self.config and hasattr(self, "_tile_n"):  # baked in at construction, retuned by assignment
            self._tile_n = self.config["tile_n"]
        RECORDER.tuned = (type(self).__name__, list(self.autotune_configs or []))

    def tune_jit_kernel(self: Any, jit_kernel: Any, configs: Any, *_a: Any, **_k: Any) -> Any:
        autotune(self)
        RECORDER.tuned = (type(self).__name__, list(configs))
        return type("Tuned", (), {"config": self.config, "latency": 0.0})()

    todo = [kernel_base.Kernel]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if "autotune" in cls.__dict__:
            cls.autotune = autotune
        if "tune_jit_kernel" in cls.__dict__:
            cls.tune_jit_kernel = tune_jit_kernel
