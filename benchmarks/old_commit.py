"""gtsim as it was at another commit, built next to this one; for benchmarks that compare."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOMS = ("graph", "backend", "frontend", "hwconfigs")


def import_root(commit: str, folder: Path) -> Path:
    """Clone `commit` into `folder`, build its engine, and return a folder from which that gtsim imports.

    Raises:
        SystemExit: git or the build fails; it has said why.
    """
    source, build, root = folder / "source", folder / "build", folder / "root"
    here = Path(__file__).resolve().parents[1]

    def run(*command: str | Path) -> None:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")

    commit = subprocess.run(["git", "-C", here, "rev-parse", commit], capture_output=True, text=True).stdout.strip() or commit
    run("git", "clone", "--quiet", "--shared", "--no-checkout", here, source)
    run("git", "-C", source, "checkout", "--quiet", commit)
    print(f"building {commit[:12]} ...", file=sys.stderr)
    run("cmake", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}", "-S", source, "-B", build)
    run("cmake", "--build", build)
    package = root / "gtsim"
    package.mkdir(parents=True)
    for path in (source / "gtsim").iterdir():
        (package / path.name).symlink_to(path)
    for room in ROOMS:
        (package / room).symlink_to(source / room)
    for engine in build.glob("_engine*.so"):
        (source / "backend" / engine.name).symlink_to(engine)
    return root
