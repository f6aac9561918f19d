"""Exact facts: what is read, the cache, the assembler, and what happens when something cannot be read."""

import dataclasses
import json
import os
import stat
import sys
import threading

import pytest
from gtsim.frontend import FrontendError, capture, exact_facts
from gtsim.frontend.tilelang.bulk import one_run, tma_pieces
from gtsim.frontend.tilelang.exact import ExactFacts, KernelFacts, RegisterFacts
from gtsim.frontend.tilelang.exact.cache import Cache, cache_folder
from gtsim.frontend.tilelang.exact.ptxas import Compiler, find_compiler, parse_usage, with_registers
from gtsim.frontend.tilelang.exact.readers.buffers import swizzle_span
from gtsim.frontend.tilelang.expr import Value
from gtsim.frontend.tilelang.program import Storage
from gtsim.frontend.tilelang.sync import Access, Hazards, left_loops
from gtsim.frontend.tilelang.translate import Region

#: What ptxas 13.0 prints for a kernel that spills and one that does not.
PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel_1' for 'sm_90a'
ptxas info    : Function properties for main_kernel_1
    96 bytes stack frame, 64 bytes spill stores, 72 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 96 bytes cumulative stack size, 48 bytes smem
ptxas info    : Compile time = 54.321 ms
ptxas info    : Compiling entry function 'main_kernel' for 'sm_90a'
ptxas info    : Function properties for main_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers
"""
NVCC = """#!{python}
import sys
if "--version" in sys.argv:
    print("nvcc: NVIDIA (R) Cuda compiler driver\\nBuild cuda_13.0.r13.0/compiler.1_0")
    sys.exit(0)
source = open(sys.argv[-1]).read()
assert "__global__" in source and "-v" in sys.argv and any(a.startswith("-arch=sm_") for a in sys.argv)
sys.stderr.write('''{output}''')
sys.exit({status})
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("GTSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GTSIM_NVCC", "none")
    return tmp_path / "cache"


@pytest.fixture
def fake_nvcc(monkeypatch, tmp_path):
    """An executable `nvcc` that prints what it is told."""

    def make(output, status=0):
        path = tmp_path / "nvcc"
        path.write_text(NVCC.format(python=sys.executable, output=output, status=status))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("GTSIM_NVCC", str(path))
        return path

    return make


# -- what is read ----------------------------------------------------------------------------------------------------------


def test_facts_of_a_pipelined_product(kernels):
    facts = exact_facts(kernels("dense.product"), arch="sm_90a").kernels[0]
    assert facts.unknown == {}
    load, other = facts.operations[:2]
    assert (load.tma.box, load.tma.instructions, load.tma.swizzle_bytes) == ((128, 64), 1, 128)
    assert (other.tma.box, other.tma.instructions, other.tma.element_strides) == ((64, 64), 2, (1, 1))
    product = next(o for o in facts.operations if o.tensor_core)
    assert product.tensor_core.model_dump() == {"unit": "wgmma", "shape": "m64n64k16", "instructions": 8, "a_register": False}
    assert {b.name: b.swizzle_bytes for b in facts.buffers if b.scope == "shared"} == {"left": 128, "right": 128, "staged": 128}
    assert facts.buffer("total").elements == 128 * 128 // 256  # a thread holds 64 elements of the accumulator
    assert "_j" in facts.buffer("total").layout
    memory = facts.shared_memory
    assert (memory.dynamic_bytes, memory.static_bytes) == (3 * 2 * 128 * 64 * 2, 6 * 8)
    assert memory.offsets["staged"] == memory.offsets["left"] == 0
    assert {(b.region, b.threads): b.sites for b in facts.barriers} == {("", 0): 1, ("", 256): 2}
    assert (facts.registers.launch, facts.registers.reallocated, facts.registers.source) == (168, (24, 240), "convention")


def test_barriers_of_a_loop_are_told_from_those_around_it(kernels):
    facts = exact_facts(kernels("dense.product"), kwargs={"K": 1024}, arch="sm_80").kernels[0]
    assert {(b.region, b.threads): b.sites for b in facts.barriers} == {("", 0): 4, ("k", 0): 2}
    assert facts.registers == RegisterFacts(launch=None, source="unknown", cap=255)


def test_every_kernel_of_a_program_has_facts(kernels):
    facts = exact_facts(kernels("threads.two_launches"), arch="sm_90a")
    assert len(facts.kernels) == 2
    assert all(k.shared_memory.dynamic_bytes == 0 and k.unknown == {} for k in facts.kernels)


@pytest.mark.parametrize("depth,span", [(64, 128), (32, 64), (16, 32)])
def test_swizzle_is_read_from_the_layout(kernels, depth, span):
    facts = exact_facts(kernels("dense.product"), kwargs={"bk": depth}, arch="sm_90a").kernels[0]
    assert facts.buffer("left").swizzle_bytes == span
    assert next(o.tma for o in facts.operations if o.tma).swizzle_bytes == span


