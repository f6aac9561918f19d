#!/usr/bin/env python3
"""Survey the example kernels of TileLang: which become graphs that pass the check and simulate.

    python validation/zoo.py --tilelang DIR [--arch sm_90a,sm_80] [--only PATTERN] [--json FILE] [--cache DIR]

DIR is a checkout of tile-ai/tilelang (tested: commit a35008a). Each example runs in a child process without a GPU and leaves
the kernels it would compile (see zoo_harvest.py). A kernel counts if TileLang itself lowers it for the architecture. Its sizes
are those the example passes, 256 for a symbol the example never binds. Integer tensors that steer control flow have the values
the example passes if it builds them from constants; otherwise a rule fills them (`assume` below) and the table says so. Only the
first CTAs of a large grid are simulated. Needs tilelang 0.1.15 and torch; einops and other imports of the examples help.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from zoo_harvest import child, save  # noqa: E402

HARDWARE = {"sm_90a": "h100_sxm", "sm_80": "a100_sxm"}
SYMBOL = 256  #: size of a symbolic dimension that the example does not bind
#: TileLang lowers these without asking whether the GPU can run them.
UNFIT = re.compile(r"bytes of shared memory, \w+ allows|has no tensor-core rate for")
SKIP = ("amd/", "/reference", "conftest", "sm100", "sm120")  #: other vendors and architectures


def assume(name: str, shape: tuple[int, ...], total: int) -> Any:
    """Values for an integer tensor the example does not state: offsets are evenly spread, lengths are full, indices count up
    modulo the extent, everything else (masks, counts) is one."""
    import numpy as np

    size = int(np.prod(shape))
    low = name.lower()
    if re.search(r"cu_|offset|starts?$|^cu|indptr", low):
        last = shape[-1] if shape else 1
        row = np.arange(last) * (total // max(last - 1, 1))
        return np.broadcast_to(row, shape).astype(np.int64)
    if re.search(r"len|size", low):
        return np.full(shape, max(total // max(size, 1), 1), dtype=np.int64)
    if re.search(r"ind|idx|table|ids?$", low):
        return (np.arange(size) % max(shape[-1] if shape else 1, 1)).reshape(shape).astype(np.int64)
    return np.ones(shape, dtype=np.int64)


def quiet(path: Path) -> None:
    """Send everything this process prints to a file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(fd, 1)
    os.dup2(fd, 2)


def examples(root: Path, only: str) -> list[Path]:
    """Example scripts below a checkout."""
    base = root / "examples" if (root / "examples").is_dir() else root
    found = [p for p in sorted(base.rglob("*.py")) if not any(s in str(p.relative_to(base)) for s in SKIP)]
    return [p for p in found if fnmatch.fnmatch(str(p.relative_to(base)), f"*{only}*")]


def harvest_all(paths: list[Path], base: Path, arch: str, cache: Path, seconds: float) -> list[Path]:
    """Kernel files of all examples, those known already included; duplicates of one example folder are dropped."""
    out: dict[tuple[str, str], Path] = {}
    for path in paths:
        folder = cache / arch / str(path.relative_to(base)).replace("/", "__")
        if not (folder / "problems.txt").exists():
            folder.mkdir(parents=True, exist_ok=True)
            real = False
            for real in (False, True):
                def run(path: Path = path, folder: Path = folder, real: bool = real) -> None:
                    quiet(folder / "log.txt")
                    save(path, arch, folder, fake=not real)

                problem = child(run, 20 * seconds)
                if problem:
                    with (folder / "problems.txt").open("a") as f:
                        f.write(f"\n{problem}")
                if list(folder.glob("*.json")) or not re.search("Dependent|Dynamic", (folder / "problems.txt").read_text()):
                    break
        for file in sorted(folder.glob("*.json")):
            if not file.stem.startswith(("tl_", "r_", "cp_")):
                out.setdefault((path.parent.name, file.stem), file)
    return list(out.values())


def captured_kernel(file: Path, arch: str) -> tuple[dict[str, Any], Any]:
    """A harvested kernel: its facts, and its IR at the capture point."""
    import tilelang
    from gtsim.frontend.tilelang.capture import CapturedKernel, make_target
    from tilelang import tvm

    entry = json.loads(file.read_text())
    module = tvm.ir.load_json(file.with_name(f"cp_{file.name}").read_text())
    configs = {k: v for k, v in entry["configs"].items() if v is not None}
    return entry, CapturedKernel(module, arch, make_target(arch), configs, entry["name"], str(tilelang.__version__))


