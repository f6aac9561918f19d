"""A make-believe H200, so that TileOPs' own benchmark code runs on a machine without a GPU.

Three parts, all needed before TileOPs is imported (:func:`install`) or while it runs (:func:`active`):

* device queries answer like an H200 (compute capability 9.0, 132 SMs, 227 KiB shared memory a block);
* tensors claim to live on ``cuda:0``. Small ones, and integer ones (sequence lengths, routing tables), are
  real CPU tensors, so control flow that reads their values works. Large ones are *meta* tensors: shape and
  dtype only, no memory, no arithmetic. Any operation with a meta operand gives a meta result;
* third-party libraries a benchmark compares against are replaced by inert stand-ins when they are absent.
"""
from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

#: Larger tensors are meta. Integer tensors decide control flow, so they stay real much longer.
REAL_FLOATS, REAL_INTS = 1 << 20, 1 << 25
CUDA0 = torch.device("cuda", 0)
SM_COUNT = 132


def _properties(*_a: Any, **_k: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name="NVIDIA H200", major=9, minor=0, multi_processor_count=SM_COUNT, total_memory=143771 << 20,
        shared_memory_per_block=49152, shared_memory_per_block_optin=232448, warp_size=32,
        shared_memory_per_multiprocessor=233472, regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048, L2_cache_size=60 << 20, gcnArchName="")


class Inert:
    """Accepts anything, does nothing: module attribute, decorator, context manager, callable."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Inert()

    def __init__(self, *_a: Any, **_k: Any) -> None:
        pass

    def __call__(self, *_a: Any, **_k: Any) -> Any:
        return Inert()

    def __getitem__(self, _key: Any) -> Any:
        return Inert()

    def __iter__(self) -> Iterator[Any]:
        return iter((Inert(), Inert()))  # results unpack as (output, state) in the benchmarks that unpack them

    def __enter__(self) -> Inert:
        return self

    def __exit__(self, *_exc: object) -> None:
        return None


class _StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves empty modules for the baselines that bench files import at module level."""

    NAMES = ("triton", "fla", "flag_gems")

    def find_spec(self, fullname: str, path: Sequence[str] | None = None,
                  target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] in self.NAMES:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__getattr__ = _inert_attribute  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


def _inert_attribute(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (Inert,), {}) if name.lstrip("_")[:1].isupper() else Inert()  # classes stay classes


