"""Finding the kernel in `FILE.py[:FACTORY]`: import the file, choose the factory, read its arguments."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .errors import KernelFileError, UsageError
from .kernels import is_eager, is_factory, is_jit, is_prim_func, parameters, python_function
from .predictor import Predictor


def load_kernel(spec: str) -> tuple[str, Any]:
    """Name and object that `FILE.py[:FACTORY]` means.

    Raises:
        UsageError: no such file or factory, or several factories and none named.
        KernelFileError: the file does not import.
    """
    text, colon, name = spec.rpartition(":")
    if not colon or "/" in name or name.endswith(".py"):
        text, name = spec, ""
    module = import_file(Path(text))
    if name:
        return name, _named(module, text, name)
    found = factories(module)
    if len(found) == 1:
        return next(iter(found.items()))
    if not found:
        raise UsageError(f"{text} defines no kernel. Define a function that returns a PrimFunc, or name the object: {text}:NAME.")
    raise UsageError(f"{text} has {len(found)} kernels: {', '.join(found)}. Name one, as in {text}:{next(iter(found))}.")


def import_file(path: Path) -> ModuleType:
    """Import a Python file by path, its folder first on `sys.path` as Python itself would do.

    Raises:
        UsageError: there is no such file.
        KernelFileError: it does not import; says why, and at which line of the file.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file." if not path.is_dir() else f"{path} is a folder. Give a Python file.")
    path = path.resolve()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"_gtsim_kernel_{abs(hash(path))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path.name}: not a Python file. Its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise KernelFileError(_describe(error, path)) from error
    return module


def _describe(error: BaseException, path: Path) -> str:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else lines[-1] if lines else None
    where = f"{path.name}:{line}" if line else path.name
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    message = f"{where}: the file does not import: {type(error).__name__}: {' '.join(said.split())[:300]}"
    if isinstance(error, ModuleNotFoundError) and error.name in ("tilelang", "tvm", "torch"):
        message += ". Lowering kernels needs TileLang: pip install 'gtsim[tilelang]'."
    return message


def factories(module: ModuleType) -> dict[str, Any]:
    """What in `module` can be predicted: decorated objects and PrimFuncs if there are any, else functions that build a PrimFunc,
    else all its public functions."""
    own = {name: thing for name, thing in vars(module).items() if not name.startswith("_") and _defined_in(thing, module)}
    marked = {n: t for n, t in own.items() if isinstance(t, Predictor) or is_jit(t) or is_prim_func(t)}
    if marked:
        return marked
    plain = {n: t for n, t in own.items() if inspect.isfunction(t)}
    building = {n: t for n, t in plain.items() if _mentions(inspect.unwrap(t).__code__, "prim_func")}
    return building or plain


def _defined_in(thing: Any, module: ModuleType) -> bool:
    if is_prim_func(thing):
        return True
    function = python_function(thing)
    return function is not None and function.__module__ == module.__name__


def _mentions(code: CodeType, name: str) -> bool:
    return name in code.co_names or any(_mentions(c, name) for c in code.co_consts if isinstance(c, CodeType))


def _named(module: ModuleType, file: str, name: str) -> Any:
    thing = getattr(module, name, None)
    if thing is None:
        known = list(factories(module))
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"It has {', '.join(known)}." if known else "It defines no kernel."
        raise UsageError(f"{file} has no kernel called {name!r}. {hint}")
    if not (is_prim_func(thing) or is_factory(thing)):
        raise UsageError(f"{name} in {file} is {type(thing).__name__}, not a kernel. Name a function that returns a PrimFunc.")
    return thing


def parse_pairs(option: str, pairs: Sequence[str], *, dotted: bool = False) -> dict[str, Any]:
    """`["M=4096", "dtype=float16"]` as a dictionary; values are Python literals, or else text. Raises UsageError."""
    out: dict[str, Any] = {}
    for text in pairs:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not all(part.isidentifier() for part in (key.split(".") if dotted else [key])):
            example = "tl.disable_tma_lower=true" if dotted else "M=4096"
            raise UsageError(f"{option} {text}: must read NAME=VALUE, such as {option} {example}.")
        if key in out:
            raise UsageError(f"{option} {text}: {key} is given twice.")
        out[key] = parse_value(value)
    return out


def parse_value(text: str) -> Any:
    """A Python literal (`true` and `false` too), or the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def check_arguments(name: str, kernel: Any, given: Mapping[str, Any]) -> None:
    """Compare the arguments with the factory's signature. Raises UsageError for unknown and missing ones."""
    if is_prim_func(kernel):
        if given:
            raise UsageError(f"{name} is a PrimFunc and takes no arguments. Bind its symbolic sizes with --symbol NAME=VALUE.")
        return
    inner = kernel.kernel if isinstance(kernel, Predictor) else kernel
    signature = parameters(inner)
    if signature is None or is_eager(inner):
        return
    takes = signature.parameters
    shown = f"The signature is {name}{signature}."
    if not any(p.kind is p.VAR_KEYWORD for p in takes.values()):
        for key in given:
            if key not in takes:
                near = difflib.get_close_matches(key, takes, n=1)
                hint = f"Did you mean {near[0]}? " if near else ""
                raise UsageError(f"{name} has no argument {key!r}. {hint}{shown}")
    required = [n for n, p in takes.items() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    # The autotuner fills in what its configurations name.
    missing = [n for n in required if n not in given] if not hasattr(inner, "jit_impl") else []
    if missing:
        raise UsageError(f"{name} needs {', '.join(f'--arg {n}=...' for n in missing)}. {shown}")
