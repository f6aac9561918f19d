"""What the engine is given need not come from `compile_program`: whatever it is, it runs or is refused, and nothing else happens.

Under AddressSanitizer and UBSan (.ci/run) this also says that no input leads to undefined behaviour.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gtsim.backend import DeviceMemory, SimulationError, _engine, occupancy, simulate
from gtsim.backend.compile import compile_program
from gtsim.graph import GraphError, load_graph, save_graph
from gtsim.graph.model import TEMPLATE_ARRAYS
from gtsim.hwconfigs import load_hardware
from hypothesis import given
from hypothesis import strategies as st

from .kernels import PLAIN, Kernel
from .random_kernels import Case, kernels

REFUSALS = (ValueError, RuntimeError)
#: Edges of what fits, and small numbers: a loop body may well run a million times, but not within a test.
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 7, 255, 3000, 2**31 - 1, -(2**31), 2**40, 2**45, 2**62, 2**63 - 1, -(2**63)]) \
    | st.integers(-3, 40) | st.integers(2**27, 2**63 - 1)
ANYTHING = st.sampled_from([None, "text", 1.5, float("nan"), 2**70, -(2**70), [], {}, np.zeros(3), b"x",
                            np.zeros((2, 2), dtype=np.int64)])  # fmt: skip


class TooLong(Exception):
    """The run is a long one; that is no fault of it."""


def execute(program: dict[str, Any], observed_sm: int = -1, threads: int = 1) -> None:
    """Run it; stop after some two million events."""
    left = 60

    def progress(done: float) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooLong

    try:
        out = _engine.run(program, observed_sm, threads, progress)
    except TooLong:
        return
    except REFUSALS as error:
        assert str(error)
        return
    assert 0 <= out["ticks"] < 2**62 and out["traffic"].min() >= 0 and out["busy"].min() >= 0
    assert (out["instance_end"] >= out["instance_start"]).all() or out["skipped"]


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    """The input of a random kernel with a few entries changed, cut, swapped, or missing."""
    case: Case = draw(kernels())
    fidelity = case.options["fidelity"]
    memory = draw(st.none() | st.builds(DeviceMemory))
    if memory is not None:
        memory = memory.placed(case.graph)
        with suppress(SimulationError):  # what an earlier run left; its tensors lay where they do, or elsewhere over them
            memory = simulate(case.graph, case.hw, **case.options, memory=memory).memory.placed(case.graph)
            moved = draw(st.sampled_from([0, 0, 2, 32, 256, 1000]))
            memory = replace(memory, addresses={name: (base + moved, size) for name, (base, size) in memory.addresses.items()})
    program, _ = compile_program(case.graph, case.hw, occupancy(case.graph, case.hw), clock_mhz=1800.0,
                                 by_line=fidelity == "line", policy=case.options["policy"], skip=fidelity == "fast",
                                 start=case.early(), memory=memory)
    program = {**program, "l2": dict(program["l2"]), "machine": dict(program["machine"]),
               "tensors": [dict(t) for t in program["tensors"]], "templates": [dict(t) for t in program["templates"]]}
    for _ in range(draw(st.integers(1, 3))):
        part = draw(st.sampled_from([program, program["machine"], program["l2"], *program["tensors"], *program["templates"]])) \
            if all(isinstance(program.get(k), list | dict) for k in ("machine", "l2", "tensors", "templates")) else program
        key = draw(st.sampled_from(sorted(part)))
        value = part[key]
        way = draw(st.integers(0, 9))
        if way == 9:
            del part[key]
        elif way == 8:
            part[key] = draw(ANYTHING)
        elif isinstance(value, int):
            part[key] = draw(NUMBERS)
        elif isinstance(value, np.ndarray):
            part[key] = _changed_array(draw, value, way)
    return program


def _changed_array(draw: st.DrawFn, value: np.ndarray, way: int) -> np.ndarray:
    if not value.size or way == 7:
        return np.append(value, value.dtype.type(draw(st.integers(0, 7))))
    at, other = draw(st.integers(0, value.size - 1)), draw(st.integers(0, value.size - 1))
    out = value.reshape(-1).copy()
    if way < 4:
        limits = np.iinfo(value.dtype)
        out[at] = min(max(draw(NUMBERS), limits.min), limits.max)
    elif way == 4:
        out[at], out[other] = out[other], out[at]
    elif way == 5:
        out[at] = out[other]
    else:
        out = out[: value.size - 1 - at % 4]
    return out


@given(program=changed(), observed_sm=st.sampled_from([-1, 0, 3, 2**31 - 1]), threads=st.sampled_from([1, 1, 1, 2]))
def test_changed_input_runs_or_is_refused(program: dict[str, Any], observed_sm: int, threads: int) -> None:
    execute(program, observed_sm, threads)


@given(case=kernels(), data=st.data())
def test_a_damaged_graph_is_refused_or_runs(case: Case, data: st.DataObject) -> None:
    graph, changed = case.graph, {}
    for name in data.draw(st.lists(st.sampled_from(sorted(TEMPLATE_ARRAYS)), min_size=1, max_size=2)):
        value = getattr(graph.templates[0], name).copy()
        if value.size:
            low, high = (0, 1) if value.dtype == bool else (np.iinfo(value.dtype).min, np.iinfo(value.dtype).max)
            at = data.draw(st.integers(0, value.size - 1))
            value.reshape(-1)[at] = min(max(data.draw(st.integers(-2, 20) | NUMBERS), int(low)), int(high))
            changed[name] = value
    graph = replace(graph, templates=(replace(graph.templates[0], **changed), *graph.templates[1:]))
    with tempfile.TemporaryDirectory() as folder, suppress(GraphError, SimulationError):
        save_graph(graph, Path(folder) / "graph.npz")
        simulate(load_graph(Path(folder) / "graph.npz"), case.hw, start=case.early(), **case.options)


@pytest.mark.parametrize("key", ["machine", "tensors", "templates", "stages", "instance_template", "l2"])
@pytest.mark.parametrize("value", [None, 3, [3], {}, "x"])
def test_parts_that_are_something_else_are_named(key: str, value: Any) -> None:
    kernel = Kernel()
    kernel.work(5)
    graph = kernel.graph()
    hw = load_hardware("h100_sxm", PLAIN)
    program, _ = compile_program(graph, hw, occupancy(graph, hw), clock_mhz=1800.0, by_line=False, policy="gto")
    with pytest.raises(ValueError, match="engine input"):
        _engine.run({**program, key: value})
    del program[key]
    with pytest.raises(ValueError, match=f"engine input {key} is missing"):
        _engine.run(program)
