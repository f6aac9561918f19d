"""Collect the kernels that an example script of TileLang would compile, without a GPU.

    python validation/zoo_harvest.py EXAMPLE.py ARCH OUT_DIR KERNEL_DIR [--real]

The script runs under torch's FakeTensorMode with `cuda` rewritten to `cpu`, and `tilelang.compile` replaced by a function that
records its arguments. One file a kernel is left in OUT_DIR: IR, pass configs, the sizes that its
symbols were bound to and the integer tensors that it was called with, as far as their values are known.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import inspect
import json
import os
import runpy
import signal
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from zoo_anything import Anything  # noqa: E402
from zoo_processes import guarded, leave, pool  # noqa: E402

#: Functions of an example that need no arguments and run its kernels.
ENTRIES = ("main", "run_regression_perf", "test_", "run_", "example_")
#: Packages that examples compare themselves with; imports of them succeed and give placeholders.
ABSENT = ("triton", "flash_attn", "fla", "bitblas", "transformers", "PIL", "lm_eval", "sentencepiece", "vllm", "deep_gemm",
          "matplotlib", "pandas", "causal_conv1d", "mamba_ssm", "xformers", "fast_hadamard_transform", "flash_mla", "flashinfer",
          "tqdm", "cupti", "bitsandbytes", "accelerate", "datasets", "cuda", "scipy", "safetensors")


class Recorder:
    """Stands in for `tilelang.compile`; remembers every distinct kernel."""

    def __init__(self) -> None:
        self.kernels: dict[str, dict[str, Any]] = {}

    def compile(self, func: Any = None, out_idx: Any = None, *args: Any, pass_configs: Any = None, **kwargs: Any) -> StubKernel:
        """Remember the kernel; what `tilelang.compile` would be asked."""
        configs = {str(getattr(k, "value", k)): v for k, v in (pass_configs or {}).items()}
        attrs = dict(func.attrs) if func.attrs else {}
        for k, v in dict(attrs.get("tilelang_pass_configs", {})).items():
            configs.setdefault(str(k), getattr(v, "value", v))
        outputs = attrs.get("tilelang_out_idx", out_idx)
        outputs = [outputs] if isinstance(outputs, int) else [int(i) for i in outputs or ()]
        key = hashlib.sha1(json.dumps([func.script(), configs], default=str).encode()).hexdigest()[:12]
        entry = self.kernels.setdefault(key, {"name": str(attrs.get("global_symbol", "kernel")), "configs": configs, "func": func,
                                              "symbols": {}, "arrays": {}})
        return StubKernel(func, [i % len(func.params) for i in outputs], entry)


class StubKernel:
    """What a compiled kernel is to the example: callable, with a profiler."""

    def __init__(self, func: Any, outputs: list[int], entry: dict[str, Any]) -> None:
        self.prim_func, self.out_idx, self.entry = func, outputs, entry
        self.latency, self.config, self.ref_latency = 1.0, {}, 1.0
        self.kernel = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Learn sizes and integer tensors from the arguments; the outputs are empty."""
        import torch

        func, symbols = self.prim_func, self.entry["symbols"]
        inputs = [p for i, p in enumerate(func.params) if i not in self.out_idx]
        if len(args) == len(func.params):
            inputs = list(func.params)
        for param, value in zip(inputs, args, strict=False):
            buffer = func.buffer_map[param] if param in func.buffer_map else None
            if buffer is None:
                if isinstance(value, (int, bool)):
                    symbols.setdefault(str(param.name), int(value))
                continue
            for extent, size in zip(buffer.shape, getattr(value, "shape", ()), strict=False):
                if hasattr(extent, "name"):
                    symbols.setdefault(str(extent.name), int(size))
            for extent, size in zip(buffer.strides, value.stride() if hasattr(value, "stride") else (), strict=False):
                if hasattr(extent, "name"):
                    symbols.setdefault(str(extent.name), int(size))
            array = _values(value)
            if array is not None:
                self.entry["arrays"].setdefault(str(buffer.name), array)
        made = []
        for i in self.out_idx:
            buffer = func.buffer_map[func.params[i]]
            shape = [int(e) if not hasattr(e, "name") else symbols.get(str(e.name), 1) for e in map(_fold, buffer.shape)]
            made.append(torch.empty(shape, dtype=_torch_dtype(str(buffer.dtype))))
        return made[0] if len(made) == 1 else tuple(made) if made else None

    def get_profiler(self, *args: Any, **kwargs: Any) -> Any:
        """A profiler that measures nothing."""
        return types.SimpleNamespace(do_bench=lambda *a, **k: 1.0, assert_allclose=lambda *a, **k: None,
                                     run_once=lambda *a, **k: None, _get_inputs=lambda *a, **k: [],
                                     assert_consistent=lambda *a, **k: None, func=self, __call__=self)

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """No source."""
        return ""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def _fold(e: Any) -> Any:
    return int(e.value) if hasattr(e, "value") else e if hasattr(e, "name") else 1


