"""TileLang programs in, tile graphs out.

The stages, one file each: `capture` (the compiler's IR after software pipelining), `resolve` (jit objects to PrimFuncs),
`program` (launch facts and buffers), `translate` (IR to one Python function), `walk` (running it, for all blocks of a class at
once), `emit` (recorded operations to the graph builder). Tile operations are one self-registering file each in `ops`.

Nothing here imports tilelang or tvm when it is imported.
"""
