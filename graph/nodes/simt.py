"""CUDA-core work."""

from ..registry import Attr, NodeType, register_node_type

#: Operation classes a SIMT node may count, per element of its iteration space.
OPS = ("fma", "fp64", "alu", "sfu", "cvt", "shuffle", "int")

_OPS = {**{op: Attr(float, f"{op} operations an element") for op in OPS},
        "elements": Attr(int, "elements that these warps compute", True),
        "depth": Attr(int, "length of the dependent chain of operations of one element"),
        "branches": Attr(float, "branches an element, which a warp takes for one element after the other"),
        "serial": Attr(int, "elements of a thread that wait for each other at branches (default 1)"),
        "serial_depth": Attr(int, "length of the chain around the branches of one element"),
        "serial_sfu": Attr(int, "special functions in that chain")}

register_node_type(NodeType("elementwise", "element-wise arithmetic on registers", "cuda_core", _OPS))
register_node_type(NodeType("fill", "set a tile to a constant", "cuda_core", _OPS))
register_node_type(NodeType("reduce", "reduction within the warps that execute it", "cuda_core", {
    **_OPS, "op": Attr(str, "sum, max, min, ..."), "shuffle_steps": Attr(int, "dependent shuffle steps"),
    "results": Attr(int, "elements of the result")}))
register_node_type(NodeType("scan", "running sum or maximum along one dimension", "cuda_core", {
    **_OPS, "op": Attr(str, "cumsum or cummax"), "shuffle_steps": Attr(int, "dependent shuffle steps of a warp-wide piece"),
    "pieces": Attr(int, "pieces of 32 elements that follow each other through their carry")}))
register_node_type(NodeType("control", "scalar control: loop counters, branches, addresses", "issue", {
    "int_ops": Attr(int, "dependent integer operations"), "branches": Attr(int, "branches taken or not"),
    "reason": Attr(str, "what it does")}, blocking=True))
register_node_type(NodeType("setmaxnreg", "register reallocation of a warpgroup", "issue", {
    "registers": Attr(int, "registers a thread afterwards", True), "increase": Attr(bool, "waits until the pool has enough")},
    blocking=True))
register_node_type(NodeType("opaque", "a statement that the frontend could not interpret; costs nothing", "none", {
    "text": Attr(str, "the statement")}))
