"""Programmatic dependent launch: what a kernel says to the kernels before and behind it in its stream."""

from ..registry import NodeType, register_node_type

register_node_type(
    NodeType(
        "pdl_trigger",
        "griddepcontrol.launch_dependents: as far as this CTA is concerned, the next kernel may start",
        "sync",
    )
)
register_node_type(
    NodeType(
        "pdl_wait",
        "griddepcontrol.wait: until the kernels before this one have completed and their writes are visible",
        "sync",
        blocking=True,
    )
)
