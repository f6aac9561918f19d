"""Loops that are walked for a few periods give the graph that walking every iteration gives."""

from collections import Counter

import numpy as np
import pytest

ROLES_OFF = {"tl.disable_warp_specialized": True}
CASES = [
    ("dense.product", "sm_90a", {"K": 2048}, None),
    ("dense.product", "sm_90a", {"K": 2048 + 64, "stages": 4}, None),
    ("dense.product", "sm_90a", {"K": 2048, "stages": 1}, None),
    ("dense.product", "sm_90a", {"K": 1024, "stages": 0}, None),
    ("dense.product", "sm_90a", {"K": 2048}, ROLES_OFF),
    ("dense.product", "sm_80", {"K": 2048}, None),
    ("dense.product", "sm_80", {"K": 1536, "stages": 2}, None),
    ("softmax.attention", "sm_90a", {"seq": 4096, "causal": True}, None),
    ("softmax.attention", "sm_90a", {"seq": 4096}, None),
    ("softmax.attention", "sm_80", {"seq": 4096, "causal": True}, None),
    ("pointwise.tail_guard", "sm_90a", {}, None),
]


def step_by_step(monkeypatch, kernels, path, arch, kwargs, configs):
    from gtsim.frontend import lower

    monkeypatch.setattr("gtsim.frontend.tilelang.lower.MAX_REPLANS", 0)
    return lower(kernels(path), kwargs=kwargs, arch=arch, pass_configs=dict(configs or {}))


def contents(graph, i):
    """Nodes and edges of instance `i` as multisets that do not depend on the order in which nodes stand."""
    t, row = graph.templates[graph.instances.template[i]], graph.instances.columns[i]
    at = t.tile_offset + np.where(t.tile_column >= 0, row[np.maximum(t.tile_column, 0)] if len(row) else 0, 0)
    seen, keys = Counter(), []
    for node in graph.nodes_of(t):
        tiles = tuple((x.buffer.name, x.mode, tuple(at[j].tolist()), x.extent, x.version if x.buffer.scope == "shared" else 0)
                      for j, x in enumerate(node.tiles, int(t.tile_ptr[node.index])))
        key = (node.type, node.warps, node.source, node.loop, node.role, str(node.attrs), node.blocking, tiles)
        seen[key] += 1
        keys.append((key, seen[key]))
    facts = zip(t.edge_src().tolist(), t.edge_dst.tolist(), t.edge_kind.tolist(), t.edge_reason.tolist(), t.edge_label.tolist(),
                strict=True)
    return Counter(keys), Counter((keys[a], keys[b], k, r, graph.strings[lb] if lb >= 0 else "") for a, b, k, r, lb in facts)


