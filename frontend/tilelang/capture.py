"""Run TileLang's lowering up to the capture point: after software pipelining and warp specialisation, before layouts.

No GPU, no nvcc. The compile is stopped there by raising from a pass instrument.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import FrontendError, RequestError, shorten
from .quiet import held_back

if TYPE_CHECKING:
    from .exact import ExactFacts
    from .exact.request import Request

OLDEST = (0, 1, 9)
DETAILS = ("fast", "exact")


@dataclass(frozen=True)
class CapturedKernel:
    """The compiler's module at the capture point and how it was obtained."""

    module: Any
    arch: str
    target: Any
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    name: str = "kernel"
    version: str = ""
    seconds: float = 0.0
    exact: ExactFacts | None = None  #: what the later passes decide, if asked for
    cached: bool = False  #: whether `exact` came from the cache


def require_tilelang() -> Any:
    """The tilelang package.

    Raises:
        FrontendError: it is not installed or older than 0.1.9.
    """
    try:
        import tilelang
    except ImportError as e:
        raise FrontendError("tilelang is not installed", fix="pip install 'tilelang>=0.1.9'.") from e
    version = str(getattr(tilelang, "__version__", "0"))
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:3])
    if numbers < OLDEST:
        raise FrontendError(f"tilelang {version} is too old: the pipeline has no tile-level capture point",
                            fix="pip install 'tilelang>=0.1.9' (tested with 0.1.15).")
    return tilelang


def make_target(arch: str) -> Any:
    """The TVM target of a CUDA architecture such as `sm_90a`."""
    tilelang = require_tilelang()
    if not re.fullmatch(r"sm_\d+a?", arch):
        raise FrontendError(f"unknown architecture {arch!r}", fix="Use a name such as sm_80 or sm_90a.")
    return tilelang.tvm.target.Target({"kind": "cuda", "arch": full_arch(arch)})


def full_arch(arch: str) -> str:
    """The architecture with the suffix that unlocks its own instructions (`sm_90` -> `sm_90a`)."""
    return arch + "a" if arch in ("sm_90", "sm_100") else arch


def target_context(target: Any) -> AbstractContextManager[Any]:
    """Enter `target`; PrimFuncs must be built and lowered inside."""
    stack = ExitStack()
    stack.enter_context(target)
    return stack


