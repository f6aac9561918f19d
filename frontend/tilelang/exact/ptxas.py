"""Registers as the assembler allocates them, if CUDA's compiler is on the PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .facts import ExactFacts, KernelFacts, RegisterFacts

LIMIT_S = 300  #: seconds one compile may take (2 to 13 are usual, TILELANG_IR section 11)


@dataclass(frozen=True)
class Compiler:
    """An nvcc, and what it says about its version."""

    path: str
    version: str


@dataclass(frozen=True)
class Usage:
    """What `ptxas -v` reports of one kernel: registers a thread, bytes of spill stores."""

    name: str
    registers: int
    spill_bytes: int


def find_compiler() -> Compiler | None:
    """The nvcc that `GTSIM_NVCC` names, else the one on the PATH; None if there is none that runs, or it says "none"."""
    asked = os.environ.get("GTSIM_NVCC", "")
    path = None if asked == "none" else shutil.which(asked or "nvcc")
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return Compiler(path, " ".join(done.stdout.split())[-120:])


def parse_usage(text: str) -> list[Usage]:
    """Read the output of `ptxas -v`: one entry a kernel, in the order they are reported."""
    found: list[Usage] = []
    name, spill = "", 0
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '([^']+)'", line):
            name, spill = match[1], 0
        elif match := re.search(r"(\d+) bytes spill stores", line):
            spill = int(match[1])
        elif (match := re.search(r"Used (\d+) registers", line)) and name:
            found.append(Usage(name, int(match[1]), spill))
            name = ""
    return found


def compile_usage(compiler: Compiler, source: str, arch: str, includes: Sequence[Path]) -> list[Usage]:
    """Compile CUDA source and report what its kernels use.

    Raises:
        ValueError: the compiler fails, or reports no kernel; says why.
    """
    with tempfile.TemporaryDirectory(prefix="gtsim-") as folder:
        file = Path(folder) / "kernel.cu"
        file.write_text(source)
        command = [compiler.path, f"-arch={arch}", "-std=c++17", "-cubin", "-O3", "--expt-relaxed-constexpr", "-Xptxas", "-v",
                   *(f"-I{p}" for p in includes), "-o", str(Path(folder) / "kernel.cubin"), str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except (OSError, subprocess.SubprocessError) as e:
            raise ValueError(f"{compiler.path} did not run: {type(e).__name__}") from e
    if done.returncode:
        said = [ln for ln in done.stderr.splitlines() if "error" in ln.lower()] or done.stderr.splitlines() or ["no message"]
        raise ValueError(f"{compiler.path} failed: {said[0][:200]}")
    usage = parse_usage(done.stderr + "\n" + done.stdout)
    if not usage:
        raise ValueError(f"{compiler.path} reported no registers")
    return usage


def include_folders() -> list[Path]:
    """Where TileLang's device headers are."""
    import tilelang

    root = Path(str(tilelang.__file__)).parent
    return [p for p in (root / "src", root / "3rdparty" / "cutlass" / "include", root / "src" / "tl_templates") if p.is_dir()]


def with_registers(facts: ExactFacts, compiler: Compiler, source: str, arch: str) -> ExactFacts:
    """`facts` with the registers that the assembler allocates; if it cannot say, they stay, and the reason becomes an unknown."""
    if not source:
        return _without(facts, "TileLang generated no code to assemble")
    try:
        usage = compile_usage(compiler, source, arch, include_folders())
    except ValueError as e:
        return _without(facts, str(e))
    kernels = []
    for i, kernel in enumerate(facts.kernels):
        mine = next((u for u in usage if _index(u.name) == i), None)
        if mine is None or kernel.registers is None:
            kernels.append(kernel)
            continue
        registers = RegisterFacts(launch=mine.registers, source="ptxas", cap=kernel.registers.cap,
                                  reallocated=kernel.registers.reallocated, spill_bytes=mine.spill_bytes)
        kernels.append(kernel.model_copy(update={"registers": registers}))
    return facts.model_copy(update={"kernels": tuple(kernels), "compiler": compiler.version})


def _index(name: str) -> int:
    found = re.search(r"_kernel_(\d+)$", name)
    return int(found[1]) if found else 0


def _without(facts: ExactFacts, why: str) -> ExactFacts:
    def add(kernel: KernelFacts) -> KernelFacts:
        return kernel.model_copy(update={"unknown": {**kernel.unknown, "ptxas": why}})

    return facts.model_copy(update={"kernels": tuple(add(k) for k in facts.kernels)})