@pytest.mark.parametrize(("path", "arch", "kwargs", "configs"), CASES)
def test_folded_loops_are_the_loops_walked_step_by_step(monkeypatch, graph, kernels, path, arch, kwargs, configs):
    folded = graph(path, arch, pass_configs=configs, **kwargs)
    flat = step_by_step(monkeypatch, kernels, path, arch, kwargs, configs)
    assert any(len(t.repeat_first) for t in folded.templates), "nothing was folded"
    assert sum(t.nodes for t in folded.templates) < sum(t.nodes for t in flat.templates)
    assert folded.total_nodes == flat.total_nodes and folded.meta["flops"] == flat.meta["flops"]
    written_out = folded.unrolled()
    assert (written_out.instances.block == flat.instances.block).all()
    for i in {0, len(flat.instances) // 2, len(flat.instances) - 1}:
        assert contents(written_out, i) == contents(flat, i)


@pytest.mark.parametrize(("path", "arch", "kwargs", "configs"), CASES[:1] + CASES[5:6] + CASES[7:8] + CASES[-1:])
def test_folded_loops_run_as_those_walked_step_by_step(monkeypatch, graph, kernels, path, arch, kwargs, configs):
    from gtsim.backend import simulate

    hw = {"sm_90a": "h100_sxm", "sm_80": "a100_sxm"}[arch]
    folded = graph(path, arch, pass_configs=configs, **kwargs)
    flat = step_by_step(monkeypatch, kernels, path, arch, kwargs, configs)
    one, two, three = (simulate(g, hw) for g in (folded, flat, folded.unrolled()))
    assert one.cycles == two.cycles == three.cycles and one.events == two.events
    assert one.traffic == two.traffic == three.traffic
    assert sum(o.executions for o in one.operations) == sum(o.executions for o in two.operations) == folded.total_nodes


def test_blocks_that_differ_in_trip_count_only_share_templates(graph):
    g = graph("softmax.attention", "sm_90a", seq=16384, causal=True)
    assert len(set(g.times(0).ravel().tolist())) > 10
    assert len(g.templates) < 20 < len(g.unrolled().templates)
    assert sum(t.nodes for t in g.templates) < 6000


def test_a_counter_carried_through_the_loop_goes_on_behind_it(graph, kernels, monkeypatch):
    g = graph("dense.persistent", "sm_90a")
    assert {len(t.repeat_first) for t in g.templates} == {3}  # 36 tiles on 12 blocks: one a tile
    flat = step_by_step(monkeypatch, kernels, "dense.persistent", "sm_90a", {}, None)
    assert contents(g.unrolled(), 5) == contents(flat, 5)


def test_loops_steered_by_data_are_walked_step_by_step(kernels):
    from gtsim.frontend import lower

    rows = np.random.default_rng(1).permutation(64)
    g = lower(kernels("threads.paged"), kwargs={}, arch="sm_90a", metadata={"table": rows.astype(np.int32)})
    assert [len(t.repeat_first) for t in g.templates] == [0]
    at = [n.tiles[0].offset[0] for n in g.nodes_of(g.templates[0]) if n.type == "global_load"]
    assert at == (8 * rows).tolist()


def test_an_evenly_spaced_table_is_folded_with_its_step(kernels):
    from gtsim.frontend import lower

    rows = np.arange(64, dtype=np.int32)
    g = lower(kernels("threads.paged"), kwargs={}, arch="sm_90a", metadata={"table": rows})
    assert [len(t.repeat_first) for t in g.templates] == [1]
    flat = g.unrolled()
    assert [n.tiles[0].offset[0] for n in flat.nodes_of(flat.templates[0]) if n.type == "global_load"] == (8 * rows).tolist()


@pytest.mark.parametrize(("slots", "pending"), [(4, 0), (4, 2), (4, 3), (4, 6), (8, 9), (0, 1)])
def test_waits_that_reach_back_several_trips_are_kept(graph, kernels, monkeypatch, slots, pending):
    from gtsim.backend import simulate

    kwargs = {"slots": slots, "pending": pending, "trips": 30 if slots else 18}
    folded = graph("threads.queued", "sm_80", **kwargs)
    flat = step_by_step(monkeypatch, kernels, "threads.queued", "sm_80", kwargs, None)
    assert contents(folded.unrolled(), 0) == contents(flat, 0)
    assert simulate(folded, "a100_sxm").cycles == simulate(flat, "a100_sxm").cycles


def test_on_chip_tiles_that_move_on_are_walked_step_by_step(graph):
    assert [len(t.repeat_first) for t in graph("threads.queued", "sm_80", slots=0, pending=1).templates] == [0]
    assert [len(t.repeat_first) for t in graph("threads.queued", "sm_80", slots=4, pending=1).templates] == [1]


def test_a_deadlock_in_a_long_loop_is_told_as_in_a_short_one(kernels):
    from gtsim.frontend import lower
    from gtsim.graph import GraphError

    told = []
    for depth in (512, 8192):
        with pytest.raises(GraphError) as error:
            lower(kernels("dense.ring"), kwargs={"K": depth, "forget": True}, arch="sm_90a")
        told.append(str(error.value))
    assert "k=2" in told[0] and told[0] == told[1]
