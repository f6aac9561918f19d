"""What an architecture can do, and what one SM of it offers to a CTA.

Numbers: CUDA C++ programming guide, table of technical specifications per compute capability; PTX ISA, target notes of the
instructions. A hardware file, where there is one, says the same for its chip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .findings import Limits

MAX_CLUSTER_CTAS = 16  #: CUDA programming guide: 8, or 16 if the kernel allows a non-portable size


@dataclass(frozen=True)
class Target:
    """One compute capability: its number, which families of instructions it has, and its limits."""

    number: int
    cp_async: bool
    tma: bool
    wgmma: bool
    tcgen05: bool
    clusters: bool
    pdl: bool
    setmaxnreg: bool
    fp8: bool
    smem_cta: int
    smem_sm: int
    threads_sm: int
    ctas_sm: int
    tmem_columns: int


def _sm(number: int, smem_cta_kib: int, smem_sm_kib: int, threads: int, ctas: int) -> Target:
    datacentre_blackwell = number in (100, 101, 103, 110)
    return Target(
        number,
        number >= 80,
        number >= 90,
        number == 90,
        datacentre_blackwell,
        number >= 90,
        number >= 90,
        number == 90 or number >= 100,
        number >= 89,
        smem_cta_kib * 1024,
        smem_sm_kib * 1024,
        threads,
        ctas,
        512 if datacentre_blackwell else 0,
    )


_TARGETS = {
    t.number: t
    for t in (
        _sm(70, 96, 96, 2048, 32),
        _sm(75, 64, 64, 1024, 16),
        _sm(80, 163, 164, 2048, 32),
        _sm(86, 99, 100, 1536, 16),
        _sm(89, 99, 100, 1536, 24),
        _sm(90, 227, 228, 2048, 32),
        _sm(100, 227, 228, 2048, 32),
        _sm(103, 227, 228, 2048, 32),
        _sm(110, 227, 228, 1536, 24),
        _sm(120, 99, 100, 1536, 24),
    )
}


def target_of(arch: str) -> Target | None:
    """The target of an architecture name such as `sm_90a`, or None if it is not known."""
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    return _TARGETS.get(int(match.group(1))) if match else None


def limits_of(arch: str) -> Limits:
    """What one CTA may use on `arch`; nothing is limited on an unknown one."""
    t = target_of(arch)
    if t is None:
        return Limits(arch, arch=arch)
    return Limits(arch, 1024, t.smem_cta, 65536, 255, t.tmem_columns, arch, 0, t.threads_sm, t.smem_sm, t.ctas_sm, 1024,
                  cluster_ctas=MAX_CLUSTER_CTAS if t.clusters else 1)
