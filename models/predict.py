"""From a model and a workload to the time of every launch: one layer in steady operation, times the layers, and the head."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..backend import DeviceMemory, Result
from ..graph import KernelGraph
from ..hwconfigs import Hardware
from ..predictor import Options, lower, simulate_graph
from .config import ModelConfig
from .layer import Call, Workload, head_calls, layer_calls
from .routing import balanced

#: Version of the dictionary that :meth:`ModelPrediction.to_dict` returns; documented in docs/models.md.
MODEL_SCHEMA = 1
TOTALS = ("cycles", "time_us", "layer_us", "head_us", "gap_us", "floor_us", "tokens_per_s")
#: Layers that are simulated; the last of them is reported.
WARM_LAYERS = 2
#: Blocks of L2 contents that are kept for launches to come, 20 bytes each.
MOST_BLOCKS = 5_000_000
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Step:
    """One launch of the layer or the head.

    Attributes:
        name: what it does.
        result: what was simulated.
    """

    name: str
    result: Result

    def to_dict(self) -> dict[str, Any]:
        """The figures of the launch."""
        r = self.result
        return {"name": self.name, "kernel": r.kernel, "cycles": r.cycles, "time_us": r.time_us, "bound_by": r.bound_by,
                "flops": r.flops, "ctas": r.ctas, "dram_read_bytes": r.traffic.dram_read_bytes,
                "dram_written_bytes": r.traffic.dram_written_bytes, "l2_hit_rate": r.traffic.l2_hit_rate}  # fmt: skip


@dataclass(frozen=True)
class ModelPrediction:
    """What gtsim expects of one pass of a model: all tokens of a prompt (prefill), or one new token a sequence (decode).

    Attributes:
        model, work: what was asked.
        hw: the GPU.
        layer: launches of one layer, in order, in steady operation.
        head: last norm and language-model head.
        gap_us: idle time between two launches, `launch.gap_us` of the hardware file.
    """

    model: ModelConfig
    work: Workload
    hw: Hardware
    layer: tuple[Step, ...]
    head: tuple[Step, ...]
    gap_us: float

    @property
    def layer_us(self) -> float:
        """One layer, with a gap behind each launch."""
        return sum(s.result.time_us + self.gap_us for s in self.layer)

    @property
    def head_us(self) -> float:
        """The head, with a gap between its launches."""
        return sum(s.result.time_us for s in self.head) + self.gap_us * (len(self.head) - 1)

    @property
    def time_us(self) -> float:
        """The pass: all layers and the head."""
        return self.model.num_hidden_layers * self.layer_us + self.head_us

    @property
    def cycles(self) -> int:
        """The same in SM cycles."""
        return round(self.time_us * self.layer[0].result.clock_mhz)

    @property
    def tokens_per_s(self) -> float:
        """New tokens over the time."""
        return self.work.rows / self.time_us * 1e6

    @property
    def floor_us(self) -> float:
        """What reading the weights and the cache once takes at the peak bandwidth of the memory."""
        return compulsory_bytes(self.model, self.work) / self.hw.dram.peak_gbs / 1e3

    def to_dict(self) -> dict[str, Any]:
        """Plain data, described in docs/models.md."""
        work = {"phase": self.work.phase, "batch": self.work.batch, "kv": self.work.kv, "dtype": self.work.dtype}
        first = self.layer[0].result
        return {
            "schema": MODEL_SCHEMA,
            "model": self.model.name,
            "layers": self.model.num_hidden_layers,
            "hardware": self.hw.name,
            "clock_mhz": first.clock_mhz,
            "fidelity": first.fidelity,
            **work,
            **{key: getattr(self, key) for key in TOTALS},
            "layer": [s.to_dict() for s in self.layer],
            "head": [s.to_dict() for s in self.head],
        }


def compulsory_bytes(model: ModelConfig, work: Workload) -> int:
    """Weights that a pass reads at least once (of the experts those that have rows), and in decode the cache."""
    weights = model.layer_parameters
    if model.experts:
        counts = balanced(work.rows, model.num_experts_per_tok, model.experts) if work.routing is None else work.routing
        weights -= 3 * model.hidden_size * model.moe_intermediate_size * sum(n == 0 for n in counts)
    cache = model.cache_elements(work.batch, work.kv) if work.phase == "decode" else 0
    return 2 * (model.num_hidden_layers * weights + model.head_parameters + cache)


def memory_bytes(model: ModelConfig, work: Workload) -> int:
    """Weights and cache of the whole model, which device memory has to hold."""
    return 2 * (model.parameters + model.cache_elements(work.batch, work.kv))


@dataclass
class Predictor:
    """Predicts models on one GPU, and keeps what it lowered and simulated: launches of one shape are lowered once, and simulated
    once where they find the same in the L2.

    Attributes:
        options: hardware, overrides, fidelity, clock, threads.
    """

    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        """Load the hardware. Raises HardwareError."""
        self.hw = self.options.hardware()
        self._graphs: dict[str, KernelGraph] = {}
        self._results: dict[tuple[str, ...], Result] = {}
        self._kept = 0  # blocks of L2 contents in `_results`

    def predict(self, model: ModelConfig, work: Workload, progress: Progress | None = None) -> ModelPrediction:
        """One pass of `model`. Two layers and the head are simulated, each launch with what those before left in the L2.

        Raises:
            UsageError: a routing that does not fit.
            SimulationError, FrontendError: a kernel does not run on this GPU.
        """
        layers = [layer_calls(model, work, self.hw, n) for n in range(WARM_LAYERS)]
        head = head_calls(model, work, self.hw)
        calls = [*(c for layer in layers for c in layer), *head]
        steps: list[Step] = []
        memory = DeviceMemory() if self.hw.l2.carried else None
        for i, call in enumerate(calls):

            def report(share: float, done: int = i) -> None:
                if progress is not None:
                    progress((done + share) / len(calls))

            report(0.0)
            result = self.run(call, memory, report)
            memory = result.memory
            steps.append(Step(call.name, replace(result, memory=None, schedule=None)))
        last = len(steps) - len(head)
        return ModelPrediction(model, work, self.hw, tuple(steps[last - len(layers[-1]) : last]), tuple(steps[last:]),
                               self.hw.launch.gap_us)

    def run(self, call: Call, memory: DeviceMemory | None = None, progress: Progress | None = None) -> Result:
        """Simulate one launch with what `memory` says is in the L2; without, as the hardware file has it."""
        shape = _shape(call)
        graph = self._lowered(shape, call)
        own = {b.name for b in graph.buffers if b.scope == "global"}
        tensors = {parameter: name for parameter, name in call.tensors.items() if parameter in own}
        key = (shape,) if memory is None else (shape, repr(sorted(tensors.items())), memory.digest)
        if key in self._results:
            return self._results[key]
        result = simulate_graph(graph, self.options, progress, None, memory, tensors if memory is not None else None).result
        self._results[key] = result
        self._kept += _blocks(result)
        while self._kept > MOST_BLOCKS:  # the oldest go first
            self._kept -= _blocks(self._results.pop(next(iter(self._results))))
        return result

    def _lowered(self, shape: str, call: Call) -> KernelGraph:
        if shape not in self._graphs:
            module, _, function = call.kernel.partition(":")
            factory = getattr(importlib.import_module(f"{__package__}.kernels.{module}"), function)
            self._graphs[shape] = lower(factory, (), call.arguments, hw=self.hw, metadata=call.metadata)
        return self._graphs[shape]


def _blocks(result: Result) -> int:
    """Blocks, or lines, of the L2 contents that a result holds."""
    return 0 if result.memory is None or result.memory.l2 is None else len(result.memory.l2.keys)


def _shape(call: Call) -> str:
    """What makes two launches the same kernel."""
    found = hashlib.sha256(repr((call.kernel, sorted(call.arguments.items()))).encode())
    for name, array in sorted(call.metadata.items()):
        found.update(name.encode() + array.tobytes())
    return found.hexdigest()


def workloads(phase: str, batches: Sequence[int], lengths: Sequence[int], dtype: str, routing: Sequence[int] | None,
              ) -> list[Workload]:  # fmt: skip
    """Every batch with every length. Raises UsageError for values out of range."""
    return [Workload(phase, b, kv, dtype, routing) for b in batches for kv in lengths]


def shares(made: ModelPrediction) -> Mapping[str, float]:
    """Microseconds of the whole pass by kernel, the head as one, and the gaps; they add up to `time_us`."""
    n = made.model.num_hidden_layers
    out: dict[str, float] = {}
    for step in made.layer:
        out[step.name] = out.get(step.name, 0.0) + n * step.result.time_us
    out["head"] = sum(s.result.time_us for s in made.head)
    out["gaps"] = made.time_us - sum(out.values())
    return out
