"""Any number of threads gives the same result: over the examples, as TileLang lowers them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from gtsim.backend import simulate
from gtsim.frontend import lower

from .test_same_kernel import CASES, factory

MORE = [
    ("gemm_persistent", "h100_sxm", {"M": 2048, "N": 2048, "K": 512}),
    ("gemm_cluster", "h100_sxm", {"M": 2048, "N": 2048, "K": 512}),
]


SMALLER = {"rmsnorm": {"M": 300, "N": 4096}, "elementwise": {"M": 1024, "N": 1024}}


@pytest.mark.parametrize("fidelity", ["bulk", "line"])
@pytest.mark.parametrize(("name", "hw", "arguments"), [*CASES, *MORE], ids=lambda v: v if isinstance(v, str) else "")
def test_threads_change_nothing(name: str, hw: str, arguments: dict[str, Any], fidelity: str) -> None:
    arguments = SMALLER.get(name, arguments)
    graph = lower(factory(name), kwargs=arguments, arch="sm_80" if hw == "a100_sxm" else "sm_90a")
    one, *others = (asdict(simulate(graph, hw, fidelity=fidelity, threads=threads)) for threads in (1, 2, 4, 8))
    for other in others:
        assert one.keys() == other.keys()
        for key in one.keys() - {"seconds", "parameters"}:
            np.testing.assert_equal(other[key], one[key], err_msg=key)
