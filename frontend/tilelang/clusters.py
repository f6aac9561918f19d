"""Clusters of CTAs: their shape, which blocks belong to one, and what a node has beyond that of a single CTA."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import FrontendError, UnknownStatement


class Bytes(NamedTuple):
    """Whose transaction bytes a node completes or expects; takes the place of a record's `tx` (see `walk`)."""

    own: Any = None  #: (barrier, slot) of the node's own CTA, completed by its data
    expect: Any = None  #: (barrier, slot) that another CTA's data completes
    deliver: tuple[Any, ...] = ()  #: (barrier, slot)s of other CTAs that its data completes


def cluster_dims(annotations: Mapping[str, Any], grid: tuple[int, int, int], arch: str, name: str) -> tuple[int, int, int]:
    """CTAs of a cluster in x, y, z.

    Raises:
        FrontendError: the target has no clusters, the grid is not a whole number of them, or CTA pairs share an MMA.
    """
    dims = [int(n) for n in annotations.get("cluster_dims", ())]
    x, y, z = (*dims, 1, 1, 1)[:3]
    if "use_2cta" in annotations:
        raise UnknownStatement("tensor-core products by CTA pairs (use_2cta) are not supported yet", where=name)
    if (x, y, z) == (1, 1, 1):
        return x, y, z
    if not arch.startswith(("sm_9", "sm_1")):
        raise FrontendError(f"clusters do not exist on {arch}", where=name, fix="Use the target sm_90a, or launch without one.")
    for axis, ctas, size in zip("xyz", grid, (x, y, z), strict=True):
        if ctas % size:
            raise FrontendError(f"{ctas} blocks in {axis} are not a whole number of clusters of {size}", where=name,
                                fix=f"Make the grid's extent in {axis} a multiple of {size}.")
    return x, y, z


def cluster_blocks(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> Any:
    """Coordinates [clusters, ranks, 3] of the blocks of each cluster, both x fastest (PTX ISA, %cluster_ctarank)."""
    from .launch import block_coordinates

    first = block_coordinates((grid[0] // cluster[0], grid[1] // cluster[1], grid[2] // cluster[2])) * np.array(cluster)
    return first[:, None, :] + block_coordinates(cluster)[None, :, :]


def cluster_positions(grid: tuple[int, int, int], cluster: tuple[int, int, int], swizzle: tuple[str, int] | None) -> Any:
    """Position in launch order of each cluster of :func:`cluster_blocks`. A block swizzle moves whole clusters.

    Raises:
        FrontendError: a swizzle that TileLang does not compile for this cluster.
    """
    from .launch import launch_positions

    if swizzle is not None and math.prod(cluster) > 1:
        if cluster[1:] != (1, 1) or swizzle[1] % cluster[0]:
            raise FrontendError(f"a block swizzle of {swizzle[1]} with clusters of {cluster}",
                                fix="Use clusters in x only, and a panel that is a multiple of their size.")
        swizzle = swizzle[0], swizzle[1] // cluster[0]
    return launch_positions((grid[0] // cluster[0], grid[1] // cluster[1], grid[2] // cluster[2]), swizzle)


def check_mask(mask: int, cluster: tuple[int, int, int], where: str) -> None:
    """Refuse a multicast mask that names CTAs the cluster lacks."""
    size = math.prod(cluster)
    if mask >> size:
        raise FrontendError(f"the multicast mask {mask:#b} names CTAs beyond the {size} of the cluster", where=where,
                            fix="Launch larger clusters, or clear those bits.")
