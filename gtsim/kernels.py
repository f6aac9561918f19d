"""Telling kernels apart without importing TileLang."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def is_prim_func(thing: Any) -> bool:
    """Whether `thing` is a TVM PrimFunc."""
    return not isinstance(thing, type) and any(c.__name__ == "PrimFunc" for c in type(thing).__mro__)


def is_jit(thing: Any) -> bool:
    """Whether `thing` is a `tilelang.jit` object, lazy, eager or autotuned."""
    return not isinstance(thing, type) and (hasattr(thing, "get_tir") or hasattr(thing, "jit_impl"))


def is_factory(thing: Any) -> bool:
    """Whether calling `thing`, in one way or another, can make a PrimFunc."""
    return callable(thing) and not isinstance(thing, type) and not is_prim_func(thing)


def is_eager(thing: Any) -> bool:
    """Whether `thing` is an eager jit object: its parameters are tensors, and names of `T.const` sizes are arguments too."""
    jit = getattr(thing, "jit_impl", thing)
    function = getattr(jit, "func", None)
    return is_jit(thing) and (getattr(jit, "mode", "") == "eager" or bool(getattr(function, "tensor_args", None)))


def python_function(thing: Any) -> Callable[..., Any] | None:
    """The function that the user wrote, below predict, jit and autotune decorators; None if there is none to be found."""
    for name in ("kernel", "jit_impl", "func", "orig_func"):
        inner = getattr(thing, name, None)
        if inner is not None and not inspect.isfunction(thing):
            return python_function(inner)
    return inspect.unwrap(thing) if inspect.isfunction(thing) else None


def parameters(thing: Any) -> inspect.Signature | None:
    """The signature of the factory; None if it has none (a PrimFunc) or Python cannot tell."""
    function = thing if isinstance(thing, functools.partial) else python_function(thing)
    if function is None:
        return None
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
