"""What a check finds, what a target offers, and the error that carries findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import GraphError

if TYPE_CHECKING:
    from ..model import KernelGraph

#: Kinds of finding that are errors: the kernel hangs, computes wrong results, or cannot be launched.
ERROR_KINDS = ("deadlock", "arrivals", "race", "bounds", "overflow", "residency", "illegal")

#: Kinds that only cost time.
WARNING_KINDS = ("pipelining", "specialisation", "tensor-core", "bank-conflict", "tail-wave", "occupancy", "spill", "frontend")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (`error`) or costs time (`warning`).

    Attributes:
        kind: one of :data:`ERROR_KINDS` or :data:`WARNING_KINDS`.
        severity: "error" or "warning".
        where: template, node or kernel that is meant.
        text: what is wrong; a deadlock takes several lines.
        fix: what the user can do about it.
        details: the numbers and names in `text`, for programs.
    """

    kind: str
    severity: str
    where: str
    text: str
    fix: str = ""
    details: Mapping[str, Any] = field(default_factory=dict, compare=False, hash=False)

    @property
    def cause(self) -> Any:
        """Equal for findings that say the same of two classes of blocks, at whatever place of a loop."""
        d = self.details
        chain = tuple((link["wait"]["source"], link["barrier"]) for link in d.get("chain", ())[:1])
        return self.kind, d.get("barrier", self.text), d.get("slot"), d.get("needed"), chain

    def line(self) -> str:
        """`text` on one line."""
        return "; ".join(self.text.split("\n"))


@dataclass(frozen=True)
class Limits:
    """What a target offers; 0 means not limited, or not known.

    Attributes:
        name: of the target, for messages.
        threads, smem_bytes, registers, registers_per_thread, tmem_columns: of one CTA.
        arch: architecture, e.g. `sm_90a`: which instructions are legal.
        sms: SMs of the chip.
        sm_threads, sm_smem_bytes, sm_ctas: of one SM.
        smem_reserved_bytes: shared memory that the system takes from each CTA.
        register_unit: registers are given to warps in multiples of this.
        cluster_ctas: CTAs of the largest cluster.
        gpc_sms: SMs of each GPC: a cluster runs within one.
    """

    name: str = ""
    threads: int = 0
    smem_bytes: int = 0
    registers: int = 0
    registers_per_thread: int = 0
    tmem_columns: int = 0
    arch: str = ""
    sms: int = 0
    sm_threads: int = 0
    sm_smem_bytes: int = 0
    sm_ctas: int = 0
    smem_reserved_bytes: int = 0
    register_unit: int = 256
    cluster_ctas: int = 0
    gpc_sms: tuple[int, ...] = ()


class CheckError(GraphError):
    """A graph that cannot be built or run, with what was found.

    Attributes:
        findings: every finding, the gravest first.
        partial: the graph as far as it is known, without the order that its barriers should give, or None. It is no graph to
            simulate; what is wrong in it whatever the order can still be found.
    """

    def __init__(self, findings: Iterable[Finding], partial: KernelGraph | None = None) -> None:
        self.findings, self.partial = tuple(findings), partial
        first = self.findings[0]
        super().__init__(first.line(), where=first.where, fix=first.fix)
