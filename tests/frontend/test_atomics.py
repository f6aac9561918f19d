"""Atomic updates of global tiles."""


def test_a_tma_reduction_is_one_bulk_store_that_adds(graph, view):
    v = view(graph("rare.added", "sm_90a"))
    store = v.of("tma_store")[0]
    assert store.attrs["reduce"] is True and len(store.warps) == 1 and store.blocking
    assert store.attrs["box"] == (64, 32)  # rows of 128 bytes: the span of the swizzle
    assert [(x.buffer.name, x.extent) for x in (*store.reads, *store.writes)] == [("s", (64, 128)), ("C", (64, 128))]
    assert v.of("atomic") == []


def test_the_tile_is_complete_and_visible_to_the_copy_engine_before(graph, view):
    kinds = [n.type for n in view(graph("rare.added", "sm_90a")).nodes]
    assert kinds == ["global_load", "shared_store", "cta_sync", "fence", "tma_store"]


def test_without_tma_every_element_is_an_update_at_the_l2(graph, view):
    v = view(graph("rare.added", "sm_90a", use_tma=False))
    node = v.of("atomic")[0]
    assert node.writes[0].elements == 64 * 128 and node.warps == (0, 1, 2, 3)
    assert v.of("tma_store") == [] and [n.type for n in v.nodes].count("shared_load") == 1
