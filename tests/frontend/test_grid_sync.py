"""T.sync_grid from source: every block waits for the last one."""

from __future__ import annotations

from typing import Any

import pytest

import gtsim


def test_from_source() -> None:
    pytest.importorskip("tilelang")
    import tilelang.language as T

    def two_phases(blocks: int = 132, sync: bool = True) -> Any:
        @T.prim_func
        def phases(X: T.Tensor((blocks, 128), "float32"), Y: T.Tensor((blocks, 128), "float32")):
            with T.Kernel(blocks, threads=128) as bx:
                for j in T.Parallel(128):
                    X[bx, j] = X[bx, j] + 1.0
                if sync:
                    T.sync_grid()
                for j in T.Parallel(128):
                    Y[bx, j] = X[(bx + 1) % blocks, j]

        return phases

    with_barrier = gtsim.lower(two_phases)
    assert with_barrier.warnings == () and "grid_sync" in with_barrier.type_names
    assert gtsim.check(two_phases).errors == ()  # the barrier orders the blocks
    without = gtsim.check(two_phases, kwargs={"sync": False})
    assert [f.kind for f in without.errors] == ["race"]
    hw = gtsim.load_hardware("h100_sxm")
    free = gtsim.lower(two_phases, kwargs={"sync": False})
    extra = gtsim.simulate(with_barrier).result.time_us - gtsim.simulate(free).result.time_us
    assert extra == pytest.approx(hw.launch.grid_sync_us, rel=0.7)  # and the stores that the barrier waits for
    assert [f.kind for f in gtsim.check(two_phases, kwargs={"blocks": 5000}).errors] == ["residency"]
