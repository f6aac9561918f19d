"""The body of a captured kernel becomes one Python function that issues its tile operations.

Statements are visited once. Scalar control turns into Python control, tile operations into calls of prepared objects with
their origins as arguments; the function is then run by a :class:`~.walk.Walk` for each class of blocks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import GO_ON, FrontendError, UnknownStatement
from .expr import BLOCK, LOOP, OPAQUE, RUN, THREAD, Value, is_float, text_of
from .layouts import Layouts
from .locals import Locals, scan_locals
from .memory import BULK_ALIGN, RUN_ALIGN
from .probe import probe_of
from .program import Program, Storage
from .rules import Rules
from .statements import Statements, endless
from .steering import steering
from .walk import Walk
from .widths import swizzle_span

if TYPE_CHECKING:
    from .exact import KernelFacts

_DATA = re.compile(rf"\b{OPAQUE.src}\b")


@dataclass(frozen=True)
class Region:
    """A tile argument: storage, compiled origins, constant extents."""

    storage: Storage
    mins: tuple[Value, ...]
    extents: tuple[int, ...]

    @property
    def dims(self) -> tuple[int, ...]:
        """Dimensions whose extent is not 1 (the tile proper; the others select a stage or batch)."""
        return tuple(d for d, e in enumerate(self.extents) if e != 1)


@dataclass
class Usage:
    """How the program uses its shared buffers. `spans` are first and last use, in statement order."""

    spans: dict[Storage, list[int]] = field(default_factory=dict)
    generic: set[Storage] = field(default_factory=set)  #: shared buffers written by st.shared or cp.async (not TMA)
    swizzled: set[Storage] = field(default_factory=set)  #: operands of tensor cores
    loaded: set[Storage] = field(default_factory=set)  #: filled by TMA
    stored: dict[Storage, int] = field(default_factory=dict)  #: swizzle of tiles that TMA stores, unless they are operands

    def swizzle(self, storage: Storage) -> int:
        """Swizzle span of a shared buffer in bytes."""
        return swizzle_span(storage) if storage in self.swizzled else self.stored.get(storage, 0)

    def aligned(self) -> dict[Storage, int]:
        """Bytes that the tiles of TMA and wgmma start at multiples of."""
        return {s: BULK_ALIGN[self.swizzle(s)] if s in self.swizzled or s in self.loaded or self.stored[s] else RUN_ALIGN
                for s in (*self.swizzled, *self.loaded, *self.stored)}


class Translator:
    """Builds the program of one kernel; what it learns on the way (layouts, usage, warnings) is read after :meth:`finish`."""

    def __init__(self, program: Program, on_unknown: str = "error", exact: KernelFacts | None = None) -> None:
        self.program, self.on_unknown = program, on_unknown
        self.rules = Rules(program.body, exact)  #: what is known of each tile operation
        self.layouts, self.usage = Layouts(), Usage()
        self.warnings: dict[str, None] = {}
        self.swizzle: tuple[str, int] | None = None
        #: on-chip integers, and bound names, that steer control
        self.tracked, self.steering_vars = steering(program)
        self.inlined: dict[Any, Any] = {}  #: bound names that element-wise code sees as their expressions
        self.registers: dict[Any, Any] = {}  #: bound names of data -> load of the register that holds it
        self.locals: Locals = scan_locals(program, {s for s in self.tracked if self.is_scalar(s)})
        self.compile = program.compiler(self._load)
        self.in_serial = 0  #: serial loops around the current statement
        self.reason = "control"
        self._lines: list[str] = []
        self._indent = 1
        self._globals: dict[str, Any] = {"NAN": float("nan")}
        self._counted: list[set[str]] = [set()]
        self._marks: list[tuple[int, Any, str]] = []  #: first line of each statement, and the loops around it
        self.around: list[str] = []  #: loops around the current statement
        self._origin: list[int] = []  #: line of the source text -> line as it was added
        self._file = f"<{program.name}>"
        self._time = 0
        self._names = 0
        self.statements = Statements(self)
        self._heads: list[int] = []
        self._scratch: dict[tuple[str, tuple[int, ...], str], Storage] = {}
        self.staging: list[Storage] = []
        self.reductions: list[tuple[Any, int]] = []
        self.hopper = program.arch.startswith("sm_9")
        self.arch_number = int("".join(c for c in program.arch if c.isdigit()) or 0)

    # -- building lines ------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Append one line of Python."""
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Any:
        """Lines inside are the body of `head`."""
        self.line(head)
        self._indent += 1
        self.line("pass")
        yield
        self._indent -= 1

    @contextmanager
    def loop(self, name: str, start: Value, extent: Value, *, repeats: bool) -> Any:
        """Lines inside are the body of a loop of the variable `name`. If it `repeats` and its decisions can be probed, the walk
        may leave iterations out."""
        first, size = self.uniform(start), self.uniform(extent)
        head = f"for {name} in range({size}):" if start.const == 0 else f"for {name} in range({first}, {first} + {size}):"
        at = len(self._lines)
        self._lines += [""]  # room for the probe
        inside = len(self._lines) + 1
        with self.block(head):
            yield
        body = [line[4 * (self._indent + 1):] for line in self._lines[inside:] if line]
        nested = any("\n" in line for line in body)  # a loop inside has a probe of its own
        probe = probe_of(self.fresh("q"), name, body) if repeats and not nested else None
        if probe is None:
            return
        tab = "    " * self._indent
        self._lines[at] = "\n".join(tab + line for line in probe.lines)
        carried = ", ".join(probe.carried) + ("," if len(probe.carried) == 1 else "")
        stop = extent.src if start.const == 0 else f"{start.src} + {extent.src}"
        self._lines[inside - 1] = f"{tab}for {name} in R.iterate({probe.name}, ({carried}), {start.src}, {stop}):"
        if carried:
            self._lines[inside] = f"{tab}    if R.jumped: {carried} = R.carried()"
            self.line(f"if R.jumped: {carried} = R.carried()")

    def fresh(self, letter: str) -> str:
        """A new Python name."""
        self._names += 1
        return f"{letter}{self._names}"

    def mark(self, statement: Any) -> None:
        """Lines from here on belong to `statement`."""
        self._marks.append((len(self._lines), statement, "/".join(self.around)))

    def where(self, error: BaseException) -> str:
        """The statement whose line of the program raised `error`."""
        trace, number = error.__traceback__, 0
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                number = trace.tb_lineno
            trace = trace.tb_next
        mark = self._mark_of(number)
        return text_of(mark[1]) if mark else self.program.name

    def region_of(self, number: int, without: Sequence[str] = ()) -> str:
        """The loops around a line of the program, such as "t/k", up to the first that is in `without`."""
        mark = self._mark_of(number)
        names = mark[2].split("/") if mark and mark[2] else []
        for name in reversed(without):
            if name in names:
                del names[len(names) - 1 - names[::-1].index(name):]
        return "/".join(names)

    def _mark_of(self, number: int) -> tuple[int, Any, str] | None:
        at = self._origin[number - 1] if 0 < number <= len(self._origin) else -1
        found = [m for m in self._marks if m[0] <= at]
        return found[-1] if found else None

    def issue(self, operation: Callable[..., None], *args: str) -> None:
        """Add a call of a prepared operation; `args` are Python sources."""
        name = self.fresh("o")
        self._globals[name] = operation
        self._time += 1
        self.line(f"{name}({', '.join(('R', *args))})")

    def touch(self, *storages: Storage) -> None:
        """The operation about to be issued uses these buffers."""
        for storage in storages:
            if storage.scope == "shared":
                span = self.usage.spans.setdefault(storage, [self._time + 1, self._time + 1])
                span[1] = self._time + 1

    @property
    def time(self) -> int:
        """Position, in statement order, of the operation issued last."""
        return self._time

    def forget(self, storage: Storage) -> None:
        """The operation about to be issued writes something that is not computed here."""
        if storage in self.tracked and not self.is_scalar(storage):
            self.line(f"R.contents.forget({storage.index})")

    def scratch(self, name: str, shape: tuple[int, ...], dtype: str, scope: str = "fragment") -> Storage:
        """A buffer the program does not name: registers a value passes through, or a workspace the compiler adds."""
        key = (name, shape, dtype)
        found = self._scratch.get(key)
        if found is None:
            found = self._scratch[key] = Storage(len(self.program.storages), name, scope, dtype, shape)
            self.program.storages.append(found)
        return found

    def warn(self, text: str) -> None:
        """Something that costs time or was not interpreted."""
        self.warnings[text] = None

    def unknown(self, node: Any, what: str, fix: str = "") -> None:
        """An uninterpretable statement: an error, or an opaque node if the user wants to go on."""
        text = text_of(node)
        if self.on_unknown != "warn":
            raise UnknownStatement(f"{what} is not supported", where=text, fix=fix or GO_ON)
        self.warn(f"not interpreted, costs nothing: {text}")

        def opaque(walk: Walk) -> None:
            for warps in walk.active.parts:
                walk.put("opaque", warps, text[:60], attrs={"text": text})

        self.issue(opaque)

    # -- values --------------------------------------------------------------------------------------------------------------

    def uniform(self, value: Value) -> str:
        """Source of `value` as one int for the class; splits the class if blocks differ.

        Raises:
            FrontendError: it is made of floating-point data.
        """
        if _DATA.search(value.src):
            raise FrontendError("floating-point data steers control flow",
                                fix="Only integers known before the launch can; pass them as metadata.")
        return f"R.scalar({value.src})" if value.flags & (BLOCK | THREAD) else value.src

    def charge(self, *values: Value, branches: int = 0, extra: int = 0) -> None:
        """Account for the run-time integer operations of `values`; each expression counts once an iteration."""
        ops = extra
        for value in values:
            for key, cost in value.work:
                if not any(key in seen for seen in self._counted):
                    self._counted[-1].add(key)
                    ops += cost
        if ops and self._heads:
            self._heads[-1] += ops
            ops = 0
        if ops or branches:
            self.line(f"R.ctl({ops}, {branches}, {self.reason!r})")

    def region(self, arg: Any) -> Region:
        """A `T.region(...)` argument (or a plain buffer load, as a region of one element)."""
        if type(arg).__name__ == "BufferLoad":
            load, extents = arg, [1] * len(arg.indices)
        elif type(arg).__name__ == "BufferRegion":
            storage = self.program.storage(arg.buffer)
            return Region(storage, tuple(self.compile(r.min) for r in arg.region),
                          tuple(self.program.size(r.extent) for r in arg.region))
        else:
            load = arg.args[0]
            extents = [self.constant(a) for a in list(arg.args)[2:]]
        if self.program.barrier(load.buffer) is not None:
            raise FrontendError("a barrier is used as a tile", where=text_of(arg))
        storage = self.program.storage(load.buffer)
        extents = [1] * (len(storage.shape) - len(extents)) + extents
        return Region(storage, tuple(self.compile(i) for i in load.indices), tuple(extents))

    def constant(self, expr: Any) -> int:
        """A value that must be known when the kernel is translated."""
        value = self.compile(expr)
        if value.const is None:
            raise UnknownStatement("a tile whose size is not a constant is not supported", where=text_of(expr))
        return value.const

    def origins(self, region: Region) -> str:
        """Source of the origins of a tile, as the builder takes them."""
        return self.origins_of(region.storage, region.mins)

    def origins_of(self, storage: Storage, mins: tuple[Value, ...]) -> str:
        """Source of the origins of a tile of `storage`. Addresses into global memory cost nothing: they are strength-reduced."""
        if storage.scope == "global":
            parts = [v.src if not v.flags & (BLOCK | THREAD) else f"R.origin({v.src})" for v in mins]
        else:
            self.charge(*mins)
            parts = [self.uniform(v) if v.const is not None else f"R.slot({self.uniform(v)})" for v in mins]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def slot(self, load: Any) -> tuple[str, str]:
        """Barrier array name and source of the slot index of `bar[i]`."""
        if type(load).__name__ != "BufferLoad":
            raise UnknownStatement("this form of a barrier operand is not supported", where=text_of(load))
        array = self.program.barrier(load.buffer)
        if array is None:
            raise FrontendError(f"{load.buffer.name!r} is not a barrier", where=text_of(load))
        index = load.indices[0]
        value = self.compile(index)
        if type(index).__name__ == "Add" and type(index.b).__name__ == "IntImm":  # a constant offset is part of the address
            self.charge(self.compile(index.a))
        else:
            self.charge(value)
        return array.name, self.uniform(value)

    def is_scalar(self, storage: Storage) -> bool:
        """Whether a buffer is a counter: one steering integer a thread, kept as a Python variable."""
        return storage.scope == "local" and storage in self.tracked and math.prod(storage.shape) == 1

    def _load(self, e: Any) -> Value:
        if self.program.barrier(e.buffer) is not None:
            raise FrontendError("a barrier is read as data", where=text_of(e))
        storage = self.program.storage(e.buffer)
        if is_float(e):
            return OPAQUE
        parts = [self.compile(i) for i in e.indices]
        if self.is_scalar(storage):
            return self.locals.read(storage, parts)
        index = ", ".join(p.src for p in parts)
        work = tuple(w for p in parts for w in p.work)
        flags = BLOCK | LOOP | RUN
        for p in parts:
            flags |= p.flags
        if storage.scope == "global":
            guarded = ", True" if self.compile.guarded or flags & THREAD else ""
            return Value(f"R.load({storage.name!r}, {storage.shape}, ({index},), {text_of(e)!r}{guarded})", flags, work)
        if storage in self.tracked:
            return Value(f"R.contents.get({storage.index}, ({index},), {text_of(e)!r})", flags, work)
        raise FrontendError(f"control flow reads the on-chip buffer {storage.name!r}", where=text_of(e),
                            fix="Values that steer control must come from arguments or metadata.")

    @contextmanager
    def counting(self, ops: int = 0, branches: int = 0) -> Any:
        """The body of a loop or branch: expressions inside count once, at its head, where the compiler would move them."""
        self._counted.append(set())
        at = len(self._lines)
        self._lines.append("")
        self._heads.append(ops)
        yield
        ops = self._heads.pop()
        self._counted.pop()
        if ops or branches:
            self._lines[at] = "    " * self._indent + f"R.ctl({ops}, {branches}, {self.reason!r})"

    def stretch(self, entered: int) -> None:
        """Buffers used inside a loop live through it."""
        if self._time == entered:
            return
        for span in self.usage.spans.values():
            if span[1] > entered:
                span[0], span[1] = min(span[0], entered + 1), self._time

    # -- the result --------------------------------------------------------------------------------------------------------------

    def finish(self) -> Callable[[Walk], None]:
        """Translate the body and compile the program."""
        self.issue(_prologue(self.program))
        self.statements.visit(self.program.body)
        head = ["def program(R):", "    b0, b1, b2 = map(R.keep, R.blocks)", "    t0, t1, t2 = R.thread_index",
                "    rank = R.rank"]
        head += [f"    {name} = R.keep({src})" for src, name in self.compile.hoisted.items()]
        head += [f"    {line}" for line in self.locals.declarations()]
        kept = [(i, line) for i, line in enumerate(self._lines) if line]
        source = "\n".join([*head, *(line for _, line in kept), "    R.active = R.everyone", ""])
        self._origin = [-1] * len(head) + [i for i, line in kept for _ in line.split("\n")]
        self._globals["ENDLESS"] = endless
        self.source = source
        exec(compile(source, self._file, "exec"), self._globals)  # noqa: S102  our own generated text
        return self._globals["program"]  # type: ignore[no-any-return]


def _prologue(program: Program) -> Callable[[Walk], None]:
    """Hidden start of the kernel: after one thread has initialised the mbarriers, all wait; all of the cluster, if other CTAs
    may reach one."""
    def prologue(walk: Walk) -> None:
        if any(b.cluster for b in program.barriers):
            walk.cluster_barrier("init barriers")
        elif any(not b.named for b in program.barriers):
            walk.sync(source="init barriers")

    return prologue
