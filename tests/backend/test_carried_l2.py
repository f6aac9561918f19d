"""What a kernel leaves in the L2 is there for the next one of its sequence: which bytes, which modified, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gtsim.backend import DeviceMemory, EarlyStart, Result, SimulationError, simulate
from gtsim.graph import KernelGraph, TileGraphBuilder
from gtsim.hwconfigs import load_hardware

from gtsim.prediction import Prediction
from gtsim.sequence import run_in_order

from .kernels import PLAIN

#: No copies in the other partition, and all misses at once: bytes can be counted by hand.
BARE = {**PLAIN, "l2.remote_copy": False, "l2.coalescer": False}
FIDELITIES = pytest.mark.parametrize("fidelity", ["bulk", "line"])
Box = tuple[tuple[int, ...], tuple[int, ...]]
KB = 1 << 10
#: An L2 of 256 KB in 64 slices of 4 KB, among which neighbouring lines share out evenly.
SMALL = {"l2.capacity_bytes": 256 * KB, "l2.hash": "plain", "l2.slices": 64, "dram.channels": 64}


def kernel(shape: Sequence[int], loads: Sequence[Box] = (), stores: Sequence[Box] = (), tensor: str = "x", dtype: str = "float16",
           ) -> KernelGraph:  # fmt: skip
    """One CTA that loads and stores boxes (origin, extent) of one tensor, one after the other."""
    b = TileGraphBuilder("boxes", grid=(1, 1, 1), threads=128, arch="sm_90a")
    x = b.tensor(tensor, tuple(shape), dtype)
    t = b.template()
    done = b.barrier("done", [1] * max(len(loads), 1))
    extents = dict.fromkeys(extent for _, extent in loads)
    shared = {extent: b.buffer(f"s{i}", extent, dtype, scope="shared") for i, extent in enumerate(extents)}
    for i, (origin, extent) in enumerate(loads):
        s = shared[extent]
        t.node("tma_load", [0], reads=[x.tile(origin, extent)], writes=[s.tile()], tx=done[i], arrive=[(done[i], 1)])
        t.node("barrier_wait", [0], wait=(done[i], 0))
    for i, (origin, extent) in enumerate(stores):
        f = b.buffer(f"f{i}", extent, dtype, scope="fragment")
        t.node("global_store", range(4), reads=[f.tile()], writes=[x.tile(origin, extent)], blocking=True)
    b.add_instances(t, [(0, 0, 0)])
    return b.build(check=False)


def rows(first: int, count: int, width: int = 64, step: int = 64) -> list[Box]:
    """Boxes of `step` rows each that cover `count` rows of `width` elements."""
    return [((first + i, 0), (step, width)) for i in range(0, count, step)]


def run(graphs: Sequence[KernelGraph], names: Sequence[dict[str, str] | None] | None = None, **options: Any) -> list[Result]:
    """Simulate one after the other, each with what the one before left."""
    memory, out = DeviceMemory(), []
    options["overrides"] = {**BARE, **options.get("overrides", {})}
    for graph, tensors in zip(graphs, names or [None] * len(graphs), strict=True):
        out.append(simulate(graph, "h100_sxm", memory=memory, tensors=tensors, **options))
        memory = out[-1].memory or DeviceMemory()
    return out


def read(result: Result) -> int:
    """Bytes read from DRAM."""
    return result.traffic.dram_read_bytes


@FIDELITIES
def test_what_was_written_is_read_from_the_l2(fidelity: str) -> None:
    """256 KB written, then read in other boxes: rows as wide as the tensor against squares of it."""
    shape = (512, 256)
    squares = [((r, c), (64, 64)) for r in range(0, 512, 64) for c in range(0, 256, 64)]
    writes, reads = kernel(shape, stores=squares), kernel(shape, loads=rows(0, 512, 256, 32))
    warm, cold = run([writes, reads], fidelity=fidelity)[1], run([reads], fidelity=fidelity)[0]
    assert (read(warm), read(cold)) == (0, 256 * KB)
    assert warm.cycles < cold.cycles


@FIDELITIES
def test_the_switch_and_a_plain_run_start_as_the_hardware_file_says(fidelity: str) -> None:
    reads = kernel((512, 64), loads=rows(0, 512))
    off = run([reads, reads], fidelity=fidelity, overrides={"l2.carried": False})
    alone = simulate(reads, "h100_sxm", fidelity=fidelity, overrides=BARE)
    assert alone.memory is None
    assert off[1].cycles == off[0].cycles == alone.cycles
    assert read(off[1]) == read(alone) == 64 * KB


@FIDELITIES
def test_a_kernel_that_sees_the_same_bytes_as_another_shape_finds_them(fidelity: str) -> None:
    """[512, 64] as [32, 1024], under another name; half of it was there."""
    writes, reads = kernel((512, 64), stores=rows(0, 256)), kernel((32, 1024), loads=rows(0, 32, 1024, 8), tensor="flat")
    assert read(run([writes, reads], [None, {"flat": "x"}], fidelity=fidelity)[1]) == 32 * KB
    assert read(run([writes, reads], fidelity=fidelity)[1]) == 64 * KB


@FIDELITIES
def test_a_part_of_a_tile_that_is_there_is_not_read_again(fidelity: str) -> None:
    """Rows 0 to 47 are there in tiles of 16; tiles of 64 rows lack the last 16."""
    first, second = kernel((128, 64), loads=rows(0, 48, step=16)), kernel((128, 64), loads=rows(0, 128))
    assert read(run([first, second], fidelity=fidelity)[1]) == (128 - 48) * 128


@FIDELITIES
def test_modified_lines_are_written_back_by_the_kernel_that_drives_them_out(fidelity: str) -> None:
    """An L2 of 256 KB holds what the first kernel wrote; the next one reads 256 KB of another tensor."""
    writes = kernel((1024, 64), stores=rows(0, 1024))
    reads = kernel((2048, 64), loads=rows(0, 2048), tensor="y")
    first, second = run([writes, reads], fidelity=fidelity, overrides=SMALL)
    assert (first.traffic.dram_written_bytes, second.traffic.dram_written_bytes) == (0, 128 * KB)
    third = run([writes, reads, writes], fidelity=fidelity, overrides=SMALL)[2]
    assert third.traffic.dram_written_bytes == 0  # what was written back is gone


@FIDELITIES
def test_the_least_recently_used_of_all_kernels_goes_first(fidelity: str) -> None:
    """x, then y, then x again fill the L2; z drives out y, not x."""
    half = {name: kernel((1024, 64), loads=rows(0, 1024), tensor=name) for name in "xyz"}
    again = [read(r) for r in run([half[n] for n in "xyxzxy"], fidelity=fidelity, overrides=SMALL)]
    assert again == [128 * KB, 128 * KB, 0, 128 * KB, 0, 128 * KB]


@FIDELITIES
def test_copies_in_the_other_partition_last(fidelity: str) -> None:
    """Copies take their room in the next kernel too: 96 KB twice leave none for 96 KB more in 256 KB."""
    x, y = (kernel((768, 64), loads=rows(0, 768), tensor=name) for name in "xy")
    # One SM reads lines of both partitions: half of them get a copy (by line), or every block one of half its size (bulk).
    fits, spills = (
        [read(r) for r in run([x, y, x], fidelity=fidelity, overrides={**SMALL, "l2.remote_copy": copies})]
        for copies in (False, True)
    )
    assert fits == [96 * KB, 96 * KB, 0]
    assert spills[2] > 0


@FIDELITIES
def test_what_other_programs_left_is_written_back_once(fidelity: str) -> None:
    """64 KB are modified at the start, and two kernels together fill the L2."""
    start = {**SMALL, "l2.dirty_at_start": 0.25}
    x, y = (kernel((1024, 64), loads=rows(0, 1024), tensor=name) for name in "xy")
    written = [r.traffic.dram_written_bytes for r in run([x, y, x, y], fidelity=fidelity, overrides=start)]
    assert sum(written[:2]) == pytest.approx(64 * KB, abs=8 * KB)
    assert written[2:] == [0, 0]


def test_threads_change_nothing() -> None:
    shape = (4096, 64)
    graphs = [kernel(shape, stores=rows(0, 2048)), kernel(shape, loads=rows(1024, 2048))]
    one, four = (run(graphs, fidelity="line", threads=n)[1] for n in (1, 4))
    assert one.cycles == four.cycles and one.memory is not None and four.memory is not None
    assert one.memory.digest == four.memory.digest
    assert one.memory.digest != run(graphs[::-1], fidelity="line")[1].memory.digest  # type: ignore[union-attr]


def test_random_cuts_keep_every_byte() -> None:
    """Whatever boxes two kernels take, no byte is read twice from an L2 that holds all, and the fidelities agree on that."""
    rng = np.random.default_rng(5)
    for _ in range(12):
        shape = (int(rng.choice([96, 128, 256])), int(rng.choice([64, 128, 320])))
        steps = [(int(rng.choice([8, 16, 32])), int(rng.choice([64, shape[1]]))) for _ in range(2)]
        boxes = [[((r, c), (h, min(w, shape[1] - c))) for r in range(0, shape[0], h) for c in range(0, shape[1], w)]
                 for h, w in steps]  # fmt: skip
        kept = int(rng.integers(1, len(boxes[0]) + 1))
        graphs = [kernel(shape, stores=boxes[0][:kept]), kernel(shape, loads=boxes[1])]
        bulk, line = (run(graphs, fidelity=f)[1] for f in ("bulk", "line"))
        written = 2 * sum(h * w for _, (h, w) in boxes[0][:kept])
        assert read(bulk) == read(line) == 2 * shape[0] * shape[1] - written


def test_contents_are_of_one_gpu_and_fidelity() -> None:
    graph = kernel((512, 64), loads=rows(0, 512))
    left = simulate(graph, "h100_sxm", memory=DeviceMemory()).memory
    with pytest.raises(SimulationError, match="another fidelity"):
        simulate(graph, "h100_sxm", fidelity="line", memory=left)
    with pytest.raises(SimulationError, match="another GPU"):
        simulate(graph, load_hardware("h200_sxm"), memory=left)
    with pytest.raises(SimulationError, match="no tensor 'q'"):
        simulate(graph, "h100_sxm", memory=DeviceMemory(), tensors={"q": "x"})


def test_the_kernels_of_a_program_find_what_the_one_before_left() -> None:
    """Through the front door: the first writes 64 KB, the second reads them."""
    hw = load_hardware("h100_sxm", BARE)

    def once(graph: KernelGraph, start: EarlyStart | None, memory: DeviceMemory) -> Prediction:
        return Prediction(simulate(graph, hw, start=start, memory=memory), graph, hw)

    program = run_in_order("two", [kernel((512, 64), stores=rows(0, 512)), kernel((512, 64), loads=rows(0, 512))], once)
    assert [read(p.result) for p in program.kernels] == [0, 0]
    assert program.kernels[1].result.traffic.l2_hit_rate == 1
