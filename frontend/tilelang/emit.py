"""Recorded operations go to the graph builder, with the roles that warpgroups turn out to play."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import TemplateBuilder
from .clusters import Bytes
from .repetition import Repetition
from .walk import Record

_LOADS = ("tma_load", "cp_async", "global_load")
_MATH = ("wgmma", "mma")
_WORK = ("wgmma", "mma", "elementwise", "reduce", "fill")


def roles(records: Sequence[Record]) -> dict[int, str]:
    """Name the role of each warpgroup by what it does over the whole kernel."""
    loads: set[int] = set()
    math: set[int] = set()
    work: set[int] = set()
    groups: set[int] = set()
    for warps in {r[1] for r in records}:
        groups.update(w // 4 for w in warps)
    for r in records:
        group = r[1][0] // 4
        if r[0] in _LOADS:
            loads.add(group)
        if r[0] in _MATH:
            math.add(group)
        if r[0] in _WORK:
            work.add(group)
    producers = loads - work
    if not producers or producers == groups:  # everyone does everything
        return dict.fromkeys(groups, "all")
    out = dict.fromkeys(groups, "other")
    consumers = sorted(math or work)
    for i, group in enumerate(consumers):
        out[group] = f"consumer {i}" if len(consumers) > 1 else "consumer"
    for i, group in enumerate(sorted(producers)):
        out[group] = f"producer {i}" if len(producers) > 1 else "producer"
    return out


def emit(records: Sequence[Record], template: TemplateBuilder, repetition: Repetition, cta: int = 0) -> list[str]:
    """Feed the records of the CTA with rank `cta` to `template` in order. Returns the distinct roles."""
    names = roles(records)
    spans: dict[tuple[int, ...], str] = {}
    segment = repetition.segments()
    node, commit, wait_group = template.node, template.commit, template.wait_group
    for kind, warps, source, loop, reads, writes, attrs, blocking, group, wait, arrive, tx, place in records:
        template.segment = segment(place)
        role = spans.get(warps)
        if role is None:
            found = {names[w // 4] for w in warps}
            role = spans[warps] = found.pop() if len(found) == 1 else "all"
        if kind == "commit":
            commit(attrs["queue"], warps, source=source, role=role, loop=loop, cta=cta)
        elif kind == "close":
            commit(attrs["queue"], warps, node=False, cta=cta)
        elif kind == "wait_group":
            wait_group(**attrs, warps=warps, source=source, role=role, loop=loop, cta=cta)
        elif kind == "cluster_arrive":
            template.cluster_arrive(warps, cta=cta, relaxed=bool(attrs), source=source, role=role, loop=loop)
        elif kind == "cluster_wait":
            template.cluster_wait(warps, cta=cta, source=source, role=role, loop=loop)
        elif type(tx) is Bytes:
            node(kind, warps, reads=reads, writes=writes, attrs=attrs, source=source, role=role, loop=loop, cta=cta,
                 blocking=blocking, group=group, wait=wait, arrive=arrive, tx=tx.own, expect=tx.expect, deliver=tx.deliver)
        else:
            node(kind, warps, reads=reads, writes=writes, attrs=attrs, source=source, role=role, loop=loop, cta=cta,
                 blocking=blocking, group=group, wait=wait, arrive=arrive, tx=tx)
    return list(dict.fromkeys(names[g] for g in sorted(names)))
