"""The contract between frontends and backend: warp-centric tile graphs.

Import arrows end here: this room imports no other room, and never tilelang, tvm or torch.
"""

from .builder import TileGraphBuilder
from .check import CheckError, Finding, Limits, check
from .dtypes import canonical_dtype, dtype_bits
from .errors import GraphError
from .handles import BarrierHandle, BufferHandle, Column, TileRef
from .io import SCHEMA_VERSION, graph_hash, load_graph, save_graph
from .model import Buffer, EdgeKind, Instances, KernelGraph, Launch, Node, Reason, Template, Tile
from .nx import from_networkx, to_networkx
from .registry import Attr, NodeType, node_type, node_types, register_node_type
from .template_builder import TemplateBuilder

__all__ = [
    "SCHEMA_VERSION", "Attr", "BarrierHandle", "Buffer", "BufferHandle", "CheckError", "Column", "EdgeKind", "Finding",
    "GraphError", "Instances", "KernelGraph", "Launch", "Limits", "Node", "NodeType", "Reason", "Template", "TemplateBuilder",
    "Tile", "TileGraphBuilder", "TileRef", "canonical_dtype", "check", "dtype_bits", "from_networkx", "graph_hash", "load_graph",
    "node_type", "node_types", "register_node_type", "save_graph", "to_networkx",
]
