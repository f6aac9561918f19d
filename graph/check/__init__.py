"""What can be proven wrong about a graph before it is simulated.

:func:`check` runs the rules of :mod:`.rules`. Each rule is a file that registers itself with :func:`rule`; users add their own
the same way.
"""

from __future__ import annotations

from ..model import KernelGraph
from .findings import ERROR_KINDS, WARNING_KINDS, CheckError, Finding, Limits
from .subject import STAGES, Subject, rule, rules_of
from .targets import limits_of

__all__ = ["ERROR_KINDS", "STAGES", "WARNING_KINDS", "CheckError", "Finding", "Limits", "Subject", "check", "limits_of", "rule"]


def check(
    graph: KernelGraph,
    limits: Limits | None = None,
    *,
    races: bool = True,
    blocks: bool = True,
    cost: bool = False,
    ordered: bool = True,
) -> list[Finding]:
    """Find cycles, out-of-range warps and tiles, races, and what a target does not allow.

    Args:
        graph: what to check.
        limits: the target; without it, only what holds on every target is checked.
        races: look for races too.
        blocks: those between blocks among them.
        cost: also warn of what costs time.
        ordered: the order of the nodes is known; if not (a partial graph), what follows from it is left out.

    Returns:
        Findings, errors first.
    """
    subject = Subject(graph, limits or Limits())
    findings = [f for r in rules_of("structure") for f in r(subject)]
    broken = not ordered or any(f.kind == "deadlock" for f in findings)
    if races and not broken:
        findings += [f for r in rules_of("race") for f in r(subject)]
    if races and blocks:
        findings += [f for r in rules_of("blocks") for f in r(subject)]
    if limits is not None:
        findings += [f for r in rules_of("target") for f in r(subject)]
    if cost:
        findings += [f for r in rules_of("cost") for f in r(subject)]
    return sorted(findings, key=lambda f: f.severity != "error")
