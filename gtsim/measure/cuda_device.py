"""The machine's own GPU: compiled by TileLang, run by PyTorch. The only file that needs a GPU."""

from __future__ import annotations

import ctypes
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import DeviceError
from .clocks import ClockReader, clock_reader
from .device import Clocks, Gpu, Samples, Timer
from .inputs import Argument

_NO_RECORDS = "the profiler (CUPTI) reports no kernels here: timed by CUDA events, launch included"
_GLOBAL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\s*\(")


def require_gpu() -> None:
    """Refuse, quickly and without loading PyTorch, to go on without a GPU. Raises DeviceError."""
    fix = "gtsim measure times kernels on this machine's own GPU; gtsim predict needs none."
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise DeviceError(f"no GPU here: the NVIDIA driver (libcuda.so.1) is not installed. {fix}") from None
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        raise DeviceError(f"no GPU here: the NVIDIA driver finds none (status {status}). {fix}")


def open_device() -> CudaDevice:
    """The first GPU that CUDA_VISIBLE_DEVICES leaves. Raises DeviceError if there is none, or PyTorch cannot use it."""
    require_gpu()
    try:
        import torch
    except ImportError:
        raise DeviceError("PyTorch is not installed. Measuring needs a CUDA build of it: pip install torch.") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usable = torch.cuda.is_available()
    if not usable:
        build = "CUDA " + torch.version.cuda if torch.version.cuda else "a CPU build"
        raise DeviceError(f"PyTorch {torch.__version__} ({build}) cannot use this machine's GPU. Install a build for its driver.")
    return CudaDevice(torch)


@contextmanager
def _as_device_error(what: str) -> Iterator[None]:
    """Turn whatever PyTorch, TileLang or the driver raise into one line."""
    try:
        yield
    except DeviceError:
        raise
    except Exception as error:
        said = [line for line in str(error).splitlines() if re.search("[A-Za-z]{3}", line)]
        wrong = [line for line in said if "error" in line.lower()] or said or [type(error).__name__]
        raise DeviceError(f"{what}: {' '.join(wrong[0].split())[:300]}") from error


class CudaDevice:
    """PyTorch's current GPU."""

    def __init__(self, torch: Any) -> None:
        import tilelang

        self._torch = torch
        with _as_device_error("the GPU cannot be opened"):
            about = torch.cuda.get_device_properties(torch.cuda.current_device())
            arch = f"sm_{about.major}{about.minor}{'a' if about.major >= 9 else ''}"
            l2_bytes, uuid = int(about.L2_cache_size), str(about.uuid)
        self.gpu = Gpu(str(about.name), arch, int(about.multi_processor_count), l2_bytes, _driver_version())
        self.versions: Mapping[str, str] = {"tilelang": str(tilelang.__version__), "torch": str(torch.__version__),
                                            "cuda": str(torch.version.cuda)}
        self._clock = clock_reader(f"GPU-{uuid}")

    def compile(self, prim_func: Any, arguments: Sequence[Argument], pass_configs: Mapping[str, Any], seed: int) -> CudaKernel:
        """Compile with TileLang for this GPU; inputs are made from `seed`."""
        import tilelang

        from ..frontend.tilelang.capture import make_target, target_context

        target = make_target(self.gpu.arch)
        with _as_device_error("TileLang cannot compile it for this GPU"), target_context(target):
            made = tilelang.compile(prim_func, target=target, pass_configs=dict(pass_configs) or None)
        names = frozenset(_GLOBAL.findall(str(made.get_kernel_source())))
        with _as_device_error("its inputs do not fit the GPU"):
            generator = self._torch.Generator(device="cuda").manual_seed(seed)
            inputs = [_filled(self._torch, a, generator) for a in arguments]
            flush = self._torch.empty(2 * self.gpu.l2_bytes, dtype=self._torch.int8, device="cuda")
        return CudaKernel(self._torch, lambda: made(*inputs), names, flush, self._clock)


class CudaKernel:
    """A compiled kernel with its inputs."""

    def __init__(self, torch: Any, call: Callable[[], Any], names: frozenset[str], flush: Any, clock: ClockReader) -> None:
        self._torch, self._call, self._names, self._flush, self._clock = torch, call, names, flush, clock

    def run(self, *, warmup: int, repeats: int, cold: bool, timer: Timer) -> Samples:
        """Clocks are read right behind the launches, not after them: the clock of an idle GPU says nothing."""
        with _as_device_error("the kernel failed on the GPU"):
            self._call()
            self._torch.cuda.synchronize()
            for _ in range(warmup):
                self._once(cold)
            before = self._clock()
            self._torch.cuda.synchronize()
            notes: tuple[str, ...] = ()
            if timer == "kernel":
                times, kernels, after = self._profiled(repeats, cold)
                if not times:
                    timer, notes = "events", (_NO_RECORDS,)
            if timer == "events":
                times, after = self._by_events(repeats, cold)
                kernels = 0
        limits = tuple(dict.fromkeys((*before.limits, *after.limits)))
        return Samples(times, kernels, timer, Clocks(before.mhz, after.mhz, limits), self._flush.numel() if cold else 0, notes)

    def _once(self, cold: bool) -> None:
        if cold:
            self._flush.zero_()
        self._call()

    def _by_events(self, repeats: int, cold: bool) -> tuple[list[float], Any]:
        event = self._torch.cuda.Event
        pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(repeats)]
        for start, end in pairs:
            if cold:
                self._flush.zero_()
            start.record()
            self._call()
            end.record()
        after = self._clock()
        self._torch.cuda.synchronize()
        return [1000.0 * start.elapsed_time(end) for start, end in pairs], after

    def _profiled(self, repeats: int, cold: bool) -> tuple[list[float], int, Any]:
        """Kernel time of each run, and kernels a run; no times if the profiler has no records of this kernel."""
        profiler = self._torch.profiler
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
                for _ in range(repeats):
                    self._once(cold)
                after = self._clock()
                self._torch.cuda.synchronize()
        records = [(_start_ns(e), _duration_ns(e)) for e in profile.profiler.kineto_results.events() if e.name() in self._names]
        return (*per_run([ns for _, ns in sorted(records)], repeats), after)