def _torch_dtype(name: str) -> Any:
    import torch

    name = {"bool": "bool", "float8_e4m3": "float8_e4m3fn"}.get(name, name)
    found = getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else torch.uint8


def _values(tensor: Any) -> Any:
    """The contents of an integer tensor, if it is real or a constant that FakeTensorMode still knows."""
    import torch

    if not isinstance(tensor, torch.Tensor) or tensor.is_floating_point() or tensor.numel() > 1 << 22:
        return None
    constant = getattr(tensor, "constant", None) if hasattr(tensor, "fake_mode") else tensor
    if constant is None:
        return None
    with contextlib.suppress(Exception):
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        with unset_fake_temporarily():
            return constant.detach().cpu().numpy().astype(np.int64)
    return None


def _install(arch: str, recorder: Recorder) -> None:
    """Replace what needs a GPU."""
    import tilelang
    import tilelang.autotuner.tuner as tuner
    import tilelang.profiler
    import torch

    capability = {"sm_90a": (9, 0), "sm_80": (8, 0), "sm_100a": (10, 0)}[arch]
    cuda: Any = torch.cuda
    name = {"sm_90a": "NVIDIA H100 80GB HBM3", "sm_80": "NVIDIA A100-SXM4-80GB", "sm_100a": "NVIDIA B200"}[arch]
    sms = {"sm_90a": 132, "sm_80": 108, "sm_100a": 148}[arch]
    properties = types.SimpleNamespace(name=name, major=capability[0], minor=capability[1], multi_processor_count=sms,
                                       total_memory=80 << 30, warp_size=32, L2_cache_size=50 << 20,
                                       shared_memory_per_block_optin=232448 if capability[0] > 8 else 166912,
                                       max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536)
    fakes = {"is_available": True, "current_device": 0, "device_count": 1, "get_device_capability": capability,
             "get_device_name": name, "get_device_properties": properties, "synchronize": None, "empty_cache": None,
             "manual_seed_all": None, "manual_seed": None, "set_device": None, "init": None,
             "mem_get_info": (80 << 30, 80 << 30), "reset_peak_memory_stats": None, "max_memory_allocated": 0}
    for key, value in fakes.items():
        setattr(cuda, key, lambda *a, _v=value, **k: _v)
    event = types.SimpleNamespace(record=lambda *a: None, synchronize=lambda: None, elapsed_time=lambda other: 1.0)
    cuda.Event = lambda *a, **k: event
    cuda.device = lambda *a, **k: contextlib.nullcontext()
    cuda.get_rng_state, cuda.set_rng_state = torch.get_rng_state, lambda *a, **k: None
    torch.cpu.get_rng_state, torch.cpu.set_rng_state = torch.get_rng_state, lambda *a, **k: None  # type: ignore[attr-defined]
    torch.Generator = type("Generator", (), {"__new__": lambda cls, *a, _real=torch.Generator, **k: _real()})  # type: ignore
    extensions = types.ModuleType("torch.utils.cpp_extension")
    extensions.load = extensions.load_inline = Anything()  # type: ignore[attr-defined]
    sys.modules["torch.utils.cpp_extension"] = extensions
    sys.modules["tilelang.jit"].compile = recorder.compile  # type: ignore[attr-defined]
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("tilelang") and getattr(module, "compile", None) is tilelang.compile:
            module.compile = recorder.compile  # type: ignore[attr-defined]
    tilelang.compile = recorder.compile
    sys.modules["tilelang.jit"].par_compile = lambda funcs, *a, **k: [  # type: ignore[attr-defined]
        recorder.compile(f, *a, **{x: y for x, y in k.items() if x == "pass_configs"}) for f in list(funcs)[:1]]

    def bench(fn: Any, *args: Any, **kwargs: Any) -> float:
        fn()
        return 1.0

    for holder in (tilelang.profiler, sys.modules.get("tilelang.profiler.bench")):
        if holder is not None:
            holder.do_bench = bench  # type: ignore[attr-defined]

    def first(configs: Any, args: Any = (), kwargs: Any = None) -> dict[str, Any]:
        if callable(configs):
            try:
                configs = configs(*args, **(kwargs or {}))
            except TypeError:
                configs = configs()
        return dict(next(iter(configs), {}))

    def tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        only = kwargs.pop("__return_kernel", False)
        names = list(self.jit_impl.signature.parameters)
        config = {k: v for k, v in first(self.configs, args, kwargs).items() if k in names[len(args):]}
        merged = {**config, **kwargs}
        return self.jit_impl.compile(*args, **merged) if only else self.jit_impl(*args, **merged)

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = first(self.configs)
        made = self.fn(**config)
        own = getattr(self, "compile_args", None)
        kernel = made if isinstance(made, StubKernel) else recorder.compile(
            made, getattr(own, "out_idx", None), pass_configs=getattr(own, "pass_configs", None))
        kernel.config = config
        return kernel

    import tilelang.utils.device as device

    device.get_current_device = lambda *a, **k: torch.device("cpu")
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("tilelang") and hasattr(module, "get_current_device"):
            module.get_current_device = device.get_current_device  # type: ignore[attr-defined]
    torch.accelerator.current_device_index = lambda: 0
    torch.accelerator.is_available = lambda: True
    sys.meta_path.append(_Absent())
    tuner.AutoTuneImpl.__call__ = tuned  # type: ignore[method-assign]
    tuner.AutoTuner.run = run  # type: ignore[method-assign]
    torch.testing.assert_close = lambda *a, **k: None
    torch.allclose = lambda *a, **k: True  # type: ignore[assignment]
    torch.equal = lambda *a, **k: True  # type: ignore[assignment]
    torch.compile = lambda f=None, *a, **k: f if f is not None else (lambda g: g)  # type: ignore[assignment]
    torch.Tensor.cuda = lambda self, *a, **k: self  # type: ignore[assignment,method-assign]


