"""From what a user holds (factory, PrimFunc, jit or autotuned object) to a PrimFunc and its pass configs."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FrontendError, shorten
from .capture import make_target, plain_configs, target_context
from .quiet import held_back


def resolve(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], arch: str,
            pass_configs: Mapping[Any, Any] | None) -> tuple[Any, dict[str, Any], str]:
    """The PrimFunc of `kernel`, the pass configs it wants (those given win), and its name.

    Raises:
        FrontendError: wrong arguments, a factory that raises, or something that is no kernel.
    """
    configs = plain_configs(pass_configs)
    if _is_prim_func(kernel):
        if args or kwargs:
            raise FrontendError("a PrimFunc takes no arguments", where=_name(kernel),
                                fix="Bind symbolic sizes with symbols={...}.")
        return kernel, configs, _name(kernel)
    keywords = dict(kwargs)
    tuner, jit = kernel, getattr(kernel, "jit_impl", None)
    if jit is not None:
        keywords = {**_first_config(tuner, args, keywords), **keywords}
        kernel = jit
    own = getattr(kernel, "pass_configs", None)
    if isinstance(own, Mapping):
        configs = {**plain_configs(own), **configs}
    if any("use_fast_math" in str(flag) for flag in getattr(kernel, "compile_flags", None) or ()):
        configs.setdefault("tl.enable_fast_math", True)  # the same to us
    build = getattr(kernel, "get_tir", None)
    function = build if build is not None else kernel
    if not callable(function):
        raise FrontendError(f"{type(kernel).__name__} is not a TileLang kernel",
                            fix="Pass a PrimFunc, a factory that returns one, or a @tilelang.jit object.")
    inner = getattr(kernel, "func", kernel)
    inner = getattr(inner, "orig_func", inner)
    name = str(getattr(inner, "__name__", type(kernel).__name__))
    _check_arguments(kernel, name, args, keywords)
    target = make_target(arch)
    with held_back(), target_context(target):
        try:
            made = function(*args, **keywords)
        except FrontendError:
            raise
        except (Exception, SystemExit) as e:
            odd = _unlike_defaults(inner, args, keywords)
            raise FrontendError(f"{name} raised {type(e).__name__}: {shorten(str(e), 300)}", where=_line_of(e, inner) or name,
                                fix=odd or "Fix the factory or its arguments.") from e
    if hasattr(made, "prim_func") and not _is_prim_func(made):
        made = made.prim_func
    if not _is_prim_func(made):
        raise FrontendError(f"{name} returned {type(made).__name__}, not a PrimFunc", where=name,
                            fix="Return the function decorated with @T.prim_func.")
    return made, configs, name


def _unlike_defaults(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Which arguments are of another type than the integers and texts that are their defaults, or are no positive integers where
    the default is one: the likely reason why a factory raised. Empty if none is."""
    try:
        signature = inspect.signature(function)
        given = signature.bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return ""
    found = []
    for name, value in given.items():
        default = signature.parameters[name].default
        if type(default) is int and (type(value) is not int or (value <= 0 < default)):
            found.append(f"{name} is {value!r:.40}, and its default {default} is {'a positive' if default > 0 else 'an'} integer")
        elif type(default) is str and not isinstance(value, str):
            found.append(f"{name} is {value!r:.40}, and its default {default!r} is text")
    return "; ".join(found) + "." if found else ""


def _line_of(error: BaseException, function: Any) -> str:
    """`file.py:12`, the line of the factory's own file that raised; empty if it cannot be told."""
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f"{os.path.basename(file)}:{lines[-1]}" if file and lines else ""


def _is_prim_func(thing: Any) -> bool:
    return hasattr(thing, "buffer_map") and hasattr(thing, "body") and hasattr(thing, "params")


def _name(func: Any) -> str:
    attrs = getattr(func, "attrs", None)
    return str(attrs.get("global_symbol", "kernel")) if attrs else "kernel"


def _first_config(tuner: Any, args: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The first candidate of an autotuned kernel, for the parameters that were not given."""
    configs = getattr(tuner, "configs", None)
    if callable(configs):
        try:
            configs = configs(*args, **given)
        except TypeError:
            configs = configs()
    for config in configs or ():
        return dict(config)
    return {}


def _check_arguments(kernel: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Name wrong and missing arguments before the factory runs. Tensor arguments of eager kernels may be left out: their sizes
    come as keywords, under the names `T.const` declares."""
    inner = getattr(kernel, "func", None)
    eager = bool(getattr(inner, "tensor_args", None))
    signature = getattr(kernel, "signature", None)
    if not isinstance(signature, inspect.Signature):
        try:
            signature = inspect.signature(kernel)
        except (TypeError, ValueError):
            return
    parameters = signature.parameters
    if eager or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    fix = f"The signature is {name}{signature}."
    unknown = [k for k in kwargs if k not in parameters]
    if unknown:
        raise FrontendError(f"unknown argument {', '.join(map(repr, unknown))}", where=name, fix=fix)
    try:
        bound = signature.bind_partial(*args, **kwargs)
    except TypeError as e:
        raise FrontendError(str(e), where=name, fix=fix) from None
    missing = [n for n, p in parameters.items()
               if n not in bound.arguments and p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if missing:
        raise FrontendError(f"missing argument {', '.join(map(repr, missing))}", where=name, fix=fix)
