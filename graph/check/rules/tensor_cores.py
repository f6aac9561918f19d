"""Products that do not use the target's best tensor-core instruction."""

from __future__ import annotations

from collections.abc import Iterable

from ...dtypes import dtype_bits
from ..findings import Finding
from ..subject import Subject, rule


@rule("cost")
def fallback(subject: Subject) -> Iterable[Finding]:
    """mma.sync on a target with wgmma."""
    graph, target = subject.graph, subject.target
    if target is None or not target.wgmma:
        return
    told: set[str] = set()
    for t, i in subject.sites("mma"):
        node = graph.node(t, i)
        if node.source in told:
            continue
        told.add(node.source)
        m, n = int(node.attrs.get("m", 64)), int(node.attrs.get("n", 8))
        bits = dtype_bits(str(node.attrs.get("dtype", "float16")))
        reasons = [
            text
            for holds, text in (
                (m < 64, f"{m} rows are fewer than the 64 of wgmma"),
                (len(node.warps) % 4 != 0, f"{len(node.warps)} warps are not whole warpgroups"),
                (bits == 64 or bits < 8, f"wgmma has no {bits}-bit operands"),
                (not node.attrs.get("b_shared", True), "B is not in shared memory"),
            )
            if holds
        ]
        why = "; ".join(reasons) or "no wgmma for this shape, type, layout or thread count"
        yield Finding(
            "tensor-core",
            "warning",
            node.source or node.label(),
            f"{node.source or 'a product'} runs as mma.sync on {subject.arch}, at most about 60 % of what wgmma reaches: {why}",
            "Give it at least 64 rows, whole warpgroups, and B in shared memory.",
            {"m": m, "n": n, "warps": len(node.warps), "reasons": reasons},
        )