class _Absent:
    """Finds packages that are not installed and that examples only compare themselves with: anything may be asked of them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] not in ABSENT:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        known = {"cdiv": lambda a, b: -(-a // b), "next_power_of_2": lambda n: 1 << (n - 1).bit_length()} \
            if spec.name == "triton" else {}  # the sizes of outputs
        return Anything(__path__=[], __name__=spec.name, __file__="/absent", __version__="0", __spec__=spec, **known)

    def exec_module(self, module: Any) -> None:
        """Nothing to run."""


def _cpu_mode() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    class Cpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.device and args and isinstance(args[0], int):
                return func("cpu")
            return func(*map(_cpu, args), **{k: _cpu(v) for k, v in (kwargs or {}).items()})

    return Cpu()


def _cpu(value: Any) -> Any:
    import torch

    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value


def _entries(module: dict[str, Any]) -> list[Any]:
    """Functions of an example that take no argument it does not default, in the order of ENTRIES."""
    found = []
    for prefix in ENTRIES:
        for name, thing in module.items():
            if (name == prefix or (prefix.endswith("_") and name.startswith(prefix))) and inspect.isfunction(thing) \
                    and thing not in found:
                needed = [p for p in inspect.signature(thing).parameters.values()
                          if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
                if not needed:
                    found.append(thing)
    return found


class Late(BaseException):
    """The example ran too long; not an Exception, so that it cannot catch it."""


def _late(*_: Any) -> None:
    raise Late


def harvest(path: Path, arch: str, fake: bool, seconds: float) -> tuple[Recorder, list[str]]:
    """Run one example for so many seconds at most. Returns what it compiled and the exceptions on the way."""
    recorder, problems = Recorder(), []
    signal.signal(signal.SIGALRM, _late)
    _install(arch, recorder)
    from gtsim.frontend.tilelang.capture import make_target, target_context

    os.chdir(path.parent)
    sys.path[:0] = [str(path.parent), *[str(p) for p in path.parents if p.name == "examples"]]
    sys.argv = [str(path)]
    modes = contextlib.ExitStack()
    with modes, target_context(make_target(arch)):
        modes.enter_context(_cpu_mode())
        if fake:
            from torch._subclasses import fake_tensor
            from torch._subclasses.fake_tensor import FakeTensorMode

            fake_tensor.CONSTANT_NUMEL_LIMIT = 1 << 20  # remember the values of all tensors made from constants
            modes.enter_context(FakeTensorMode(allow_non_fake_inputs=True))

        def attempt(what: str, call: Any) -> Any:
            try:
                return call()
            except (Exception, SystemExit) as e:  # noqa: BLE001  examples may do anything
                problems.append(f"{what}: {type(e).__name__}: {str(e).strip().splitlines()[-1][:160] if str(e).strip() else ''}")
                return None

        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            module = attempt("import", lambda: runpy.run_path(str(path), run_name="zoo_example"))
            for entry in _entries(module or {}):
                attempt(entry.__name__, entry)
            if not recorder.kernels:
                attempt("script", lambda: runpy.run_path(str(path), run_name="__main__"))
        except Late:
            problems.append(f"more than {seconds:.0f} s")
        signal.setitimer(signal.ITIMER_REAL, 0)
    return recorder, problems


def judge(func: Any, configs: dict[str, Any], arch: str, captured: Path) -> dict[str, Any]:
    """Leave the IR at the capture point; say whether TileLang's own pipeline takes the kernel to CUDA source."""
    import tilelang
    from gtsim.frontend import capture
    from gtsim.frontend.tilelang.capture import make_target, plain_configs
    from tilelang import tvm
    from tilelang.transform.pass_config import normalize_pass_configs

    configs = {k: v for k, v in configs.items() if v is not None}
    verdict: dict[str, Any] = {"lowers": False}
    try:
        leave(captured, tvm.ir.save_json(capture(func, arch, configs).module))
    except Exception as e:  # noqa: BLE001  counts against gtsim if TileLang lowers the kernel
        verdict["capture"] = f"{type(e).__name__}: {str(e)[:500]}"
    start = time.perf_counter()
    try:
        target = make_target(arch)
        with target, tilelang.transform.PassContext(opt_level=3, config=normalize_pass_configs(plain_configs(configs)) or {}):
            verdict["lowers"] = bool(tilelang.lower(func, target=target).kernel_source)
    except Exception as e:  # noqa: BLE001  whatever the compiler says is the verdict
        verdict["error"] = str(e).strip().splitlines()[-1][:300] if str(e).strip() else type(e).__name__
    verdict["seconds"] = round(time.perf_counter() - start, 2)
    return verdict


