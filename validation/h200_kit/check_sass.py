#!/usr/bin/env python3
"""Check that the compiled microbenchmarks contain what they claim to time.

    python validation/h200_kit/check_sass.py [FILE.cu ...]

Each file says so in comments: `// sass KERNEL: INSTRUCTION >= COUNT` (a regular expression over one line of the disassembly;
every kernel whose name holds KERNEL must match). Needs no GPU, but `nvcc` and `nvdisasm` on the PATH (or named by `NVCC` and
`NVDISASM`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

MICRO = Path(__file__).resolve().parent / "micro"
_CLAIM = re.compile(r"^// sass (\w+): (\S+) >= (\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Claim:
    """One line of a file: at least `count` instructions of `kernel` match `pattern`."""

    kernel: str
    pattern: str
    count: int


def claims(source: str) -> list[Claim]:
    """What a file says about its kernels."""
    return [Claim(kernel, pattern, int(count)) for kernel, pattern, count in _CLAIM.findall(source)]


def kernels_of(source: str) -> set[str]:
    """The kernels that a file defines."""
    plain = re.findall(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(?:__cluster_dims__\([^)]*\) )?(\w+)\(", source)
    return {*plain, *re.findall(r"^STRAIGHT\((\w+),", source, re.MULTILINE)} - {"name"}


def missing_tools() -> list[str]:
    """Which of the tools are not there."""
    return [tool for tool in ("nvcc", "nvdisasm") if _tool(tool) is None]


def _tool(name: str) -> str | None:
    return shutil.which(os.environ.get(name.upper(), name))


def instructions(file: Path) -> dict[str, list[str]]:
    """Kernel -> its instructions. Raises RuntimeError where the file does not compile without a warning."""
    nvcc, nvdisasm = _tool("nvcc"), _tool("nvdisasm")
    assert nvcc and nvdisasm
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "k.cubin"
        done = subprocess.run([nvcc, "-arch=sm_90a", "-O3", "-std=c++17", "-Werror", "all-warnings", "-cubin", str(file), "-o",
                               str(cubin)], capture_output=True, text=True, check=False)
        if done.returncode or done.stderr.strip():
            raise RuntimeError(f"{file.name}: does not compile cleanly: {done.stderr.strip()[:500]}")
        text = subprocess.run([nvdisasm, "-c", str(cubin)], check=True, capture_output=True, text=True).stdout
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if section := re.match(r"\.text\.(\w+):", line.strip()):
            name = section[1]
            found[name] = []
        elif name and (item := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", line)):
            found[name].append(item[1])
    return found


def broken(file: Path) -> list[str]:
    """What is wrong with a file: a claim that does not hold, a claim about no kernel, a kernel without a claim, or a clock that
    is read by an instruction of variable latency."""
    source = file.read_text(encoding="utf-8")
    said = claims(source)
    out = [f"{file.name}: nothing is claimed about {name}" for name in sorted(kernels_of(source) - {c.kernel for c in said})]
    code = instructions(file)
    out += [f"{file.name}: {name} reads the clock by S2UR or S2R, whose latency varies" for name, lines in code.items()
            if any(re.search(r"\bS2U?R\b.*SR_CLOCK", line) for line in lines)]
    for claim in said:
        bodies = {name: lines for name, lines in code.items() if claim.kernel in name}
        if not bodies:
            out.append(f"{file.name}: there is no kernel {claim.kernel}")
        for name, lines in bodies.items():
            count = sum(bool(re.search(claim.pattern, line)) for line in lines)
            if count < claim.count:
                out.append(f"{file.name}: {name} holds {count} of {claim.pattern}, {claim.count} are claimed")
    return out


def main() -> None:
    """Print what is wrong and exit with 1, or say how many claims hold."""
    if tools := missing_tools():
        sys.exit(f"error: {' and '.join(tools)} not found on the PATH.")
    files = [Path(name) for name in sys.argv[1:]] or sorted(MICRO.glob("*.cu"))
    wrong = [text for file in files for text in broken(file)]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{sum(len(claims(f.read_text(encoding='utf-8'))) for f in files)} claims about {len(files)} files hold")


if __name__ == "__main__":
    main()
