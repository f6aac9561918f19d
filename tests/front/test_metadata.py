"""Integer tensors that steer control flow, from the shell and from Python."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import gtsim
from gtsim.metadata import load_metadata


@pytest.fixture
def moe(examples, monkeypatch):
    monkeypatch.syspath_prepend(str(examples))
    yield __import__("moe_grouped_gemm")
    sys.modules.pop("moe_grouped_gemm", None)


def test_the_shell_and_python_agree(gtsim_command, examples, moe, tmp_path) -> None:
    tiles = moe.tiles_of(moe.routing(tokens=128, skew=0.5))
    np.savez(tmp_path / "routing.npz", **tiles)
    for name, array in tiles.items():
        np.save(tmp_path / f"{name}.npy", array)
    own = gtsim.predict(moe.moe_gemm, metadata=tiles)(tokens=128)
    file = f"{examples}/moe_grouped_gemm.py:moe_gemm"
    whole = ["--metadata", tmp_path / "routing.npz"]
    single = [part for name in tiles for part in ("--metadata", f"{name}={tmp_path / name}.npy")]
    for given in (whole, single):
        done = gtsim_command("predict", file, "--arg", "tokens=128", *given, "--json", "-")
        assert done.status == 0, done.err
        assert json.loads(done.out)["cycles"] == own.cycles


def test_missing_metadata_names_the_tensor(moe) -> None:
    with pytest.raises(gtsim.FrontendError, match=r"tile_\w+.by.: .*the tensor 'tile_\w+', shape .10."):
        gtsim.predict(moe.moe_gemm)(tokens=128)


def test_metadata_the_kernel_lacks_is_refused(moe) -> None:
    tiles = moe.tiles_of(moe.routing(tokens=128))
    with pytest.raises(gtsim.FrontendError, match="metadata names 'sizes'.*It has .*tile_rows"):
        gtsim.predict(moe.moe_gemm, metadata={**tiles, "sizes": np.zeros(3, dtype=np.int32)})(tokens=128)


@pytest.mark.parametrize(("content", "item", "words"), [
    (None, "{}", "no such file"),
    ("text", "x={}", "no .npy or .npz file"),
    (np.zeros(3), "x={}", "holds float64"),
    (np.zeros(3, dtype=int), "{}", "NAME=FILE.npy"),
    ({"x": np.zeros(3, dtype=int)}, "x={}", "must read FILE.npz"),
    (np.array([{}], dtype=object), "x={}", "no .npy or .npz file"),
])  # fmt: skip
def test_wrong_files_are_usage_errors(tmp_path, content, item, words) -> None:
    path = tmp_path / "array"
    if isinstance(content, str):
        path.write_text(content)
    elif content is not None:
        with open(path, "wb") as file:
            np.savez(file, **content) if isinstance(content, dict) else np.save(file, content)
    with pytest.raises(gtsim.UsageError, match=words):
        load_metadata([item.format(path)])


def test_a_tensor_given_twice_is_refused(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3, dtype=int))
    with pytest.raises(gtsim.UsageError, match="given twice"):
        load_metadata([f"x={tmp_path}/x.npy"] * 2)