def save(path: Path, arch: str, out: Path, kernels: Path, *, fake: bool = True, seconds: float = 60.0) -> None:
    """Harvest one example into the folder `out`: `KEY.json` and `KEY.npz` a kernel, then `problems.txt`. TileLang's verdicts go
    to `kernels`: they are asked for here, because a kernel does not survive being written and read (its layouts do not)."""
    out.mkdir(parents=True, exist_ok=True)
    kernels.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with contextlib.redirect_stdout(sys.stderr):
        recorder, problems = harvest(path, arch, fake, seconds)
    problems.append(f"took {time.monotonic() - start:.1f} s")
    for key, entry in recorder.kernels.items():
        func, verdict = entry.pop("func"), kernels / f"{key}.verdict.json"
        if not verdict.exists():
            task = guarded(judge, verdict, func, entry["configs"], arch, kernels / f"{key}.captured.json")
            for _, problem in pool([task], 10 * seconds, 1):
                if problem:
                    leave(verdict, json.dumps({"lowers": False, "error": problem}))
        np.savez_compressed(out / f"{key}.npz", **entry.pop("arrays"))
        leave(out / f"{key}.json", json.dumps({**entry, "example": str(path), "arch": arch, "key": key}, default=str))
    leave(out / "problems.txt", "\n".join(problems))


if __name__ == "__main__":
    save(Path(sys.argv[1]).resolve(), sys.argv[2], *(Path(a).resolve() for a in sys.argv[3:5]), fake="--real" not in sys.argv[5:])
    os._exit(0)  # examples may leave threads behind
