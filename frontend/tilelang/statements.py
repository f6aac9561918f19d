"""Statements of a captured kernel become lines of the program: control turns into Python control."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from ..errors import GO_ON, FrontendError, UnknownStatement
from .expr import BLOCK, LOOP, OPAQUE, RUN, THREAD, Value, in_register, loads_of, op_name, text_of
from .ifs import join_ifs
from .loops import MAX_UNROLLED, elementwise_only, has_loop, plain_loop
from .program import Storage, declare
from .repetition import SHORTEST
from .unroll import chain, pieces, unrolled
from .walk import Walk

if TYPE_CHECKING:
    from .translate import Translator

MAX_WHILE = 1_000_000
_SKIP = ("tirx.type_annotation", "tl.warpgroup_fence_operand", "tl.warpgroup_arrive", "tl.warpgroup_commit_batch",
         "tl.tcgen05_before_thread_sync", "tl.tcgen05_after_thread_sync", "tl.no_set_max_nreg",
         "tl.sync_warp", "tl.device_assert", "tl.device_assert_with_msg", "tirx.tvm_call_packed", "tl.assume")


class Statements:
    """Visits statements once, in order, and adds lines to the translator `t`."""

    def __init__(self, t: Translator) -> None:
        self.t = t
        self._breakable: list[bool] = []
        self._scope_ws: tuple[int, int] | None = None

    def visit(self, s: Any) -> None:
        """Translate one statement."""
        method = getattr(self, "_visit_" + type(s).__name__, None)
        if method is None:
            self.t.unknown(s, f"a {type(s).__name__} statement")
            return
        self.t.mark(s)
        try:
            method(s)
        except FrontendError as e:
            kind = type(s).__name__
            leaf = kind in ("Evaluate", "BufferStore") or (kind == "For" and int(s.kind) == 1)
            if isinstance(e, UnknownStatement) and leaf:
                if self.t.on_unknown == "warn":
                    self.t.unknown(s, e.problem)
                    return
                raise type(e)(e.problem, where=e.where or text_of(s), fix=e.fix or GO_ON) from e
            if not e.where:
                raise type(e)(e.problem, where=text_of(s), fix=e.fix) from e
            raise

    def _visit_SeqStmt(self, s: Any) -> None:
        for part in join_ifs(list(s.seq)):
            if isinstance(part, list):
                self._if(part[0].condition, part, None)
            else:
                self.visit(part)

    def _visit_SBlockRealize(self, s: Any) -> None:
        if str(s.block.name_hint) != "tilelang_root":
            declare(self.t.program, s.block)
        predicate = self.t.compile(s.predicate)
        if predicate.const == 1:
            self.visit(s.block.body)
        else:
            self.t.charge(predicate, branches=1 if predicate.flags & RUN else 0)
            with self.t.block(f"if {self.t.uniform(predicate)}:"):
                self._whole([s.block.body])

    _visit_BlockRealize = _visit_SBlockRealize

    def _visit_AttrStmt(self, s: Any) -> None:
        key = str(s.attr_key)
        if key == "kWarpSpecializationScope":
            numbers = [int(n) for n in s.node]
            self._scope_ws = (numbers[0], numbers[1])
            self.t.issue(_join_before_roles(self.t.usage.loaded))
        elif key == "threadblock_swizzle_pattern":
            args = [a.value for a in s.value.args]
            self.t.swizzle = (str(args[0]), int(args[1]))
        elif key == "thread_extent" and not {s.node.var} & {*self.t.program.block_vars, *self.t.program.thread_vars}:
            if not self._same_axis(s.node.var, str(s.node.thread_tag)):
                self.t.unknown(s, "a nested thread axis")
                return
        self.visit(s.body)

    def _same_axis(self, var: Any, tag: str) -> bool:
        """A second name of a thread axis of the launch."""
        letter = tag[-1:]
        for known, axis in self.t.program.thread_vars.items():
            if tag.startswith("threadIdx") and "xyz"[axis] == letter:
                self.t.compile.env[var] = self.t.compile.env[known]
                self.t.inlined[var] = known
                return True
        return False

    def _visit_Bind(self, s: Any) -> None:
        self.t.inlined[s.var] = s.value
        if str(s.var.dtype) == "handle":  # where a tensor lies, not what is done with it
            self.t.compile.env.pop(s.var, None)
            return
        try:
            value = self.t.compile(s.value)
        except FrontendError:  # data: element-wise code computes it where it is used
            if s.var in self.t.steering_vars:
                raise
            self._keep_data(s)
            return
        if value.src == OPAQUE.src:
            self._keep_data(s)
            return
        self.t.charge(value)
        flags = value.flags | self.t.locals.flags_of_var(s.var)
        if value.flags in (0, BLOCK) and (value.const is not None or value.src.isidentifier()) and flags == value.flags:
            self.t.compile.env[s.var] = value
            return
        name = self.t.fresh("v")
        src = f"R.keep({value.src})" if value.flags & BLOCK and not value.flags & ~BLOCK else value.src
        self.t.line(f"{name} = {src}")
        self.t.compile.env[s.var] = Value(name, flags | LOOP)

    def _keep_data(self, s: Any) -> None:
        """A name for data: what it loads is loaded here, once, into a register of each thread."""
        self.t.compile.env.pop(s.var, None)
        if any(str(x.buffer.scope()).startswith(("global", "shared")) for x in loads_of(s.value)):
            store, load = in_register(s.var, s.value)
            self.t.registers[s.var] = self.t.inlined[s.var] = load
            self.visit(store)

    def _visit_LetStmt(self, s: Any) -> None:
        self._visit_Bind(s)
        self.visit(s.body)

    def _visit_AllocBuffer(self, s: Any) -> None:
        self.t.program.storage(s.buffer)
        if getattr(s, "body", None) is not None:
            self.visit(s.body)

    _visit_DeclBuffer = _visit_AllocBuffer

    def _visit_AssertStmt(self, s: Any) -> None:
        if getattr(s, "body", None) is not None:
            self.visit(s.body)

    def _visit_IfThenElse(self, s: Any) -> None:
        self._if(s.condition, [s], s.else_case)

    def _if(self, condition: Any, parts: list[Any], else_case: Any) -> None:
        try:
            value = self.t.compile(condition)
            self.t.uniform(value)
        except FrontendError:
            if not all(elementwise_only(p) for p in (*(p.then_case for p in parts), else_case) if p is not None):
                raise
            from .ops.parallel import parallel_nest

            self.t.warn(f"data decides the branch {text_of(condition, 60)}: it is counted as taken")
            for part in parts:  # a predicate on data: each thread decides for itself
                parallel_nest(self.t, part)
            return
        if value.const is not None:
            if value.const:
                for part in parts:
                    self.visit(part.then_case)
            elif else_case is not None:
                self.visit(else_case)
            return
        runtime = bool(value.flags & RUN)
        self.t.charge(value, branches=1 if runtime else 0)
        if value.flags & THREAD:
            self._thread_if(value, parts, else_case)
            return
        with self.t.block(f"if {self.t.uniform(value)}:"), self.t.counting():
            self._whole([p.then_case for p in parts[:-1]])
            entered = self.t.time
            self.visit(parts[-1].then_case)
        if else_case is not None:
            with self.t.block("else:"), self.t.counting():
                self.visit(else_case)
        self.t.stretch(entered)

    def _whole(self, sides: Iterable[Any]) -> None:
        """Translate what stands in conditional statements: the compiler sees each as one use of the buffers in it."""
        for side in sides:
            entered = self.t.time
            self.visit(side)
            self.t.stretch(entered)

    def _thread_if(self, value: Value, parts: list[Any], else_case: Any) -> None:
        from .ops.registers import role_registers

        branch = self.t.fresh("k")
        sides = [p.then_case for p in parts]
        registers = role_registers(self.t, sides, else_case, self._scope_ws)
        automatic, self._scope_ws = self._scope_ws is not None, None
        first = self.t.locals.stored_in(sides)
        second = self.t.locals.stored_in([else_case] if else_case is not None else [])
        touched = sorted({*first, *second})
        self.t.line(f"{branch} = R.split({value.src})")
        for name in touched:
            self.t.line(f"{branch}_{name} = {self.t.locals.copy(name)}")
        self._breakable.append(False)
        with self.t.block(f"if {branch}.then is not None:"), self.t.counting():
            self.t.line(f"R.active = {branch}.then")
            registers(0)
            self._whole(sides[:-1])
            entered = self.t.time
            self.visit(sides[-1])
        if touched:
            pairs = ", ".join(touched)
            saved = ", ".join(f"{branch}_{n}" for n in touched)
            self.t.line(f"{saved}, {pairs} = {pairs}, {saved}")
        if else_case is not None:
            with self.t.block(f"if {branch}.other is not None:"), self.t.counting():
                self.t.line(f"R.active = {branch}.other")
                registers(1)
                self.visit(else_case)
        if not automatic:  # the compiler looks into roles that it made itself
            self.t.stretch(entered)
        self._breakable.pop()
        self.t.line(f"R.active = {branch}.parent")
        for name in touched:
            self.t.line(f"{name} = R.merge({branch}, {branch}_{name}, {name})")

    def _visit_For(self, s: Any) -> None:
        kind = int(s.kind)
        if kind in (1, 2):
            from .ops.parallel import parallel_nest

            parallel_nest(self.t, s)
            return
        if kind == 4 and self._same_axis(s.loop_var, str(s.thread_binding.thread_tag)):
            self.visit(s.body)
            return
        start, extent = self.t.compile(s.min), self.t.compile(s.extent)
        if kind in (0, 3) and extent.const is not None and self._unrolled(s):
            return
        if start.const == 0 and 4 < (extent.const or 0) <= MAX_UNROLLED and plain_loop(self.t, s):
            from .ops.parallel import parallel_nest

            parallel_nest(self.t, s, chain(self.t, s))
            return
        name = self.t.fresh("v")
        small = extent.const is not None and extent.const <= 4 and not has_loop(s.body)
        unrolled = kind == 3 or small
        flags = LOOP | (start.flags | extent.flags) & RUN if unrolled else LOOP | RUN
        self.t.compile.env[s.loop_var] = Value(name, flags)
        self.t.charge(start, extent)
        label = str(s.loop_var.name)
        outer_reason = self.t.reason
        if not unrolled:
            self.t.reason = f"loop {label}"
            self.t.in_serial += 1
        entered = self.t.time
        prefix = self.t.fresh("p")
        if kind != 3:  # a short loop that the compiler unrolls keeps its name in messages, in front: "i=1 of k=7"
            self.t.line(f"{prefix} = R.loop")
            if unrolled:
                self.t.line(f"{prefix}_ = ' of ' + {prefix} if {prefix} else ''")
            else:
                self.t.line(f"{prefix}_ = {prefix} + ', {label}=' if {prefix} else '{label}='")
        self._breakable.append(True)
        self.t.around.append(label)
        self.t.line(f"{prefix}at = R.at")
        with self.t.loop(name, start, extent, repeats=not unrolled and (extent.const is None or extent.const >= SHORTEST)):
            self.t.line(f"R.at = {prefix}at + '{label}=' + str({name}) + ', '")
            if kind != 3:
                mine = f"'{label}=' + str({name}) + {prefix}_" if unrolled else f"{prefix}_ + str({name})"
                self.t.line(f"R.loop = {mine}")
            with self.t.counting(0 if unrolled else 1, 0 if unrolled else 1):
                self.visit(s.body)
        self.t.around.pop()
        self._breakable.pop()
        self.t.line(f"R.at = {prefix}at")
        if kind != 3:
            self.t.line(f"R.loop = {prefix}")
        if not unrolled:
            self.t.in_serial -= 1
        self.t.reason = outer_reason
        self.t.stretch(entered)

    def _unrolled(self, s: Any) -> bool:
        """Translate a loop of element-wise code that the compiler unrolls; says whether it is one."""
        from .ops.parallel import parallel_nest

        parts = unrolled(self.t, s)
        if parts is None:
            chunks = pieces(self.t, s)
            if chunks is None:
                return False
            self._visit_For(chunks)
            return True
        for part in parts:
            parallel_nest(self.t, part.nest, part.chain, part.varies)
        return True

    def _visit_While(self, s: Any) -> None:
        value = self.t.compile(s.condition)
        count = self.t.fresh("n")
        entered = self.t.time
        prefix = self.t.fresh("p")
        self.t.line(f"{count} = 0")
        self.t.line(f"{prefix} = R.loop")
        self.t.line(f"{prefix}_ = {prefix} + ', while=' if {prefix} else 'while='")
        self._breakable.append(True)
        self.t.in_serial += 1
        self.t.around.append("while")
        with self.t.block("while True:"), self.t.counting():
            self.t.charge(value, branches=1)
            with self.t.block(f"if not {self.t.uniform(value)}:"):
                self.t.line("break")
            self.t.line(f"R.loop = {prefix}_ + str({count})")
            self.t.line(f"{count} += 1")
            with self.t.block(f"if {count} > {MAX_WHILE}:"):
                self.t.line(f"raise ENDLESS({text_of(s)!r})")
            self.visit(s.body)
        self.t.around.pop()
        self.t.line(f"R.loop = {prefix}")
        self.t.in_serial -= 1
        self._breakable.pop()
        self.t.stretch(entered)

    def _visit_BufferStore(self, s: Any) -> None:
        storage = self.t.program.storage(s.buffer)
        if self.t.is_scalar(storage):
            value = self.t.compile(s.value)
            self.t.charge(value)
            self.t.locals.write(self.t, storage, [self.t.compile(i) for i in s.indices], value)
            return
        if storage.scope == "local":
            self.t.locals.declare(self.t, storage)
        from .ops.parallel import parallel_nest

        parallel_nest(self.t, s)

    def _visit_Evaluate(self, s: Any) -> None:
        call = s.value
        if type(call).__name__ != "Call":
            return
        self.t.rules.at(s)
        from .ops import handler
        from .ops.nest import element_call_of

        name = op_name(call)
        if name in _SKIP:
            return
        if name in ("tirx.break_loop", "tl.break_loop", "tl.loop_break"):
            if not self._breakable or not self._breakable[-1]:
                raise UnknownStatement("leaving a loop from inside a thread-dependent `if` is not supported")
            self.t.line("break")
            return
        found = handler(name)
        if found is None and element_call_of(name) is not None:
            from .ops.parallel import parallel_nest

            parallel_nest(self.t, s)
            return
        if found is None:
            self.t.unknown(s, name)
            return
        found(self.t, call)


def endless(text: str) -> FrontendError:
    """The error of a `while` loop that does not end."""
    return FrontendError(f"the loop runs more than {MAX_WHILE} times", where=text)


def _join_before_roles(loaded: Collection[Storage]) -> Callable[[Walk], None]:
    """The barrier between loads that stand before the roles and the roles themselves, and, where the roles are entered again,
    between tiles that were read since the last barrier and the loads that fill them anew."""
    def join(walk: Walk) -> None:
        if not walk.shared.implicit_sync:
            return
        reads, writes = walk.hazards.reads, walk.hazards.writes
        if any(reads.get(s) or any(who.whole for _, who in writes.get(s, ())) for s in loaded):
            walk.sync()

    return join
