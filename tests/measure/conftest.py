"""A GPU that is not there: it takes what the test says, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gtsim.cli import run
from gtsim.errors import DeviceError
from gtsim.measure import Clocks, Gpu, Samples
from gtsim.measure.inputs import Argument

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MIB = 1 << 20


@dataclass
class FakeDevice:
    """Times that stand for a GPU's; `fails` is what its compiler says."""

    times_us: Sequence[float] = (100.0, 101.0, 102.0, 103.0, 104.0)
    clocks: Clocks = field(default_factory=lambda: Clocks(1500.0, 1500.0))
    gpu: Gpu = field(default_factory=lambda: Gpu("NVIDIA H200", "sm_90a", 132, 50 * MIB, "570.86"))
    n_kernels: int = 1
    fails: str = ""
    notes: tuple[str, ...] = ()
    versions = {"tilelang": "0.1.15"}
    arguments: Sequence[Argument] = ()
    asked: dict[str, Any] = field(default_factory=dict)

    def compile(self, prim_func: Any, arguments: Sequence[Argument], pass_configs: Any, seed: int) -> FakeDevice:
        if self.fails:
            raise DeviceError(self.fails)
        self.arguments, self.asked = arguments, {"seed": seed, "pass_configs": dict(pass_configs)}
        return self

    def run(self, *, warmup: int, repeats: int, cold: bool, timer: Any) -> Samples:
        self.asked |= {"warmup": warmup, "repeats": repeats, "cold": cold, "timer": timer}
        return Samples(self.times_us, self.n_kernels, timer, self.clocks, 2 * self.gpu.l2_bytes if cold else 0, self.notes)


@dataclass
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run `gtsim` in this process."""

    def execute(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return execute


@pytest.fixture
def measure_on(monkeypatch: pytest.MonkeyPatch, command: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """`gtsim measure` of a small GEMM on a fake device."""

    def execute(device: FakeDevice, *options: object, kernel: str = "gemm.py") -> Outcome:
        monkeypatch.setattr("gtsim.measure.cuda_device.open_device", lambda: device)
        size = ("--arg", "M=256", "--arg", "N=128", "--arg", "K=192") if kernel == "gemm.py" else ()
        return command("measure", EXAMPLES / kernel, *size, *options)

    return execute
