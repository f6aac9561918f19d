"""The device itself, with a PyTorch that only remembers: what is launched in which order, and what becomes of its times."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from gtsim.errors import DeviceError
from gtsim.measure import cuda_device
from gtsim.measure.clocks import Reading
from gtsim.measure.cuda_device import CudaKernel

FLUSH_BYTES = 100


class FakeTorch:
    """Counts microseconds: a flush takes 50, the kernel 10 and its helper 2; `records` says whether the profiler sees them."""

    def __init__(self, records: bool = True) -> None:
        self.log: list[str] = []
        self.now_us = 0
        self.records = records
        self.kernels: list[SimpleNamespace] = []
        outer = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at_us = outer.now_us

            def elapsed_time(self, end: Event) -> float:
                return (end.at_us - self.at_us) / 1000

        @contextlib.contextmanager
        def profile(activities):
            assert activities == ["cuda"]
            outer.kernels.clear()
            results = SimpleNamespace(events=lambda: outer.kernels[::-1] if outer.records else [])
            yield SimpleNamespace(profiler=SimpleNamespace(kineto_results=results))

        self.cuda = SimpleNamespace(synchronize=lambda: self.log.append("wait"), Event=Event)
        self.profiler = SimpleNamespace(profile=profile, ProfilerActivity=SimpleNamespace(CUDA="cuda"))
        self.flush = SimpleNamespace(zero_=lambda: self.launch("flush", 50), numel=lambda: FLUSH_BYTES)

    def launch(self, name: str, us: int) -> None:
        self.log.append(name)
        start = 1000 * self.now_us
        self.kernels.append(SimpleNamespace(name=lambda: name, start_ns=lambda: start, duration_ns=lambda: 1000 * us))
        self.now_us += us

    def kernel(self, clock=lambda: Reading(1500.0)) -> CudaKernel:
        def call() -> None:
            self.launch("helper", 2)
            self.launch("main", 10)

        def read() -> Reading:
            self.log.append("clock")
            return clock()

        return CudaKernel(self, call, frozenset({"main", "helper"}), self.flush, read)


def test_each_run_is_flushed_and_clocks_are_read_behind_launches() -> None:
    torch = FakeTorch()
    made = torch.kernel().run(warmup=1, repeats=2, cold=True, timer="kernel")
    run = ["flush", "helper", "main"]
    assert torch.log == ["helper", "main", "wait", *run, "clock", "wait", *run, *run, "clock", "wait"]
    assert (made.times_us, made.n_kernels, made.timer, made.flush_bytes) == ([12.0, 12.0], 2, "kernel", FLUSH_BYTES)
    assert (made.clocks.before_mhz, made.clocks.after_mhz) == (1500.0, 1500.0)


def test_warm_runs_are_not_flushed() -> None:
    torch = FakeTorch()
    made = torch.kernel().run(warmup=1, repeats=2, cold=False, timer="events")
    assert "flush" not in torch.log and made.flush_bytes == 0
    assert list(made.times_us) == [12.0, 12.0]


def test_events_leave_the_flush_out() -> None:
    made = FakeTorch().kernel().run(warmup=0, repeats=3, cold=True, timer="events")
    assert list(made.times_us) == [12.0, 12.0, 12.0] and made.timer == "events" and made.n_kernels == 0


def test_without_records_events_are_used_and_it_is_said() -> None:
    made = FakeTorch(records=False).kernel().run(warmup=0, repeats=3, cold=True, timer="kernel")
    assert list(made.times_us) == [12.0, 12.0, 12.0] and made.timer == "events" and "CUPTI" in made.notes[0]


def test_limits_of_both_readings_are_kept() -> None:
    readings = iter([Reading(1500.0, ("power cap",)), Reading(1400.0, ("power cap", "temperature"))])
    made = FakeTorch().kernel(lambda: next(readings)).run(warmup=0, repeats=1, cold=True, timer="kernel")
    assert made.clocks.limits == ("power cap", "temperature") and made.clocks.after_mhz == 1400.0


def test_a_kernel_that_fails_on_the_gpu_is_one_line() -> None:
    def fails() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA\n")

    torch = FakeTorch()
    with pytest.raises(DeviceError) as raised:
        CudaKernel(torch, fails, frozenset(), torch.flush, Reading).run(warmup=0, repeats=1, cold=True, timer="kernel")
    assert str(raised.value) == "the kernel failed on the GPU: CUDA error: an illegal memory access was encountered"


def test_a_pytorch_that_cannot_use_the_gpu_is_one_line(monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(cuda_device, "require_gpu", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="cannot use this machine's GPU"):
        cuda_device.open_device()
