"""From CUDA source to the instructions that the GPU executes, for the scripts beside this file that count them."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def arch_asked(doc: str | None) -> str:
    """The architecture of the command line; ends the script with one line if a tool is missing."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90a")
    arch: str = parser.parse_args().arch
    missing = [tool for tool in ("nvcc", "nvdisasm") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)} not found on the PATH.")
    return arch


def disassembled(source: str, arch: str, flags: Sequence[str] = ()) -> list[str]:
    """Lines of the disassembly of `source`. Raises CalledProcessError where it does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        cu, cubin = Path(folder) / "k.cu", Path(folder) / "k.cubin"
        cu.write_text(source, encoding="utf-8")
        subprocess.run(["nvcc", f"-arch={arch}", "-O3", "-std=c++17", *flags, "-cubin", str(cu), "-o", str(cubin)], check=True,
                       capture_output=True, text=True)
        return subprocess.run(["nvdisasm", "-c", str(cubin)], check=True, capture_output=True, text=True).stdout.split("\n")
