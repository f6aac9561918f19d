"""From a checkout of tile-ai/TileOPs to the kernels that its benchmarks time, on a machine without a GPU.

Holds no code of TileOPs. `fake_gpu` is the H200 that is not there, `capture` records what would be launched, `benchmarks` finds
and runs the benchmark of a measured row. Loading a checkout patches torch and tilelang for the whole process.
"""
