"""What a result must not depend on: the numbering of nodes, how loop bodies are stored, an earlier run, the host's threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gtsim.backend import Result
from gtsim.graph import KernelGraph, Template
from gtsim.graph.model import TEMPLATE_ARRAYS
from hypothesis import given
from hypothesis import strategies as st

from .random_kernels import Case, kernels

#: Host threads that must give bit-identical results.
THREADS = (1, 2, 4, 8)


def facts(result: Result) -> dict[str, Any]:
    """All of a result but host times and what names the graph itself."""
    out = result.to_dict()
    for key in ("seconds", "hashes", "graph", "parameters", "versions"):
        del out[key]
    return out


def renumbered(t: Template, seed: int) -> Template:
    """The same template, its nodes in another order that respects all edges."""
    numbers = np.random.default_rng(seed)
    source, missing = t.edge_src(), np.bincount(t.edge_dst, minlength=t.nodes)
    ready = np.flatnonzero(missing == 0).tolist()
    order: list[int] = []
    while ready:
        order.append(ready.pop(int(numbers.integers(len(ready)))))
        for dst in t.edge_dst[source == order[-1]].tolist():
            missing[dst] -= 1
            if missing[dst] == 0:
                ready.append(dst)
    place = np.argsort(order)
    tiles = np.concatenate([np.arange(t.tile_ptr[i], t.tile_ptr[i + 1]) for i in order]).astype(np.int64)
    edges = np.lexsort((numbers.permutation(t.edges), place[source]))
    arrays: dict[str, Any] = {k: getattr(t, k)[order] for k, (_, s) in TEMPLATE_ARRAYS.items() if s == "nodes"}
    arrays |= {k: getattr(t, k)[tiles] for k, (_, s) in TEMPLATE_ARRAYS.items() if s.startswith("tiles")}
    arrays |= {k: getattr(t, k)[edges] for k, (_, s) in TEMPLATE_ARRAYS.items() if s == "edges"}
    arrays["edge_dst"] = place[arrays["edge_dst"]].astype(np.int32)
    arrays["tile_ptr"] = np.append(0, np.cumsum(np.diff(t.tile_ptr)[order])).astype(np.int32)
    arrays["edge_ptr"] = np.append(0, np.cumsum(np.diff(t.edge_ptr)[order])).astype(np.int32)
    return replace(t, **arrays)


@given(case=kernels(repeats=False), seed=st.integers(0, 99))
def test_the_numbering_of_nodes_does_not_matter(case: Case, seed: int) -> None:
    other = replace(case.graph, templates=tuple(renumbered(t, seed) for t in case.graph.templates))
    assert facts(case.run(other)) == facts(case.run())


@given(case=kernels())
def test_repeats_stored_or_written_out_are_the_same(case: Case) -> None:
    flat: KernelGraph = case.graph.unrolled()
    stored, written = case.run(), case.run(flat)
    assert stored.cycles == written.cycles
    assert stored.traffic == written.traffic
    assert stored.utilization == written.utilization


@given(case=kernels())
def test_the_same_input_gives_the_same_output(case: Case) -> None:
    assert facts(case.run()) == facts(case.run())


@pytest.mark.parametrize("threads", THREADS[1:])
@given(case=kernels())
def test_any_number_of_host_threads_gives_the_same_output(threads: int, case: Case) -> None:
    assert facts(case.run(threads=threads)) == facts(case.run(threads=1))
