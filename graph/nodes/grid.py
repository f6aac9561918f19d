"""Cooperative launches: a barrier over all CTAs."""

from ..registry import NodeType, register_node_type

register_node_type(
    NodeType(
        "grid_sync",
        "cooperative groups' grid.sync(): until every CTA of the grid has come as far",
        "sync",
        blocking=True,
        sync=True,
    )
)
