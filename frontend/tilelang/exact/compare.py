"""Rules and facts side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..memory import MemoryPlan
from .facts import KernelFacts, OperationFacts, SharedMemoryFacts

if TYPE_CHECKING:
    from ..program import Storage
    from ..translate import Translator
    from ..walk import Shared


@dataclass(frozen=True)
class Fact:
    """One fact of both kinds: its name, what the rules say, what the compiler decided (None: not known)."""

    name: str
    fast: Any
    exact: Any

    @property
    def differs(self) -> bool:
        """Whether both are known and not the same."""
        return self.fast is not None and self.exact is not None and self.fast != self.exact

    def __str__(self) -> str:
        return f"{self.name}: by rule {_text(self.fast)}, by the compiler {_text(self.exact)}"


def _text(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    return "x".join(map(str, value)) if value and isinstance(value[0], int) else ", ".join(map(str, value)) or "none"


def shared_bytes(facts: SharedMemoryFacts) -> int:
    """Shared memory of a block; static buffers, the mbarriers among them, start and end at multiples of 16 bytes."""
    return facts.dynamic_bytes + -(-facts.static_bytes // 16) * 16


def compare(translator: Translator, shared: Shared, exact: KernelFacts, plan: MemoryPlan, smem_bytes: int,
            registers: int) -> list[Fact]:
    """All facts that both sides know of.

    Args:
        translator, shared: the kernel, translated and walked.
        exact: the compiler's facts.
        plan: places of the shared buffers by rule.
        smem_bytes: shared memory by rule, with the mbarriers.
        registers: registers a thread at launch by rule.
    """
    out: list[Fact] = []
    if exact.shared_memory is not None:
        out.append(Fact("shared memory bytes", smem_bytes, shared_bytes(exact.shared_memory)))
        known = decided_memory(translator.program.storages, plan, exact)
        out.append(Fact("buffers that share bytes", _pairs(plan, known), _pairs(known, plan)))
    if exact.registers is not None:
        out.append(Fact("registers a thread", registers, exact.registers.launch))
    out.extend(Fact(f"swizzle of {name}", translator.usage.swizzle(storage), span)
               for name, storage, span in swizzles(translator, exact))
    if "operations" not in exact.unknown:
        said = translator.rules.said
        out.extend(f for facts in exact.operations for f in _operation(facts, *said.get(facts.place, ("", dict))))
    if "barriers" not in exact.unknown and shared.implicit_sync:
        out.extend(_barriers(translator, shared, exact))
    return out


def decided_memory(storages: Iterable[Storage], plan: MemoryPlan, exact: KernelFacts) -> MemoryPlan:
    """The compiler's offsets of the dynamic buffers that it names, so that buffers alias as they really do; a buffer that only
    the rules know keeps no place."""
    if exact.shared_memory is None:
        return plan
    offsets = exact.shared_memory.offsets
    names = [s.name for s in storages if s.scope == "shared"]
    known = {s: offsets[s.name] for s in storages if s.scope == "shared" and s.name in offsets and names.count(s.name) == 1}
    return MemoryPlan(known, shared_bytes(exact.shared_memory)) if known else plan


def _pairs(plan: MemoryPlan, other: MemoryPlan) -> tuple[str, ...]:
    """Pairs of buffers that overlap, of those that the other plan has too."""
    both = {s for s in plan.offsets if s in other.offsets}
    pairs = {(a, b) for a, users in plan.aliases().items() for b in users if {a, b} <= both}
    return tuple(sorted({"/".join(sorted((a.name, b.name))) for a, b in pairs}))


def swizzles(translator: Translator, exact: KernelFacts) -> Iterator[tuple[str, Any, int | None]]:
    """(name, storage, exact swizzle) of the shared buffers that the facts name without ambiguity."""
    several = {b.name.split("#")[0] for b in exact.buffers if "#" in b.name}
    for storage in translator.program.storages:
        facts = exact.buffer(storage.name) if storage.scope == "shared" and storage.name not in several else None
        if facts is not None and facts.scope == "shared":
            yield storage.name, storage, facts.swizzle_bytes


def _operation(facts: OperationFacts, source: str, said: Any) -> Iterator[Fact]:
    rule: Mapping[str, Any] = said()
    if not rule:
        return
    for key, fast in rule.items():
        yield Fact(f"{source} (operation {facts.place}), {key}", fast, _decided(facts, key))


def _decided(facts: OperationFacts, key: str) -> Any:
    main = facts.tensor_core or facts.tma
    if key == "unit":
        return main.unit if main is not None else "cp_async" if "cp_async" in facts.units else "threads"
    value = getattr(main, key, None)
    return tuple(n for n in value if n != 1) or (1,) if key == "box" and value is not None else value


def _barriers(translator: Translator, shared: Shared, exact: KernelFacts) -> Iterator[Fact]:
    everyone = translator.program.threads
    fast = Counter((translator.region_of(line, hoisted), 0 if threads == everyone else threads)
                   for (line, threads), hoisted in shared.barrier_sites.items())
    decided = {(b.region, b.threads): b.sites for b in exact.barriers}
    for region, threads in sorted({*fast, *decided}):
        where = f"in loop {region}" if region else "outside of loops"
        who = f"of {threads} threads" if threads else "of the block"
        yield Fact(f"added barriers {who} {where}", fast[region, threads], decided.get((region, threads), 0))
