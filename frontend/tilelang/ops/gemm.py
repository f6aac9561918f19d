"""Matrix products: wgmma and mma.sync."""

from __future__ import annotations

import math
from typing import Any

from ...errors import FrontendError, shorten
from ..expr import op_name, text_of
from ..sync import Access
from ..translate import Region, Translator
from ..walk import Walk
from ..warps import Grid
from . import tile_op
from .barriers import _PROXY

_WGMMA_K = {8: 32, 16: 16, 32: 8}  #: element bits -> depth of one wgmma
_MMA_K = {4: 64, 8: 32, 16: 16, 32: 8, 64: 4}
_MMA_DTYPE = {"float32": "tfloat32"}


def wgmma_width(columns: int) -> int:
    """Widest legal wgmma N (a multiple of 16 up to 256) that tiles `columns`, as the compiler selects it."""
    floor = math.gcd(columns, 256)
    if columns % 16:
        return floor
    return max([floor] + [n for n in range(16, 257, 16) if columns % n == 0])


class Gemm:
    """One GEMM statement. Instruction and warp partition depend on the executing warps, so plans are made on first use."""

    def __init__(self, t: Translator, call: Any, a: Region, b: Region, c: Region, which: Region | None = None) -> None:
        args = call.args
        self.call, self.a, self.b, self.c, self.which = call, a, b, c, which
        self.sparse = which is not None
        at = 5 if self.sparse else 3  #: gemm_sp has the metadata, and whether it is transposed, in between
        self.trans_a, self.trans_b = (bool(t.constant(args[i])) for i in ((4, 6) if self.sparse else (3, 4)))
        self.m, self.n, self.k = (t.constant(x) for x in args[at + 2:at + 5])
        self.stored_k = self.k // 2 if self.sparse else self.k  #: two of four elements of A are zero and not stored
        self.kind = op_name(call).rsplit(".", 1)[-1]
        self.target, self.hopper = t.program.target, t.hopper
        self.dtype = _MMA_DTYPE.get(a.storage.dtype, a.storage.dtype)
        self.a_shared, self.b_shared = a.storage.scope == "shared", b.storage.scope == "shared"
        self.source = f"gemm({a.storage.name}, {b.storage.name} -> {c.storage.name})"
        self.generic = t.usage.generic
        facts = t.rules.exact
        self.exact = facts.tensor_core if facts is not None else None
        self._keys: dict[int, str] = {}
        self._grids: dict[tuple[int, str], Grid] = {}
        self._plans: dict[Any, tuple[dict[str, Any], list[Any]]] = {}
        self._accesses: dict[Any, tuple[Access, ...]] = {}
        self._tiles: dict[Any, Any] = {}
        self._fenced = False
        self.warn, self.text = t.warn, text_of(call)

    def by_rule(self) -> dict[str, Any]:
        """Facts by rule, named as in :class:`~..exact.TensorCoreFacts`; None for what differs between executing warp sets."""
        said = [rule for rule, _ in self._plans.values()]
        return {k: v if all(s[k] == v for s in said) else None for k, v in said[0].items()} if said else {}

    def instruction(self, warps: int) -> str:
        """`wgmma` or `mma`: the compiler's choice for a set of that many warps."""
        key = self._keys.get(warps)
        if key is None:
            key = self._keys[warps] = self.exact.unit if self.exact is not None else self._ask_instruction(warps)
        return key

    def _ask_instruction(self, warps: int) -> str:
        if self.kind.startswith("wgmma"):
            if warps % 4:
                raise FrontendError(f"wgmma needs whole warpgroups, {warps} warps execute it", where=self.text)
            return "wgmma"
        import tvm

        builder = self.call.op.get_attr("TLOpBuilder")
        with self.target:
            found = str(tvm.get_global_func(f"tl.Gemm{'SP' if self.sparse else ''}GetGemmInstructionKey")(
                builder(self.call.args, self.call.annotations), warps * 32, self.target))
        found = found.removesuffix(".sp")
        if found.endswith("wgmma"):
            return "wgmma"
        if found.endswith(".mma"):
            if self.hopper:
                self.warn(f"{self.source} falls back to mma.sync on {self.target.attrs['arch']}: "
                          "no wgmma for this shape, type or thread count")
            return "mma"
        raise FrontendError(f"the instruction {found} is not supported yet", where=self.text)

    def grid(self, warps: int) -> Grid:
        """How many warps share the rows and the columns."""
        return self._partition(warps, self.instruction(warps))

    def _partition(self, warps: int, unit: str) -> Grid:
        found = self._grids.get((warps, unit))
        if found is None:
            policy = self.call.op.get_attr("TLOpBuilder")(self.call.args, self.call.annotations).policy
            try:
                with self.target:
                    m, n = policy.compute_warp_partition(self.m, self.n, warps * 32, self.target,
                                                         f"cuda.{unit}{'.sp' if self.sparse else ''}")
            except Exception as e:
                last = [ln for ln in str(e).strip().split("\n") if ln.strip()]
                raise FrontendError(shorten(last[-1], 200) if last else "no warp partition exists", where=self.text,
                                    fix="Adjust the threads or the tile.") from e
            found = self._grids[warps, unit] = Grid(int(m), int(n))
        return found

    def _rule(self, warps: int) -> dict[str, Any]:
        """The instructions of one warpgroup (wgmma) or warp (mma) by rule."""
        unit = self._ask_instruction(warps)
        grid = self._partition(warps, unit)
        bits, denser = self.a.storage.bits, 2 if self.sparse else 1  # a sparse instruction takes twice the depth
        rows, columns = max(self.m // grid.m, 1), max(self.n // grid.n, 1)
        if unit == "wgmma":
            width, depth = wgmma_width(columns), _WGMMA_K.get(bits, 16) * denser
            count = max(4 * rows // 64, 1) * (columns // width) * (self.k // depth)
            return {"unit": unit, "shape": f"m64n{width}k{depth}", "instructions": count, "a_register": not self.a_shared}
        depth = _MMA_K.get(bits, 16) * denser
        count = max(rows // 16, 1) * max(columns // 8, 1) * max(self.k // depth, 1)
        return {"unit": unit, "shape": f"m16n8k{depth}", "instructions": count, "a_register": False}

    def _plan(self, walk: Walk) -> tuple[dict[str, Any], list[Any]]:
        active = walk.active
        warps = len(active.warps)
        if active.threads != 32 * warps:
            raise FrontendError(f"a product needs whole warps, {active.threads} threads execute it", where=self.text,
                                fix="Launch a multiple of 32 threads.")
        rule = self._rule(warps)
        made = rule if self.exact is None else {k: getattr(self.exact, k) for k in rule}
        kind, grid = made["unit"], self._partition(warps, made["unit"])
        bits, denser = self.a.storage.bits, 2 if self.sparse else 1
        rows_a_warp, cols_a_warp = max(self.m // grid.m, 1), max(self.n // grid.n, 1)
        plan, first = [], 0
        for part in active.parts:
            r0, r1, c0, c1 = grid.box(self.m, self.n, first, len(part))
            first += len(part)
            m, n = r1 - r0, c1 - c0
            attrs: dict[str, Any] = {"m": m, "n": n, "k": self.k, "dtype": self.dtype, "instruction": made["shape"],
                                     "instructions": made["instructions"]}
            if self.sparse:
                attrs["sparse"] = True
            if kind == "wgmma":
                attrs["a_register"] = made["a_register"]
            else:
                words = (rows_a_warp / denser + cols_a_warp) * _MMA_K.get(bits, 16) * denser * bits / 32 / 32
                walk.shared.operand_words = max(walk.shared.operand_words, words)
                loaded = (rows_a_warp * self.stored_k if self.a_shared else 0) + (cols_a_warp * self.k if self.b_shared else 0)
                attrs.update(a_shared=self.a_shared, b_shared=self.b_shared, smem_bytes=loaded * bits // 8 * len(part))
            plan.append((part, kind, attrs, (r0, m), (c0, n)))
        return rule, plan

    def _pointer(self, region: Region, kind: str) -> str:
        """How an operand is read: by descriptor, by ldmatrix (16-bit elements, or rows of K of any type), or by plain loads."""
        if region is self.which:
            return ""
        along = not self.trans_a if region is self.a else self.trans_b
        return "tile" if kind == "wgmma" else "lane" if region.storage.bits == 16 or along else ""

    def _sub(self, region: Region, origin: tuple[int, ...], rows: tuple[int, int], cols: tuple[int, int]) -> Any:
        at, extent = list(origin), list(region.extents)
        dims = region.dims if len(region.dims) >= 2 else tuple(range(len(extent)))
        for d, (start, size) in zip(dims[-2:], (rows, cols), strict=True):
            at[d], extent[d] = at[d] + start, size
        return tuple(at), tuple(extent)

    def __call__(self, walk: Walk, a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...], clear: int,
                 which: tuple[int, ...] = ()) -> None:
        """Record one node a warpgroup."""
        active = walk.active
        walk.flops += 2 * self.m * self.n * self.k
        known = self._plans.get(active)
        if known is None:
            known = self._plans[active] = self._plan(walk)
        plan = known[1]
        accesses = self._accesses.get((a, b, which))
        if accesses is None:
            accesses = self._accesses[a, b, which] = tuple(
                Access(r.storage, o, r.extents, False, pointer=self._pointer(r, plan[0][1]))
                for r, o in ((self.a, a), (self.b, b), (self.which, which)) if r is not None and r.storage.scope == "shared")
        if accesses:
            walk.access(accesses)
        for i, (part, kind, attrs, rows, cols) in enumerate(plan):
            key = (active, i, a, b, c, which)
            tiles = self._tiles.get(key)
            if tiles is None:
                depth = (0, self.k)
                half = (0, self.stored_k)
                left = (half, rows) if self.trans_a else (rows, half)
                right = (cols, depth) if self.trans_b else (depth, cols)
                ta = walk.tile(self.a.storage, *self._sub(self.a, a, *left))
                tb = walk.tile(self.b.storage, *self._sub(self.b, b, *right))
                tc = walk.tile(self.c.storage, *self._sub(self.c, c, rows, cols))
                extra = (walk.tile(self.which.storage, which, self.which.extents),) if self.which is not None else ()
                tiles = self._tiles[key] = ((ta, tb, *extra), (ta, tb, *extra, tc), (tc,))
            reads = tiles[0] if clear else tiles[1]
            if kind == "wgmma":
                if self.generic and (self.a.storage in self.generic or self.b.storage in self.generic):
                    if not self._fenced:  # code that stands there once stands there in every iteration
                        self._fenced = walk.fences([x.buffer for x in tiles[0]], part)
                    if self._fenced:
                        walk.put("fence", part, "fence", attrs=_PROXY)
                if self.kind.startswith("wgmma"):
                    walk.put("wgmma", part, self.source, reads, tiles[2], attrs, False, "wgmma")
                    walk.put("close", part, "", attrs={"queue": "wgmma"})
                else:
                    walk.put("wgmma", part, self.source, reads, tiles[2], attrs, True)
            else:
                walk.put("mma", part, self.source, reads, tiles[2], attrs)


@tile_op("tl.tileop.gemm", "tl.tileop.gemm_py", "tl.tileop.wgmma_gemm", "tl.tileop.gemm_sp", "tl.tileop.gemm_sp_py",
         "tl.tileop.wgmma_gemm_sp")
def gemm(t: Translator, call: Any) -> None:
    """`T.gemm` and `T.wgmma_gemm`; the number of arguments differs between TileLang releases, the first ten do not."""
    if "wgmma" in op_name(call) and not t.hopper:
        raise FrontendError(f"wgmma does not exist on {t.program.arch}", where=text_of(call),
                            fix="Use T.gemm, or the target sm_90a.")
    sparse = "gemm_sp" in op_name(call)
    a, b, c = (t.region(call.args[i]) for i in ((0, 2, 3) if sparse else (0, 1, 2)))
    if c.storage.scope != "fragment":
        raise FrontendError(f"a GEMM that accumulates in {c.storage.scope} memory is not supported yet", where=text_of(call))
    which = t.region(call.args[1]) if sparse else None
    operation = Gemm(t, call, a, b, c, which)
    t.rules.says(operation.source, operation.by_rule)
    t.layouts.gemm(c.storage, operation.m, operation.n, operation.grid)
    if a.storage.scope == "fragment":
        t.layouts.gemm(a.storage, operation.m, operation.stored_k, lambda warps: Grid(operation.grid(warps).m, 1))
    for region in (a, b):
        if region.storage.scope == "shared":
            t.usage.swizzled.add(region.storage)
    clear = t.compile(call.args[11 if sparse else 9])
    t.charge(clear)
    t.touch(a.storage, b.storage, *([which.storage] if which is not None else []))
    t.issue(operation, t.origins(a), t.origins(b), t.origins(c), t.uniform(clear),
            *([t.origins(which)] if which is not None else []))


@tile_op("tl.tileop.tcgen05_gemm", "tl.tileop.gemm_blockscaled", "tl.tileop.tcgen05_gemm_blockscaled",
         "tl.tileop.tcgen05_gemm_sp")
def other_gemm(t: Translator, call: Any) -> None:
    """Tensor-core operations whose node types do not exist yet."""
    raise FrontendError(f"{op_name(call).rsplit('.', 1)[-1]} does not exist on {t.program.arch}" if "tcgen05" in op_name(call)
                        else f"{op_name(call)} is not supported yet", where=text_of(call),
                        fix="Use T.gemm on sm_90a or sm_80.")
