"""Waiting for other kernels (programmatic dependent launch) and for all CTAs of the own one (cooperative launch)."""

from __future__ import annotations

from ...graph import Node
from ...hwconfigs import Hardware
from ..demand import Demand, demand, warp


@demand("pdl_trigger")
def pdl_trigger(node: Node, hw: Hardware) -> Demand:
    """One instruction a warp; it waits for nothing, not even for the CTA's own stores."""
    return Demand([warp({"issue": len(node.warps)})], signal="trigger")


@demand("pdl_wait")
def pdl_wait(node: Node, hw: Hardware) -> Demand:
    """One instruction a warp; the engine holds it until the kernels before have completed. No published latency: none."""
    return Demand([warp({"issue": len(node.warps)})], signal="wait")


@demand("grid_sync")
def grid_sync(node: Node, hw: Hardware) -> Demand:
    """Issue of the arrival; the engine holds the warps until all CTAs are there, and `launch.grid_sync_us` more."""
    return Demand([warp({"issue": len(node.warps)})], signal="grid")
