"""`gtsim.predict`, `lower` and `simulate` on everything that makes a kernel."""

from __future__ import annotations

import pytest

import gtsim
from gtsim.kernel_file import load_kernel

tilelang = pytest.importorskip("tilelang")


@pytest.fixture(scope="module")
def gemm(examples):
    return load_kernel(str(examples / "gemm.py"))[1]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A module with a kernel in every wrapping: TileLang reads the source, so it has to be in a file."""
    from gtsim.kernel_file import import_file

    path = tmp_path_factory.mktemp("kernels") / "wrapped_kernels.py"
    path.write_text('''
import gtsim, tilelang, tilelang.language as T
from tilelang.autotuner import autotune

def copy(M=1024, N=1024, block=64):
    @T.prim_func
    def copy_kernel(X: T.Tensor((M, N), "float16"), Y: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(M, block), threads=128) as b:
            tile = T.alloc_fragment((block, N), "float16")
            T.copy(X[b * block, 0], tile)
            T.copy(tile, Y[b * block, 0])
    return copy_kernel

def sized():
    m = T.dynamic("m")
    @T.prim_func
    def sized_kernel(X: T.Tensor((m, 256), "float16"), Y: T.Tensor((m, 256), "float16")):
        with T.Kernel(T.ceildiv(m, 64), threads=128) as b:
            tile = T.alloc_fragment((64, 256), "float16")
            T.copy(X[b * 64, 0], tile)
            T.copy(tile, Y[b * 64, 0])
    return sized_kernel

@tilelang.jit
def lazy(M, N, block=64):
    return copy(M, N, block)

@tilelang.jit
def eager(X, Y, block: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], "float16"]
    Y: T.Tensor[[M, N], "float16"]
    with T.Kernel(T.ceildiv(M, block), threads=128) as b:
        tile = T.alloc_fragment((block, N), "float16")
        T.copy(X[b * block, 0], tile)
        T.copy(tile, Y[b * block, 0])

@autotune(configs=[{"block": 32}, {"block": 64}])
@tilelang.jit
def tuned(M, N, block=128):
    return copy(M, N, block)

bare = gtsim.predict(copy)

@gtsim.predict(hw="h200_sxm", clock_mhz=1500)
def decorated(M, N=512):
    """Copies."""
    return copy(M, N)
''', encoding="utf-8")
    return import_file(path)


def test_a_factory_a_prim_func_and_a_saved_graph_agree(gemm, tmp_path) -> None:
    called = gtsim.predict(gemm)(512, 512, 256, num_stages=2)
    direct = gtsim.predict(gemm(512, 512, 256, num_stages=2))
    graph = gtsim.lower(gemm, (512, 512, 256), {"num_stages": 2})
    gtsim.save_graph(graph, tmp_path / "g.npz")
    loaded = gtsim.simulate(gtsim.load_graph(tmp_path / "g.npz"))
    assert called.cycles == direct.cycles == loaded.cycles > 0
    assert called.hashes["graph"] == loaded.hashes["graph"]


def test_a_prediction_has_the_fields_of_the_result(gemm) -> None:
    p = gtsim.predict(gemm)(512, 512, 256)
    assert p.cycles == p.result.cycles
    assert p.traffic.dram_read_bytes > 0 and 0 < p.utilization["tensor"] < 1 and p.waves == 1 and p.bound_by
    assert p.flops == 2 * 512 * 512 * 256
    assert p.graph.launch.arch == "sm_90a" and p.hw.name == "h100_sxm"
    assert {"lowering", "graph", "compile", "simulation"} <= set(p.seconds)
    with pytest.raises(AttributeError, match="cycels"):
        _ = p.cycels


def test_lazy_eager_and_tuned_objects_are_the_same_kernel(kernels) -> None:
    plain = gtsim.predict(kernels.copy)(2048, 512)
    assert gtsim.predict(kernels.lazy)(2048, 512).cycles == plain.cycles
    assert gtsim.predict(kernels.eager)(M=2048, N=512).cycles == plain.cycles
    assert gtsim.predict(kernels.tuned)(2048, 512, block=64).cycles == plain.cycles


def test_a_tuned_object_uses_its_first_configuration(kernels) -> None:
    assert gtsim.predict(kernels.tuned)(2048, 512).ctas == 2048 // 32


def test_the_decorator_keeps_name_docstring_kernel_and_options(kernels) -> None:
    assert kernels.decorated.__name__ == "decorated" and kernels.decorated.__doc__ == "Copies."
    p = kernels.decorated(1024)
    assert (p.hardware, p.clock_mhz) == ("h200_sxm", 1500)
    assert callable(kernels.decorated.kernel)
    assert kernels.bare(1024).hardware == "h100_sxm"


def test_symbols_bind_sizes(kernels) -> None:
    assert gtsim.predict(kernels.sized(), symbols={"m": 6400}).ctas == 100
    with pytest.raises(gtsim.FrontendError, match="m"):
        gtsim.predict(kernels.sized())


def test_overrides_and_files_reach_the_model(gemm, tmp_path) -> None:
    slow = {"resources.tensor.rate_per_cycle": 64}
    assert gtsim.predict(gemm, overrides=slow)(512, 512, 1024).cycles > 2 * gtsim.predict(gemm)(512, 512, 1024).cycles
    file = tmp_path / "slow.toml"
    file.write_text("[resources.tensor]\nrate_per_cycle = 64\n")
    by_file = gtsim.predict(gemm, override_files=[file])(512, 512, 1024)
    assert by_file.cycles == gtsim.predict(gemm, overrides=slow)(512, 512, 1024).cycles
    assert by_file.hashes["hardware"] != gtsim.predict(gemm)(512, 512, 1024).hashes["hardware"]


def test_the_gpu_decides_what_is_compiled_for(gemm) -> None:
    assert gtsim.lower(gemm, (512, 512, 256), hw="a100_sxm").launch.arch == "sm_80"
    with pytest.raises(gtsim.SimulationError, match="sm_90a.*a100_sxm"):
        gtsim.simulate(gtsim.lower(gemm, (512, 512, 256)), "a100_sxm")


@pytest.mark.parametrize("wrong", [{"hwx": "h100_sxm"}, {"fidelity": "fine"}, {"clock_mhz": 5}, {"on_unknown": "ignore"}])
def test_wrong_options_are_usage_errors(gemm, wrong) -> None:
    with pytest.raises(gtsim.UsageError, match=str(next(iter(wrong.values() if "hwx" not in wrong else wrong)))):
        gtsim.predict(gemm, **wrong)


@pytest.mark.parametrize("kernel", [42, None])
def test_something_that_is_no_kernel_is_a_usage_error(kernel) -> None:
    with pytest.raises(gtsim.UsageError, match="PrimFunc"):
        gtsim.predict(kernel)


@pytest.mark.parametrize(("wrong", "words"), [
    ({"clock_mhz": [1]}, "clock_mhz"), ({"clock_mhz": "1500"}, "clock_mhz"), ({"clock_mhz": 10**400}, "clock_mhz"),
    ({"overrides": "x"}, "overrides"), ({"overrides": {3: 4}}, "overrides"), ({"policy": []}, "policy"),
    ({"threads": "1"}, "threads"), ({"symbols": {"m": 1.5}}, "symbols: m"), ({"symbols": {"m": None}}, "symbols: m"),
    ({"symbols": "m=1"}, "symbols"), ({"metadata": 3}, "metadata"),
])  # fmt: skip
def test_options_of_the_wrong_kind_are_usage_errors(gemm, wrong, words) -> None:
    with pytest.raises(gtsim.UsageError, match=words):
        gtsim.predict(gemm, **wrong)


@pytest.mark.parametrize(("graph", "words"), [(None, "not a kernel graph"), ("k.npz", "load_graph")])
def test_simulate_takes_graphs_only(graph, words) -> None:
    with pytest.raises(gtsim.UsageError, match=words):
        gtsim.simulate(graph, "h100_sxm")


def test_a_size_that_the_kernel_lacks_is_refused(kernels) -> None:
    with pytest.raises(gtsim.FrontendError, match="no symbolic size 'n'. It has m"):
        gtsim.predict(kernels.sized(), symbols={"m": 6400, "n": 1})


def test_register_tiles_that_must_spill_are_a_warning(gemm) -> None:
    spilling = gtsim.predict(gemm)(512, 512, 512, block_M=256, block_N=256, threads=128, num_stages=2)
    assert "512 registers of each of 128 threads" in repr(spilling)
    assert not any("spill" in w for w in gtsim.predict(gemm)(512, 512, 512).warnings)


def test_a_product_takes_whole_warps(gemm) -> None:
    with pytest.raises(gtsim.FrontendError, match="multiple of 32 threads"):
        gtsim.predict(gemm)(512, 512, 512, threads=100)


def test_a_factory_that_raises_names_its_line(kernels) -> None:
    with pytest.raises(gtsim.FrontendError, match=r"test_predict.py:\d+: raising raised ValueError: boom"):
        gtsim.predict(raising)()


def raising():
    raise ValueError("boom")


@pytest.mark.parametrize("shape", [(1000, 1024, 1024), (1016, 1016, 1016), (2000, 2000, 2000)])
def test_bulk_agrees_with_line_where_rows_are_not_whole_lines(gemm, shape) -> None:
    graph = gtsim.lower(gemm, shape)
    bulk, line = (gtsim.simulate(graph, "h100_sxm", fidelity=f).cycles for f in ("bulk", "line"))
    assert bulk == pytest.approx(line, rel=0.07)  # queues at single slices exist in `line` only


def test_a_loop_without_stages_is_told_to_fetch_ahead(gemm) -> None:
    assert "T.Pipelined with num_stages" in repr(gtsim.predict(gemm)(1024, 1024, 1024, num_stages=0))
    assert "T.Pipelined with num_stages" not in repr(gtsim.predict(gemm)(1024, 1024, 1024, num_stages=3))


@pytest.mark.parametrize("name", ["gemm", "gemm_ws_manual", "gemm_cluster", "gemm_fp8", "gemm_silu", "elementwise", "rmsnorm",
                                  "flash_attention"])  # fmt: skip
def test_every_example_predicts(examples, name) -> None:
    small = {"flash_attention": {"batch": 1, "heads": 2, "kv_heads": 1, "seq_q": 512, "seq_kv": 512},
             "elementwise": {"M": 512, "N": 512}, "rmsnorm": {"M": 256, "N": 2048}}
    _, factory = load_kernel(str(examples / f"{name}.py"))
    p = gtsim.predict(factory)(**small.get(name, {"M": 512, "N": 512, "K": 512}))
    assert p.cycles > 0 and "Bound by" in repr(p)


def test_no_sector_counts_twice_where_bulk_cuts_a_row(examples) -> None:
    """A row of 10,000 bytes starts 16 bytes into a sector, and the blocks of bulk fidelity end within sectors."""
    _, factory = load_kernel(str(examples / "rmsnorm.py"))
    graph = gtsim.lower(factory, (), {"M": 64, "N": 5000})
    bulk, line = (gtsim.simulate(graph, "h100_sxm", fidelity=f).traffic for f in ("bulk", "line"))
    assert bulk.l2_read_bytes + bulk.l2_coalesced_bytes == line.l2_read_bytes + line.l2_coalesced_bytes
