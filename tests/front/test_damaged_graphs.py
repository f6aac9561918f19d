"""Graph files that are whole zip archives with wrong contents: one of our errors, or a result, never anything else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gtsim
from gtsim.errors import USER_ERRORS

JUNK = [None, -1, 0, 1, 2**40, "x", [], {}, 1.5, True, float("nan"), [1], ["x"]]


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, of long lists the first ones."""
    children = value.items() if isinstance(value, dict) else enumerate(value[:6]) if isinstance(value, list) else ()
    for key, child in children:
        yield (*at, key)
        yield from paths(child, (*at, key))


@pytest.fixture(scope="module")
def stored(make_gemm, tmp_path_factory) -> tuple[Path, dict[str, Any], dict[str, np.ndarray]]:
    path = tmp_path_factory.mktemp("graphs") / "gemm.npz"
    gtsim.save_graph(make_gemm(2, 2), path)
    with np.load(path) as data:
        arrays = {name: data[name] for name in data.files}
    return path, json.loads(bytes(arrays.pop("header")).decode()), arrays


def outcome(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
    try:
        gtsim.simulate(gtsim.load_graph(path), "h100_sxm")
    except USER_ERRORS as error:
        assert str(error)


QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(data=st.data())
def test_any_header(stored, data: st.DataObject) -> None:
    path, header, arrays = stored
    damaged = copy.deepcopy(header)
    *parents, last = data.draw(st.sampled_from(list(paths(header))))
    place = damaged
    for key in parents:
        place = place[key]
    value = data.draw(st.sampled_from([*JUNK, "delete"]))
    if value == "delete":
        del place[last]
    else:
        place[last] = value
    outcome(path, damaged, arrays)


@QUICK
@given(data=st.data())
def test_any_array(stored, data: st.DataObject) -> None:
    path, header, arrays = stored
    name = data.draw(st.sampled_from(sorted(n for n, a in arrays.items() if a.size)))
    array = arrays[name].copy()
    at = data.draw(st.integers(0, array.size - 1))
    integer = array.dtype.kind in "iu"
    low, high = (int(np.iinfo(array.dtype).min), int(np.iinfo(array.dtype).max)) if integer else (0, 1)
    array.reshape(-1)[at] = data.draw(st.integers(low, high))
    outcome(path, header, {**arrays, name: array})
