#!/usr/bin/env python3
"""Fuzz the backend: random bytes become random kernels, machines and damaged inputs, judged by the properties in tests/backend.

    python tests/fuzz/fuzz.py --list
    python tests/fuzz/fuzz.py bounds --seconds 600     # random bytes, the same for the same --seed
    python tests/fuzz/fuzz.py bounds FILE              # an input that failed before
    python tests/fuzz/fuzz.py hostile --atheris -max_total_time=600    # guided by coverage; needs `pip install atheris`

An input that fails is kept as fuzz-TARGET-HASH in the working directory. With the sanitized engine of .ci/run on the path,
undefined behaviour ends the process.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: Target -> property in tests/backend.
TARGETS = {
    "bounds": ("test_properties", "test_no_run_is_faster_than_its_bounds"),
    "work": ("test_properties", "test_all_work_that_was_asked_for_is_in_the_busy_times"),
    "bytes": ("test_properties", "test_bytes_are_conserved"),
    "numbering": ("test_invariance", "test_the_numbering_of_nodes_does_not_matter"),
    "repeats": ("test_invariance", "test_repeats_stored_or_written_out_are_the_same"),
    "hostile": ("test_hostile_input", "test_changed_input_runs_or_is_refused"),
    "damaged": ("test_hostile_input", "test_a_damaged_graph_is_refused_or_runs"),
}
LONGEST_BYTES = 6000


def target(name: str) -> Callable[[bytes], object]:
    """The property as a function of bytes; it raises what the property raises."""
    package = "gtsim_backend_tests"
    if package not in sys.modules:
        folder = Path(__file__).resolve().parents[1] / "backend"
        spec = importlib.util.spec_from_file_location(package, folder / "__init__.py", submodule_search_locations=[str(folder)])
        assert spec is not None
        sys.modules[package] = importlib.util.module_from_spec(spec)
        importlib.import_module(f"{package}.conftest")
    module, test = TARGETS[name]
    function = getattr(importlib.import_module(f"{package}.{module}"), test)
    return function.hypothesis.fuzz_one_input  # type: ignore[no-any-return]


def inputs(seed: int) -> Iterator[bytes]:
    """Random bytes without end."""
    source = random.Random(seed)
    while True:
        yield source.randbytes(source.randrange(LONGEST_BYTES))


def attempt(name: str, function: Callable[[bytes], object], data: bytes) -> None:
    """Run one input, and keep it if it fails."""
    try:
        function(data)
    except BaseException:
        path = Path(f"fuzz-{name}-{hashlib.sha256(data).hexdigest()[:12]}")
        path.write_bytes(data)
        print(f"failed; try it again with: {sys.argv[0]} {name} {path}", file=sys.stderr)
        raise


def guided(name: str, arguments: list[str]) -> None:
    """libFuzzer's loop; it does not return."""
    import atheris

    with atheris.instrument_imports(include=["gtsim"], enable_loader_override=False):
        function = target(name)
    flags = ["-len_control=0", f"-max_len={LONGEST_BYTES}"]
    atheris.Setup([sys.argv[0], *flags, *arguments], lambda data: attempt(name, function, data))
    atheris.Fuzz()


def main() -> None:
    """Parse the command line and fuzz."""
    parser = argparse.ArgumentParser(description="Fuzz the backend.", epilog="Flags of libFuzzer follow --atheris.")
    parser.add_argument("target", nargs="?", choices=sorted(TARGETS), default="bounds")
    parser.add_argument("files", nargs="*", type=Path, help="inputs to run once")
    parser.add_argument("--list", action="store_true", help="list the targets")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", action="store_true", help="let coverage guide the inputs")
    arguments, rest = parser.parse_known_args()
    if arguments.list:
        for name, (module, test) in TARGETS.items():
            print(f"{name:10} {module}.py: {test}")
        return
    if arguments.atheris:
        return guided(arguments.target, rest)
    if rest:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    function = target(arguments.target)
    if arguments.files:
        for path in arguments.files:
            function(path.read_bytes())
        return
    began, runs = time.monotonic(), 0
    for data in inputs(arguments.seed):
        if time.monotonic() - began > arguments.seconds:
            break
        attempt(arguments.target, function, data)
        runs += 1
    print(f"{arguments.target}: {runs} inputs in {arguments.seconds:.0f} s, none failed")


if __name__ == "__main__":
    main()