class RowLayout:
    """Rows of 64 float16 behind each other, each moved by `place(row, byte)`."""

    def __init__(self, place):
        self.place = place

    def get_output_shape(self):
        return [64 * 64]

    def map_forward_index(self, index):
        row, column = index
        return [self.place(row, column * 2) // 2]


class Tile:
    shape, dtype = [64, 64], "float16"


@pytest.mark.parametrize("place,span", [
    (lambda row, at: row * 128 + at, 0),
    (lambda row, at: row * 144 + at, 0),  # padded rows
    (lambda row, at: row * 128 + (at ^ row % 8 * 16), 128),
    (lambda row, at: row * 128 + (at ^ row % 8 * 32) % 128, None),
])
def test_span_of_a_layout(place, span):
    assert swizzle_span(RowLayout(place), Tile()) == span


def test_a_pipeline_without_the_pass_of_a_fact_is_an_error(kernels, monkeypatch):
    from gtsim.frontend.tilelang.exact import readers

    readers.readers()
    monkeypatch.setitem(readers._READERS, "barriers", readers.Entry("barriers", "tl.NoSuchPass", lambda view: ()))
    with pytest.raises(FrontendError, match='pipeline has no pass tl.NoSuchPass. Use detail="fast"'):
        exact_facts(kernels("dense.product"), arch="sm_90a", cache=False)


def test_a_kernel_that_tilelang_cannot_finish_is_an_error_that_names_the_way_out(kernels):
    capture(kernels("dense.ring"), "sm_80")
    with pytest.raises(FrontendError, match='cannot compile it for sm_80 to the end: .*detail="fast"'):
        capture(kernels("dense.ring"), "sm_80", detail="exact")


def test_a_reader_that_fails_leaves_an_unknown_with_its_reason(kernels, monkeypatch):
    from gtsim.frontend import lower_captured
    from gtsim.frontend.tilelang.exact import readers

    def broken(view):
        raise readers.Unreadable("the moon is full")

    readers.readers()
    monkeypatch.setitem(readers._READERS, "barriers", readers.Entry("barriers", "tl.LayoutInference", broken))
    captured = capture(kernels("dense.product"), "sm_90a", detail="exact", cache=False)
    assert captured.exact.kernels[0].unknown == {"barriers": "the moon is full"}
    graph = lower_captured(captured)
    assert graph.meta["facts_unknown"] == {"barriers": "the moon is full"}
    assert any("barriers could not be read: the moon is full" in w for w in graph.warnings)


def test_detail_is_fast_or_exact(kernels):
    with pytest.raises(FrontendError, match="'fast' or 'exact', not 'slow'"):
        capture(kernels("dense.product"), "sm_90a", detail="slow")


# -- the facts win ---------------------------------------------------------------------------------------------------------


def test_where_rule_and_fact_differ_the_graph_follows_the_fact_and_says_so(kernels):
    from gtsim.frontend import lower_captured

    captured = capture(kernels("dense.product"), "sm_90a", detail="exact")
    kernel = captured.exact.kernels[0]
    operations = list(kernel.operations)
    at = next(i for i, o in enumerate(operations) if o.tensor_core)
    operations[at] = operations[at].model_copy(update={"tensor_core": operations[at].tensor_core.model_copy(
        update={"unit": "mma", "shape": "m16n8k16", "instructions": 128})})
    operations[0] = operations[0].model_copy(update={"tma": operations[0].tma.model_copy(update={"box": (64, 64)})})
    other = kernel.model_copy(update={
        "operations": tuple(operations),
        "shared_memory": kernel.shared_memory.model_copy(update={"dynamic_bytes": 200 * 1024}),
        "registers": RegisterFacts(launch=128, source="ptxas", cap=168),
        "buffers": tuple(b.model_copy(update={"swizzle_bytes": 64}) if b.name == "left" else b for b in kernel.buffers)})
    made = lower_captured(dataclasses.replace(captured, exact=captured.exact.model_copy(update={"kernels": (other,)})))
    kinds = {n.type for n in made.nodes_of(made.templates[0])}
    assert "mma" in kinds and "wgmma" not in kinds
    assert made.launch.smem_bytes == 200 * 1024 + 48
    assert made.launch.registers_per_thread == 128
    assert next(b.swizzle_bytes for b in made.buffers if b.name == "left") == 64
    assert next(n.attrs["box"] for n in made.nodes_of(made.templates[0]) if n.type == "tma_load") == (64, 64)
    said = " | ".join(made.meta["facts_differ"])
    for words in ("shared memory bytes: by rule 98352, by the compiler 204848",
                  "registers a thread: by rule 168, by the compiler 128",
                  "swizzle of left: by rule 128, by the compiler 64", "unit: by rule wgmma, by the compiler mma",
                  "box: by rule 128x64, by the compiler 64x64"):
        assert words in said
    assert sum("exact facts:" in w for w in made.warnings) == len(made.meta["facts_differ"])


# -- the cache -------------------------------------------------------------------------------------------------------------


def files(folder):
    return [p for p in folder.rglob("*") if p.is_file()]


def test_a_second_request_comes_from_the_disk(kernels, own_cache):
    first = capture(kernels("pointwise.row_norm"), "sm_90a", detail="exact")
    assert len(files(own_cache)) == 1 and not first.cached
    second = capture(kernels("pointwise.row_norm"), "sm_90a", detail="exact")
    assert second.cached and second.exact == first.exact
    assert not capture(kernels("pointwise.row_norm"), "sm_80", detail="exact").cached
    configs = {"tl.disable_warp_specialized": True}
    assert not capture(kernels("pointwise.row_norm"), "sm_90a", configs, detail="exact").cached
    assert len(files(own_cache)) == 3


@pytest.mark.parametrize("damage", [
    lambda text: "", lambda text: text[:-40], lambda text: text.replace('"cap": ', '"cap": 1'),
    lambda text: json.dumps({"key": "x"}), lambda text: "[]", lambda text: text.replace('"shared_memory"', '"shared_memories"')])
def test_a_damaged_file_is_ignored_and_written_anew(kernels, own_cache, damage):
    first = capture(kernels("pointwise.row_norm"), "sm_90a", detail="exact")
    path = files(own_cache)[0]
    whole = path.read_text()
    path.write_text(damage(whole))
    assert path.read_text() != whole
    again = capture(kernels("pointwise.row_norm"), "sm_90a", detail="exact")
    assert not again.cached and again.exact == first.exact
    assert path.read_text() == whole


def test_without_the_cache_nothing_is_written_or_read(kernels, own_cache):
    capture(kernels("pointwise.row_norm"), "sm_90a", detail="exact", cache=False)
    assert files(own_cache) == []
    capture(kernels("pointwise.row_norm"), "sm_90a", detail="exact")
    assert not capture(kernels("pointwise.row_norm"), "sm_90a", detail="exact", cache=False).cached


def test_a_folder_that_cannot_be_written_costs_only_time(kernels, own_cache):
    own_cache.write_text("a file where the folder should be")
    assert capture(kernels("pointwise.row_norm"), "sm_90a", detail="exact").exact is not None


def test_readers_and_writers_of_one_key_never_see_half_a_file(own_cache):
    facts = ExactFacts(kernels=(KernelFacts(unknown={"x": "y" * 20000}),), arch="sm_90a", tilelang="0.1.15")
    cache, key, wrong = Cache(), "ab" * 32, []
    cache.store(key, facts)

    def work():
        for _ in range(40):
            cache.store(key, facts)
            if cache.load(key) != facts:
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong and len(files(own_cache)) == 1


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("GTSIM_CACHE_DIR", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("GTSIM_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "gtsim"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "gtsim"


# -- the assembler ---------------------------------------------------------------------------------------------------------


def test_the_output_of_ptxas_is_read():
    found = [(u.name, u.registers, u.spill_bytes) for u in parse_usage(PTXAS)]
    assert found == [("main_kernel_1", 255, 64), ("main_kernel", 40, 0)]
    assert parse_usage("ptxas fatal   : Unresolved extern function") == []


def test_registers_come_from_ptxas_if_there_is_a_compiler(kernels, fake_nvcc):
    fake_nvcc(PTXAS.replace("main_kernel", "product_kernel_kernel"))
    facts = exact_facts(kernels("dense.product"), arch="sm_90a")
    assert "cuda_13.0" in facts.compiler
    registers = facts.kernels[0].registers
    assert (registers.launch, registers.source, registers.spill_bytes, registers.cap) == (40, "ptxas", 0, 168)


def test_kernels_of_a_program_get_their_own_registers(fake_nvcc):
    compiler = Compiler(str(fake_nvcc(PTXAS)), "13.0")
    one = KernelFacts(registers=RegisterFacts(launch=None, source="unknown", cap=255))
    facts = with_registers(ExactFacts(kernels=(one, one), arch="sm_90a", tilelang=""), compiler, "__global__", "sm_90a")
    assert [(k.registers.launch, k.registers.spill_bytes) for k in facts.kernels] == [(40, 0), (255, 64)]


def test_a_compiler_that_fails_leaves_the_convention_and_a_reason(kernels, fake_nvcc):
    fake_nvcc("kernel.cu(3): error: identifier is undefined", status=2)
    kernel = exact_facts(kernels("dense.product"), arch="sm_90a").kernels[0]
    assert kernel.registers.source == "convention"
    assert "identifier is undefined" in kernel.unknown["ptxas"]


def test_the_compiler_is_part_of_the_key(kernels, fake_nvcc, monkeypatch):
    capture(kernels("pointwise.row_norm"), "sm_90a", detail="exact")
    fake_nvcc(PTXAS)
    assert not capture(kernels("pointwise.row_norm"), "sm_90a", detail="exact").cached


def test_where_the_compiler_is_looked_for(monkeypatch, fake_nvcc, tmp_path):
    assert find_compiler() is None  # "none"
    path = fake_nvcc("")
    monkeypatch.setenv("GTSIM_NVCC", "")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/nowhere")
    assert find_compiler().path == str(path)
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_compiler() is None


# -- the rules -------------------------------------------------------------------------------------------------------------


def tile(shape, extents, mins=None, strides=()):
    storage = Storage(0, "T", "global", "float16", shape, strides)
    return Region(storage, tuple(Value(str(m)) for m in mins or ["b0"] * len(shape)), extents)


def shared(shape):
    return Storage(1, "s", "shared", "float16", shape)


@pytest.mark.parametrize("memory,swizzle,pieces", [
    (tile((512, 512), (128, 64)), 128, (True, (128, 64), 1)),
    (tile((512, 512), (64, 128)), 128, (True, (64, 64), 2)),
    (tile((512, 512), (64, 128)), 0, (True, (64, 128), 1)),
    (tile((2048, 512), (512, 64)), 128, (True, (256, 64), 2)),  # at most 256 a dimension
    (tile((512, 2048), (64, 512)), 0, (True, (1, 256), 128)),  # cut rows are boxes of their own
    (tile((512, 2048), (64, 320)), 0, (True, (1, 160), 128)),  # the largest divisor
    (tile((512, 64), (128, 64), ["b0", 0]), 0, (False, (8192,), 1)),  # one run of bytes
    (tile((512, 64), (128, 64), ["b0", 0]), 128, (True, (128, 64), 1)),
])
def test_boxes_by_rule(memory, swizzle, pieces):
    assert tma_pieces(memory, shared(memory.extents), swizzle) == pieces


@pytest.mark.parametrize("memory,run", [
    (tile((8, 512, 64), (1, 128, 64), ["b1", "b0", 0]), True),
    (tile((8, 512, 64), (2, 128, 64), ["b1", "b0", 0]), False),  # rows of two matrices
    (tile((8, 500, 64), (1, 128, 64), ["b1", "b0", 0]), False),  # may reach beyond the end
    (tile((512, 128), (128, 64), ["b0", 0]), False),
    (tile((512, 64), (128, 64), ["b0", "b1"]), False),
    (tile((512, 64), (128, 64), ["b0", 0], (96, 1)), False),  # padded rows
    (tile((4, 4), (1, 4), ["b0", 0]), False),  # 8 bytes
])
def test_runs_by_rule(memory, run):
    assert one_run(memory, shared(memory.extents)) is run


class Warps:
    warps, whole = (0, 1, 2, 3), True


def test_accesses_by_lane_address_and_by_index_always_meet():
    a, b = Storage(0, "a", "shared", "float16", (64, 64)), Storage(1, "b", "shared", "float16", (64, 64))
    box = ((0, 0), (64, 64))

    def meets(first, second):
        hazards, who = Hazards(), Warps()
        hazards.add(first, who, "")
        return bool(list(hazards.conflicts(second, who)))

    index, lane, whole = (Access(a, *box, True, pointer=p) for p in ("", "lane", "tile"))
    assert not meets(index, Access(b, *box, True)) and not meets(whole, Access(b, *box, True, pointer="tile"))
    for first, pointer in ((index, "lane"), (index, "tile"), (lane, ""), (lane, "tile"), (whole, ""), (lane, "lane")):
        assert meets(first, Access(b, *box, False, pointer=pointer))
    reads = Access(a, *box, False, pointer="lane")
    assert not meets(reads, Access(b, *box, False, pointer=""))
    static = Storage(2, "c", "shared", "float16", (64, 64), dynamic=False)
    assert not meets(index, Access(static, *box, False, pointer="lane"))
    copy = Access(a, *box, True, engine="cp_async", pointer="lane")
    assert not meets(copy, Access(b, *box, True, engine="cp_async", pointer="lane"))


@pytest.mark.parametrize("earlier,now,left", [
    ("", "k=0, ", ["k"]), ("k=0, ", "k=1, ", []), ("k=0, ", "k=0, ", []), ("t=0, k=3, ", "t=1, k=0, ", ["k"]),
    ("t=0, ", "t=0, k=0, ", ["k"]), ("a=1, ", "b=0, c=0, ", ["b", "c"]), ("k=2, ", "", [])])
def test_a_barrier_stands_in_front_of_the_loops_it_need_not_repeat_in(earlier, now, left):
    assert left_loops(earlier, now) == left