def survey(file: Path, arch: str, limit: int) -> dict[str, Any]:
    """Lower, check and simulate one kernel."""
    import numpy as np
    from gtsim.backend import simulate
    from gtsim.frontend.tilelang.lower import lower_program_captured
    from gtsim.graph import check

    entry, captured = captured_kernel(file, arch)
    row: dict[str, Any] = {"notes": []}
    symbols = dict(entry["symbols"])
    arrays = dict(np.load(file.with_suffix(".npz")))
    start = time.perf_counter()
    graphs: Any = None
    for _ in range(40):
        try:
            graphs = lower_program_captured(captured, symbols=symbols, metadata=arrays)
            break
        except ValueError as e:
            unbound = re.search(r"the symbolic sizes? ((?:'\w+'(?:, )?)+) ha", str(e))
            missing = re.search(r"tensor '(\w+)', shape \[([\d, ]*)\]", str(e))
            if unbound:
                for name in re.findall(r"'(\w+)'", unbound.group(1)):
                    symbols[name] = SYMBOL
                    row["notes"].append(f"{name}={SYMBOL}")
            elif missing and missing.group(1) not in arrays:
                name = missing.group(1)
                shape = tuple(int(n) for n in missing.group(2).split(",") if n.strip())
                total = max((int(v) for v in symbols.values()), default=4096)
                arrays[name] = assume(name, shape, total)
                row["notes"].append(f"{name} assumed")
            else:
                raise
    row["seconds"] = time.perf_counter() - start
    row["nodes"] = sum(g.total_nodes for g in graphs)
    row["templates"] = sum(len(g.templates) for g in graphs)
    row["kernels"] = len(graphs)
    cycles = 0
    for graph in graphs:
        for finding in check(graph):
            if finding.severity == "error":
                raise ValueError(f"check: {finding.where}: {finding.text}")
        part = graph
        if graph.total_nodes > limit:
            count = max(int(len(graph.instances) * limit / graph.total_nodes), 1)
            part = dataclasses.replace(graph, instances=type(graph.instances)(
                graph.instances.template[:count], graph.instances.block[:count], graph.instances.columns[:count]))
            row["notes"].append(f"first {count} of {len(graph.instances)} CTAs")
        cycles += simulate(part, HARDWARE[arch]).cycles
    row["cycles"] = cycles
    return row


def guarded(work: Any, target: Path, *args: Any) -> Any:
    """A task that leaves its result, or its exception, in a file."""
    def run() -> None:
        quiet(target.with_suffix(".log"))
        try:
            result = work(*args)
        except BaseException as e:  # noqa: BLE001  everything is a result here
            lines = [ln for ln in str(e).strip().splitlines() if ln.strip()]
            text = str(e) if type(e).__module__.startswith("gtsim") else (lines[-1] if lines else "")
            result = {"error": f"{type(e).__name__}: {text[:400]}"}
            import traceback

            target.with_suffix(".trace").write_text(traceback.format_exc())
        target.write_text(json.dumps(result))

    return run


def reason(row: dict[str, Any]) -> str:
    """The class of an error, without names and numbers."""
    text = re.sub(r"^\w+: ", "", row["error"])
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "X", text)
    return re.sub(r"\d+", "N", text)[-200:] if "on N" not in text else text[:200]


def main() -> None:
    """Print the table and the totals."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tilelang", type=Path, required=True, metavar="DIR")
    parser.add_argument("--arch", default="sm_90a,sm_80")
    parser.add_argument("--only", default="", metavar="PATTERN", help="examples whose path matches")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep harvested kernels and TileLang's own verdicts here")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of a step")
    parser.add_argument("--nodes", type=int, default=300_000, help="simulate at most about so many executed nodes of a kernel")
    parser.add_argument("--harvest-only", action="store_true", help="stop after TileLang's own verdicts")
    args = parser.parse_args()
    import gtsim.backend
    import gtsim.frontend  # noqa: F401
    import tilelang  # noqa: F401  before the forks: they share it
    import torch  # noqa: F401

    cache = args.cache or Path(tempfile.mkdtemp(prefix="gtsim-zoo-"))
    base = args.tilelang / "examples" if (args.tilelang / "examples").is_dir() else args.tilelang
    rows = []
    for arch in args.arch.split(","):
        for file in harvest_all(examples(args.tilelang, args.only), base, arch, cache.resolve(), args.seconds):
            rows.append(one(file, arch, base, args))
            if rows[-1].get("lowers") and not args.harvest_only:
                print_row(rows[-1])
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    totals(rows)


def one(file: Path, arch: str, base: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The row of one kernel on one architecture."""
    verdict, result = file.with_name(f"tl_{file.stem}.json"), file.with_name(f"r_{file.stem}.json")
    entry = json.loads(file.read_text())
    row = {"example": str(Path(entry["example"]).relative_to(base.resolve())), "kernel": entry["name"], "key": entry["key"],
           "arch": arch}
    row["lowers"] = verdict.exists() and bool(json.loads(verdict.read_text()).get("lowers"))
    if not row["lowers"] or args.harvest_only:
        return row
    result.unlink(missing_ok=True)
    problem = child(guarded(survey, result, file, arch, args.nodes), args.seconds)
    return {**row, **(json.loads(result.read_text()) if result.exists() else {"error": problem or "no result"})}


def print_row(row: dict[str, Any]) -> None:
    """One line of the table."""
    where = f"{row['example'][:52]:52} {row['kernel'][:26]:26} {row['arch']:6}"
    if "error" in row:
        print(f"{where} {row['error']}", flush=True)
    else:
        print(f"{where} ok {row['nodes']:10d} nodes {row['templates']:5d} templates {row['cycles']:10d} cycles  "
              f"{', '.join(row['notes'])}", flush=True)


def totals(rows: list[dict[str, Any]]) -> None:
    """Share of what TileLang lowers, and the reasons of the rest."""
    for arch in dict.fromkeys(r["arch"] for r in rows):
        mine = [r for r in rows if r["arch"] == arch]
        lowered = [r for r in mine if r["lowers"]]
        good = [r for r in lowered if "cycles" in r]
        unfit = [r for r in lowered if UNFIT.search(r.get("error", ""))]
        share, able = (100 * len(good) / max(n, 1) for n in (len(lowered), len(lowered) - len(unfit)))
        print(f"{arch}: {len(mine)} kernels harvested, TileLang lowers {len(lowered)}, ok {len(good)} ({share:.1f} %; "
              f"{able:.1f} % without {len(unfit)} that {HARDWARE[arch]} cannot run: shared memory, operand type)")
        for text, count in Counter(reason(r) for r in lowered if "error" in r).most_common():
            print(f"  {count:4d}  {text}")


if __name__ == "__main__":
    main()
