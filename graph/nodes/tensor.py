"""Tensor-core operations."""

from ..registry import Attr, NodeType, register_node_type

_SHAPE = {
    "m": Attr(int, "rows of the product that these warps compute", True),
    "n": Attr(int, "columns of the product that these warps compute", True),
    "k": Attr(int, "depth of the product", True),
    "dtype": Attr(str, "element type of the operands", True),
    "instruction": Attr(str, "instruction shape, e.g. m64n128k16"),
    "instructions": Attr(int, "instructions a warp (mma) or warpgroup (wgmma) issues"),
    "sparse": Attr(bool, "two of four elements of A are zero, not stored and skipped; k counts them"),
}

register_node_type(NodeType("mma", "warp-level mma.sync with its ldmatrix loads", "tensor", {
    **_SHAPE, "a_shared": Attr(bool, "A comes from shared memory (else registers)"),
    "b_shared": Attr(bool, "B comes from shared memory (else registers)"),
    "smem_bytes": Attr(int, "bytes that ldmatrix reads from shared memory"),
}, blocking=False, memory=True))

register_node_type(NodeType("wgmma", "warpgroup MMA (Hopper)", "tensor", {
    **_SHAPE, "a_register": Attr(bool, "A comes from registers (RS form)"),
    "setup": Attr(bool, "operand descriptors are rebuilt before this group (default true)"),
}, blocking=False, memory=False))
