"""`detail="exact"` through the front door: arguments, options, what the report and the graph say."""

from __future__ import annotations

import json

import pytest

import gtsim

pytest.importorskip("tilelang")

SMALL = ("--arg", "M=256", "--arg", "N=256", "--arg", "K=512")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("GTSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GTSIM_NVCC", "none")
    return tmp_path / "cache"


def kernel(examples, name):
    from gtsim.kernel_file import load_kernel

    return load_kernel(str(examples / f"{name}.py"))[1]


def test_exact_and_fast_predict_the_same_where_the_rules_are_right(examples, own_cache):
    gemm = kernel(examples, "gemm")
    fast = gtsim.predict(gemm)(256, 256, 512)
    assert fast.parameters["detail"] == "fast" and not own_cache.exists()
    exact = gtsim.predict(gemm, detail="exact")(256, 256, 512)
    assert exact.parameters["detail"] == "exact"
    assert exact.cycles == fast.cycles
    assert exact.graph.meta["facts_differ"] == [] and exact.graph.meta["registers_from"] == "convention"
    text = repr(exact)
    assert f"facts: by the compiler; {exact.graph.meta['facts_compared']} compared with the rules, 0 differ" in text
    assert "facts: by the compiler" not in repr(fast)


def test_a_difference_is_a_warning_in_the_report(gtsim_command, examples):
    done = gtsim_command("predict", examples / "gemm_ws_manual.py", *SMALL, "--detail", "exact")
    assert done.status == 0, done.err
    assert "exact facts: added barriers of the block outside of loops: by rule 1, by the compiler 2" in " ".join(done.out.split())


def test_no_cache_writes_nothing(gtsim_command, examples, own_cache):
    assert gtsim_command("check", examples / "gemm.py", *SMALL, "--detail", "exact", "--no-cache").status == 0
    assert not own_cache.exists()
    assert gtsim_command("check", examples / "gemm.py", *SMALL, "--detail", "exact").status == 0
    assert len(list(own_cache.rglob("*.json"))) == 1


def test_a_saved_graph_knows_its_detail(gtsim_command, examples, tmp_path):
    path = tmp_path / "gemm.npz"
    done = gtsim_command("graph", examples / "gemm.py", *SMALL, "--detail", "exact", "-o", path)
    assert done.status == 0, done.err
    assert gtsim.load_graph(path).meta["detail"] == "exact"
    told = json.loads(gtsim_command("simulate", path, "--json", "-").out)
    assert told["parameters"]["detail"] == "exact"


def test_a_wrong_detail_is_refused_before_the_kernel_is_read(gtsim_command, tmp_path):
    done = gtsim_command("predict", tmp_path / "missing.py", "--detail", "exakt")
    assert done.status == 2
    assert "exakt" in done.err and "exact" in done.err
    with pytest.raises(gtsim.UsageError, match="detail"):
        gtsim.check(lambda: None, detail="exakt")
    with pytest.raises(gtsim.UsageError, match="cache is 'no'"):
        gtsim.predict(detail="exact", cache="no")