class _PlainOp:
    """What ``torch.library.custom_op`` returns here: the function itself, registrations ignored.

    The real wrapper would route a meta tensor to the registered *fake* implementation, which launches nothing.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", "op")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("register_", "set_")):
            return lambda *a, **k: a[0] if a and callable(a[0]) else (lambda f: f)
        raise AttributeError(name)


_installed = False


def install() -> None:
    """Patch device queries and operator registration for the rest of this process (idempotent)."""
    global _installed
    if _installed:
        return
    _installed = True
    import tilelang  # noqa: F401  loaded first, so that it sees the machine as it is
    import torch._dynamo  # dispatch modes load it on first use; it checks torch.cuda's functions

    sys.meta_path.append(_StubFinder())  # last: a real package wins
    with contextlib.suppress(ImportError):  # real Triton imports, but must not launch
        from triton.runtime import autotuner, jit

        jit.JITFunction.run = autotuner.Autotuner.run = lambda *a, **k: None
    c = torch.cuda

    def nothing(*_a: Any, **_k: Any) -> None:
        return None

    c.is_available = c.is_initialized = lambda: True
    c.device_count = lambda: 1
    c.current_device = lambda: 0
    c.get_device_capability = lambda *a, **k: (9, 0)
    c.get_device_name = lambda *a, **k: "NVIDIA H200"
    c.get_device_properties = _properties
    c._lazy_init = c.synchronize = c.empty_cache = c.manual_seed = c.manual_seed_all = c.set_device = nothing
    c.reset_peak_memory_stats = nothing
    c.mem_get_info = lambda *a, **k: (140 << 30, 140 << 30)
    c.is_current_stream_capturing = lambda: False
    c.current_stream = c.Stream = c.Event = lambda *a, **k: Inert()
    c.stream = c.device = lambda *a, **k: contextlib.nullcontext()

    torch.Tensor.record_stream = nothing
    torch.compile = lambda fn=None, **k: fn if fn is not None else lambda f: f
    torch._dynamo.reset = nothing

    register = torch.library.custom_op

    def custom_op(name: str, fn: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
        if not name.startswith("tileops::"):
            return register(name, fn, **kwargs)
        return _PlainOp(fn) if fn is not None else _PlainOp

    torch.library.custom_op = custom_op


_addresses: dict[int, int] = {}


def _address(tensor: Any, *_a: Any) -> int:
    """A made-up address: storages never overlap, aligned like real allocations."""
    base = _addresses.setdefault(tensor.untyped_storage()._cdata, (len(_addresses) + 1) << 40)
    return base + int(tensor.storage_offset() * tensor.element_size())


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return bool(value.type == "cuda")
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


class _CudaNames(TorchFunctionMode):  # type: ignore[misc]
    """Python level: report tensors as cuda:0, and turn every request for cuda into a request for cpu."""

    T = torch.Tensor
    ANSWERS: dict[Any, Any] = {
        T.device.__get__: lambda *a: CUDA0,
        T.is_cuda.__get__: lambda *a: True,
        T.is_cpu.__get__: lambda *a: False,
        T.get_device: lambda *a: 0,
        T.data_ptr: _address,
        T.cuda: lambda t, *a, **k: t,
        T.cpu: lambda t, *a, **k: t,
        T.pin_memory: lambda t, *a, **k: t,
    }

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        answer = self.ANSWERS.get(func)
        if answer is not None:
            return answer(*args, **(kwargs or {}))
        args = tuple("cpu" if _is_cuda(a) else a for a in args)
        kwargs = {k: "cpu" if _is_cuda(v) else v for k, v in (kwargs or {}).items()}
        return func(*args, **kwargs)


#: Operations that launch nothing: views and allocations.
NO_KERNEL = ("empty", "empty_strided", "new_empty", "new_empty_strided", "empty_like", "detach", "lift_fresh", "alias",
             "view", "_unsafe_view", "_reshape_alias", "_local_scalar_dense", "scalar_tensor", "resize_", "set_")

#: What is known about the values of a real tensor's storage: computed from constants alone; drawn from a random
#: generator (the benchmark draws on the GPU, so numbers differ, their distribution does not); or not at all.
EXACT, RANDOM, UNKNOWN = 0, 1, 2
_RANDOM_OPS = ("rand", "randn", "randint", "randperm", "normal", "uniform", "random", "bernoulli", "multinomial",
               "exponential", "rand_like", "randn_like", "randint_like")
_EMPTY_OPS = ("empty", "empty_strided", "new_empty", "new_empty_strided", "empty_like")
_known: dict[int, int] = {}


def value_state(tensor: Any) -> int:
    """EXACT, RANDOM or UNKNOWN."""
    return _known.get(tensor.untyped_storage()._cdata, EXACT)


def mark_unknown(tensor: Any) -> None:
    """A kernel writes this tensor, so its values are not known any more."""
    _known[tensor.untyped_storage()._cdata] = UNKNOWN


def _track(name: str, inputs: Sequence[Any], out: Any) -> Any:
    base = name.rstrip("_")
    if base in _RANDOM_OPS:
        state = RANDOM
    elif base in _EMPTY_OPS:
        state = UNKNOWN
    elif name in ("fill_", "zero_", "lift_fresh"):  # lift_fresh: what torch.tensor([...]) ends with
        state = EXACT
    else:
        state = max((value_state(t) for t in (inputs[1:] if name == "copy_" else inputs)), default=EXACT)
    for t in tree_flatten(out)[0]:
        if isinstance(t, torch.Tensor) and not t.is_meta:
            _known[t.untyped_storage()._cdata] = state
    return out


class _RealOrMeta(TorchDispatchMode):  # type: ignore[misc]
    """Operator level: keep small tensors real, make large ones meta, let meta win in mixed operations.

    ``log`` receives the name of every operation that would launch a kernel of PyTorch's own.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__()
        self.log = log

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        name = func._schema.name.split("::")[-1]
        if name not in NO_KERNEL and not getattr(func, "is_view", False):
            self.log(name)
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
        if not tensors:
            if "device" in kwargs:  # a factory
                probe = {**kwargs, "device": torch.device("meta")}
                probe.pop("generator", None)
                shape_only = func(*args, **probe)
                limit = REAL_FLOATS if shape_only.dtype.is_floating_point or shape_only.dtype.is_complex else REAL_INTS
                if shape_only.numel() > limit:
                    return shape_only
            return _track(name, (), func(*args, **kwargs))
        if not any(t.is_meta for t in tensors):
            return _track(name, tensors, func(*args, **kwargs))
        if name == "_local_scalar_dense" and tensors[0].dtype == torch.bool:
            return False  # "does any element ...?" about data nobody has: no
        originals: dict[int, tuple[Any, Any]] = {}

        def to_meta(x: Any) -> Any:
            if not isinstance(x, torch.Tensor) or x.is_meta:
                return x
            m = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
            originals[id(m)] = (m, x)
            return m

        args, kwargs = tree_map(to_meta, args), tree_map(to_meta, kwargs)
        if "device" in kwargs:
            kwargs["device"] = torch.device("meta")
        kwargs.pop("generator", None)
        out: Any = func(*args, **kwargs)
        return tree_map(lambda x: originals[id(x)][1] if id(x) in originals else x, out)


@contextlib.contextmanager
def active(log: Callable[[str], None] = lambda name: None) -> Iterator[None]:
    """Tensors created inside are small-and-real or large-and-meta, and all say they are on cuda:0."""
    with torch.no_grad(), _RealOrMeta(log), _CudaNames():
        yield