def plain_configs(pass_configs: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Pass configs with string keys (enum keys of TileLang resolved)."""
    return {str(getattr(k, "value", k)): v for k, v in (pass_configs or {}).items()}


class _Done(Exception):
    """Raised behind the last pass that is wanted, to stop the compile."""


def _instrument(seen: dict[str, Any], request: Request | None) -> Any:
    """The listener: it keeps the module at the capture point, and hands what follows to `request` if there is one."""
    from tvm.ir.instrument import pass_instrument

    previous = [""]

    @pass_instrument
    class Tap:
        def run_before_pass(self, mod: Any, info: Any) -> None:
            if request is not None and "module" in seen:
                request.entered(str(info.name), mod)

        def run_after_pass(self, mod: Any, info: Any) -> None:
            name = str(info.name)
            if "module" in seen:
                if request is not None and request.left(name, mod):
                    raise _Done
            elif name == "tl.Simplify" and previous[0] == "tl.InjectSoftwarePipeline":
                seen["module"] = mod
                if request is None or request.begin(mod):
                    raise _Done
            previous[0] = name

    return Tap()


def check_configs(configs: Mapping[str, Any]) -> None:
    """Refuse pass configs that the compiler does not have, and values it would not take.

    Raises:
        RequestError: names the nearest pass config, or the type that is wanted.
    """
    import tvm

    try:
        table = dict(tvm.ir.transform.PassContext.list_configs())
    except Exception:  # noqa: BLE001  a release without the list: the compiler itself has the last word
        return
    known = {str(name): str(json.loads(str(info)).get("type", "")) for name, info in table.items()}
    for name, value in configs.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1) or difflib.get_close_matches(f"tl.{name}", known, n=1)
            raise RequestError(f"TileLang has no pass config {name!r}",
                               fix=f"Did you mean {near[0]}?" if near else f"It has {', '.join(sorted(known))}.")
        types, wanted = _KINDS.get(known[name], ((), ""))
        if types and not isinstance(value, types):
            raise RequestError(f"the pass config {name} is {value!r:.60}, and must be {wanted}")


#: Type in TVM's table -> Python types, and what to call them.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "ir.IntImm": ((int,), "true, false or an integer"), "str": ((str,), "text"), "ir.FloatImm": ((int, float), "a number")}


def capture(prim_func: Any, arch: str, pass_configs: Mapping[Any, Any] | None = None, *, detail: str = "fast",
            cache: bool = True) -> CapturedKernel:
    """Lower `prim_func` (a PrimFunc, or a function without arguments that builds one) for `arch` up to the capture point.

    Args:
        prim_func, arch, pass_configs: what to lower, for which target, with which switches.
        detail: "exact" runs the passes behind the capture point too, and reads from them what they decide.
        cache: whether exact facts may come from, and go to, the disk.

    Raises:
        FrontendError: TileLang rejects the kernel before the capture point, or behind it if `detail` is "exact".
        RequestError: an unknown pass config, or a value of the wrong type.
    """
    if detail not in DETAILS:
        raise FrontendError(f"detail must be 'fast' or 'exact', not {detail!r}")
    require_tilelang()
    with held_back():
        return _capture(prim_func, arch, pass_configs, detail, cache)


def _capture(prim_func: Any, arch: str, pass_configs: Mapping[Any, Any] | None, detail: str, cache: bool) -> CapturedKernel:
    tilelang = require_tilelang()
    start = time.perf_counter()
    target = make_target(arch)
    configs = plain_configs(pass_configs)
    seen: dict[str, Any] = {}
    request: Request | None = None
    source = ""
    with target_context(target):
        if not hasattr(prim_func, "buffer_map") and callable(prim_func):
            prim_func = prim_func()
        attrs = getattr(prim_func, "attrs", None)
        own = attrs.get("tilelang_pass_configs") if attrs else None
        if own:
            configs = {**{str(k): _plain(v) for k, v in dict(own).items()}, **configs}
        name = str(attrs.get("global_symbol", "kernel")) if attrs else "kernel"
        check_configs(configs)
        if detail == "exact":
            from .exact.request import Request

            request = Request(full_arch(arch), target, configs, str(tilelang.__version__), name, cache)
        normalize: Callable[[Any], Any] = dict  # before 0.1.12
        with suppress(ImportError):
            from tilelang.transform.pass_config import normalize_pass_configs

            normalize = normalize_pass_configs
        context = tilelang.transform.PassContext
        try:
            settings = normalize(configs) or {}
            with context(opt_level=3, config=settings, instruments=[_instrument(seen, request)]):
                source = str(tilelang.lower(prim_func, target=target).kernel_source)
        except Exception as e:
            last = [ln for ln in str(e).strip().split("\n") if re.search("[A-Za-z]{3}", ln)]
            reason = shorten(last[-1] if last else repr(e), 300)
            if "module" not in seen:
                raise FrontendError(f"TileLang cannot lower it for {arch}: {reason}", where=name,
                                    fix="Fix the kernel or choose another target.") from e
            if request is not None and not request.ready:
                raise FrontendError(f"TileLang cannot compile it for {arch} to the end: {reason}", where=name,
                                    fix='Fix the kernel, or use detail="fast".') from e
        if "module" not in seen:
            raise FrontendError("TileLang's pipeline has no pass tl.InjectSoftwarePipeline followed by tl.Simplify", where=name,
                                fix="Use tilelang 0.1.9 to 0.1.15.")
        exact = None
        if request is not None:
            with context(opt_level=3, config=settings):
                exact = request.result(seen["module"], source)
    return CapturedKernel(seen["module"], full_arch(arch), target, configs, name, str(tilelang.__version__),
                          time.perf_counter() - start, exact, request is not None and request.cached)


def _plain(value: Any) -> Any:
    return getattr(value, "value", value)