def per_run(durations_ns: Sequence[int], repeats: int) -> tuple[list[float], int]:
    """Kernel times in launch order as time a run, us, and kernels a run; no times if they do not share out over the runs."""
    kernels, rest = divmod(len(durations_ns), repeats)
    if rest or not kernels:
        return [], 0
    return [sum(durations_ns[i * kernels:(i + 1) * kernels]) / 1000 for i in range(repeats)], kernels


def _start_ns(event: Any) -> int:
    return int(event.start_ns()) if hasattr(event, "start_ns") else 1000 * int(event.start_us())


def _duration_ns(event: Any) -> int:
    return int(event.duration_ns()) if hasattr(event, "duration_ns") else 1000 * int(event.duration_us())


def torch_dtype(torch: Any, argument: Argument) -> Any:
    """PyTorch's type for an argument's elements. Raises DeviceError if it has none."""
    name = {"tfloat32": "float32", "float8_e4m3": "float8_e4m3fn"}.get(argument.dtype, argument.dtype)
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise DeviceError(f"{argument.name}: PyTorch {torch.__version__} has no element type {argument.dtype}.")
    return found


def _filled(torch: Any, argument: Argument, generator: Any, device: str = "cuda") -> Any:
    """A tensor on the GPU, or a number. Raises DeviceError."""
    if argument.shape is None:
        return argument.value
    dtype = torch_dtype(torch, argument)
    if argument.fill == "given":
        return torch.from_numpy(np.array(argument.value)).to(device=device, dtype=dtype)
    if argument.fill == "normal":  # PyTorch draws no 8-bit floats; in halves, so that large tensors need little more memory
        drawn = dtype if dtype.itemsize >= 2 else torch.float16
        return torch.randn(argument.shape, generator=generator, device=device, dtype=drawn).to(dtype)
    if argument.fill == "integers":
        low, high = (0, 16) if not dtype.is_signed else (-8, 8)
        return torch.randint(low, high, argument.shape, generator=generator, device=device, dtype=dtype)
    return torch.zeros(argument.shape, device=device, dtype=dtype)


def _driver_version() -> str:
    """The driver's own version, such as "570.86.15"; empty where the kernel module does not tell."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            found = re.search(r"\d{3}\.\d+(?:\.\d+)?", file.read())
    except OSError:
        return ""
    return found[0] if found else ""
