"""Scalar state of a kernel: `local.var` counters and small `local` integer arrays become Python variables.

What a variable may depend on (block, thread) is found before the translation, because a loop may read it above the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import UnknownStatement
from .expr import BLOCK, LOOP, RUN, THREAD, Value, op_name
from .program import Program, Storage

if TYPE_CHECKING:
    from .translate import Translator


@dataclass
class Locals:
    """Scalar variables of one program."""

    program: Program
    flags: dict[Any, int]  #: storage or bound variable -> BLOCK / THREAD
    scalars: set[Storage] = field(default_factory=set)  #: the local variables that are kept
    used: dict[str, Storage] = field(default_factory=dict)

    def _name(self, storage: Storage) -> str:
        name = f"L{storage.index}"
        self.used[name] = storage
        return name

    @staticmethod
    def _size(storage: Storage) -> int:
        size = 1
        for e in storage.shape:
            size *= e
        return size

    def flags_of_var(self, var: Any) -> int:
        """What a bound variable depends on."""
        return self.flags.get(var, 0)

    def _index(self, storage: Storage, index: Sequence[Value]) -> str:
        parts, step = [], 1
        for value, extent in zip(reversed(index), reversed(storage.shape), strict=True):
            parts.append(f"{value.src} * {step}" if step > 1 else value.src)
            step *= extent
        return " + ".join(parts)

    def read(self, storage: Storage, index: Sequence[Value]) -> Value:
        """Source of a load."""
        name = self._name(storage)
        flags = LOOP | RUN | self.flags.get(storage, 0) & (BLOCK | THREAD)
        if flags & THREAD and self._size(storage) == 1:
            return Value(name, flags)
        flags &= ~THREAD
        if self._size(storage) > 1:
            return Value(f"R.lane({name}[{self._index(storage, index)}])", flags, tuple(w for i in index for w in i.work))
        return Value(f"R.lane({name})", flags)

    def write(self, translator: Translator, storage: Storage, index: Sequence[Value], value: Value) -> None:
        """Add the assignment of a store."""
        if value.flags & THREAD and self._size(storage) > 1:
            raise UnknownStatement(f"the local variable {storage.name!r} differs by thread, which is not supported")
        name = self._name(storage)
        if self._size(storage) > 1:
            name += f"[{self._index(storage, index)}]"
        translator.line(f"{name} = {value.src}")

    def declare(self, translator: Translator, storage: Storage) -> None:
        """A local array of floating-point values: storage only."""

    def declarations(self) -> list[str]:
        """Initial values."""
        return [f"{n} = 0" if self._size(s) == 1 else f"{n} = [0] * {self._size(s)}" for n, s in self.used.items()]

    def copy(self, name: str) -> str:
        """Source of a snapshot of a variable."""
        return name if self._size(self.used[name]) == 1 else f"{name}[:]"

    def stored_in(self, statements: Sequence[Any]) -> set[str]:
        """Variables that these statements assign."""
        out = set()
        for s in statements:
            for store in stores(s):
                storage = self.program.storage(store.buffer)
                if storage in self.scalars:
                    out.add(self._name(storage))
        return out


def stores(s: Any) -> list[Any]:
    """Buffer stores inside a statement whose target is thread-local."""
    import tvm

    found: list[Any] = []

    def see(node: Any) -> None:
        if type(node).__name__ == "BufferStore" and str(node.buffer.scope()) in ("local", "local.var"):
            found.append(node)

    (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.post_order_visit(s, see)
    return found


def assigns(s: Any) -> bool:
    """Whether a statement changes scalar state."""
    return bool(stores(s))


def scan_locals(program: Program, scalars: set[Storage]) -> Locals:
    """Find what each local variable and bound name may depend on."""
    import tvm

    visit = (getattr(tvm, "tirx", None) or tvm.tir).stmt_functor.post_order_visit
    defs: list[tuple[Any, Any]] = []

    def see(node: Any) -> None:
        kind = type(node).__name__
        if kind == "BufferStore" and str(node.buffer.scope()) in ("local", "local.var"):
            defs.append((program.storage(node.buffer), node.value))
        elif kind in ("Bind", "LetStmt"):
            defs.append((node.var, node.value))

    visit(program.body, see)
    sources = [(target, *_dependences(program, value)) for target, value in defs]
    flags: dict[Any, int] = {}
    changed = True
    while changed:
        changed = False
        for target, own, refs in sources:
            new = flags.get(target, 0) | own
            for r in refs:
                new |= flags.get(r, 0)
            if new != flags.get(target, 0):
                flags[target], changed = new, True
    return Locals(program, flags, scalars)


def _dependences(program: Program, value: Any) -> tuple[int, list[Any]]:
    """What a value depends on by itself, and the variables it reads."""
    import tvm

    tir = getattr(tvm, "tirx", None) or tvm.tir
    own, refs = 0, []

    def inside(node: Any) -> None:
        nonlocal own
        kind = type(node).__name__
        if kind in ("Var", "SizeVar"):
            if node in program.block_vars:
                own |= BLOCK
            elif node in program.thread_vars:
                own |= THREAD if program.thread_extents[program.thread_vars[node]] > 1 else 0
            else:
                refs.append(node)
        elif kind == "BufferLoad":
            scope = str(node.buffer.scope())
            if scope == "global" or scope.startswith("shared") or scope == "local.fragment":
                own |= BLOCK
            elif scope in ("local", "local.var"):
                refs.append(program.storage(node.buffer))
        elif kind == "Call" and "elect" in op_name(node):
            own |= THREAD
        elif kind == "Call" and op_name(node) == "tl.block_rank_in_cluster":
            own |= BLOCK

    tir.stmt_functor.post_order_visit(tir.Evaluate(value), inside)
    return own, refs
