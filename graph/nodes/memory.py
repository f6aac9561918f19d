"""Data movement between global memory, shared memory and registers."""

from ..registry import Attr, NodeType, register_node_type

_WIDTH = {"access_bytes": Attr(int, "bytes one thread moves with one instruction"),
          "row_bytes": Attr(int, "contiguous bytes that one warp instruction touches in a row of the tensor"),
          "copies": Attr(float, "how often lanes read each element of the tile, on average (default 1)"),
          "approximate": Attr(bool, "the tile in global memory is a bound: conditions or data decide which elements are meant")}
_LANES = {**_WIDTH,
          "lanes": Attr(tuple, "lanes of a warp side by side in shared memory, then groups of these, and so on (default: along "
                               "the rows of the tile)"),
          "lane_steps": Attr(tuple, "elements of the buffer from one of them to the next; 0 where they read the same", least=0)}
_TMA = {"tensor_map": Attr(bool, "goes through a tensor map (else a plain bulk copy)"),
        "box": Attr(tuple, "box of one instruction, outermost first, elements"),
        "multicast": Attr(int, "mask of the ranks of the CTAs that receive it, where there are others than its own")}

register_node_type(NodeType("tma_load", "TMA copy, global to shared", "tma", _TMA, blocking=False, memory=False))
register_node_type(NodeType("tma_store", "TMA copy, shared to global", "tma",
                            {**_TMA, "reduce": Attr(bool, "adds to memory instead of storing"),
                             "until_read": Attr(bool, "blocking holds its warps only until it has read its tile in shared "
                                                      "memory")}, blocking=False))
register_node_type(NodeType("cp_async", "cp.async, global to shared", "lsu", _WIDTH, blocking=False))
register_node_type(NodeType("global_load", "ld.global into registers", "lsu", {
    **_WIDTH, "lines": Attr(int, "lines of memory that the lanes of one instruction reach, where lanes want the same elements "
                                 "again (default 1)"),
    "rounds": Attr(int, "loads of an element that wait for those of the element before, because a branch stands between them "
                        "(default 1)")}, memory=True))
register_node_type(NodeType("global_store", "st.global from registers", "lsu", {
    **_WIDTH, "rounds": Attr(int, "stores of a thread that two conditions each stand around: branches and an address for each "
                                  "(default 0)")}, memory=True))
register_node_type(NodeType("shared_load", "ld.shared or ldmatrix", "smem", _LANES, memory=True))
register_node_type(NodeType("shared_store", "st.shared or stmatrix", "smem", _LANES, memory=True))
register_node_type(NodeType("dsmem_load", "ld from shared memory of another CTA of the cluster", "dsmem", _WIDTH, memory=True))
register_node_type(NodeType("dsmem_store", "st to shared memory of another CTA of the cluster", "dsmem", _WIDTH, memory=True))
register_node_type(NodeType("dsmem_copy", "bulk copy from shared memory to that of another CTA of the cluster", "tma",
                            {"copies": Attr(int, "bulk copies, one a contiguous piece")}, blocking=False))
register_node_type(NodeType("atomic", "read-modify-write at the L2", "lsu", _WIDTH, memory=True))
