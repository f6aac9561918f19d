"""Checks of what Python callers pass: one clear UsageError instead of whatever breaks first."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .errors import UsageError
from .graph import KernelGraph


def check_mapping(name: str, value: Any, example: str) -> None:
    """Refuse what is no mapping with text keys. Raises UsageError."""
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise UsageError(f"{name} is {type(value).__name__} {value!r:.60}. Give a dictionary such as {{{example}}}.")


def check_call(args: Any, kwargs: Any) -> None:
    """Refuse arguments of a factory that are no sequence and no mapping. Raises UsageError."""
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise UsageError(f"args is {type(args).__name__} {args!r:.60}. Give the arguments of the kernel as a tuple.")
    if kwargs is not None:
        check_mapping("kwargs", kwargs, '"M": 4096')


def check_symbols(symbols: Any) -> None:
    """Refuse sizes that are no integers. Raises UsageError."""
    check_mapping("symbols", symbols, '"m": 4096')
    for name, value in symbols.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not 0 <= int(value) < 2**31:
            raise UsageError(f"symbols: {name} is {value!r:.60}, and must be an integer from 0 to 2^31 - 1.")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse what is none of `choices`. Raises UsageError."""
    if not isinstance(value, str) or value not in choices:
        raise UsageError(f"unknown {name} {value!r:.60}. Use one of {', '.join(choices)}.")


def check_clock(clock_mhz: Any) -> None:
    """Refuse a clock that is no number or not between 100 and 10000 MHz; None is the hardware's own. Raises UsageError."""
    if clock_mhz is None:
        return
    number = isinstance(clock_mhz, numbers.Real) and not isinstance(clock_mhz, bool)
    if not number or not 100 <= clock_mhz <= 10000:
        raise UsageError(f"clock_mhz={clock_mhz!r:.60} is not a number between 100 and 10000.")


def check_threads(threads: Any) -> None:
    """Refuse what is no integer from 1 to 64. Raises UsageError."""
    from .backend import MAX_THREADS

    if isinstance(threads, bool) or not isinstance(threads, numbers.Integral) or not 1 <= int(threads) <= MAX_THREADS:
        raise UsageError(f"threads={threads!r:.60} is not an integer from 1 to {MAX_THREADS}.")


def check_graph(graph: Any) -> None:
    """Refuse what is no kernel graph. Raises UsageError."""
    if isinstance(graph, KernelGraph):
        return
    hint = {"str": "Load the file first: gtsim.load_graph(path).", "Path": "Load the file first: gtsim.load_graph(path).",
            "PosixPath": "Load the file first: gtsim.load_graph(path).", "Prediction": "Its graph is prediction.graph."}
    fix = hint.get(type(graph).__name__, "gtsim.lower and gtsim.load_graph give one.")
    raise UsageError(f"{type(graph).__name__} {graph!r:.60} is not a kernel graph. {fix}")
