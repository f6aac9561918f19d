#!/usr/bin/env python3
"""Survey the example kernels of TileLang: which become graphs that pass the check and simulate.

    python validation/zoo.py --tilelang DIR [--arch sm_90a,sm_80] [--only PATTERN] [--json FILE] [--cache DIR] [--jobs 2]

DIR is a checkout of tile-ai/tilelang (tested: commit a35008a). Two steps, in child processes without a GPU: run every example,
keep the kernels it would compile and ask TileLang itself whether it lowers each to CUDA (zoo_harvest.py); lower, check and
simulate those. With --cache, what is done is kept: the first step for a release of TileLang, the second for a state of gtsim's
sources. Stop it when you like; the next run goes on from there.

Sizes are those the example passes, 256 for a symbol that it never binds. Integer tensors that steer control flow have the values
the example passes if it builds them from constants; otherwise a rule fills them (`assume` below) and the table says so. Of a
large grid the first CTAs are simulated, and the table says how many. Needs tilelang 0.1.15 and torch; einops and other imports of
the examples help.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import functools
import hashlib
import json
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from zoo_harvest import save  # noqa: E402
from zoo_processes import Task, guarded, leave, pool, quiet  # noqa: E402

HARDWARE = {"sm_90a": "h100_sxm", "sm_80": "a100_sxm"}
SYMBOL = 256  #: size of a symbolic dimension that the example does not bind
#: TileLang lowers these without asking whether the GPU can run them.
UNFIT = re.compile(r"^CheckError: (overflow|illegal|residency): |bytes of shared memory, \w+ allows|has no tensor-core rate for")
INDEX = re.compile(r"ind|idx|table|ids?$")  #: names of tensors of indices
SKIP = ("conftest",)


def assume(name: str, shape: tuple[int, ...], total: int) -> Any:
    """Values for an integer tensor the example does not state: offsets are evenly spread, lengths are full, indices count up
    modulo the extent (of what they index, if that is smaller), in pairs with zero if they are pairs, everything else (masks,
    counts) is one."""
    import numpy as np

    size = int(np.prod(shape))
    low = name.lower()
    if re.search(r"cu_|offset|starts?$|^cu|indptr", low):
        last = shape[-1] if shape else 1
        row = np.arange(last) * (total // max(last - 1, 1))
        return np.broadcast_to(row, shape).astype(np.int64)
    if re.search(r"len|size", low):
        return np.full(shape, max(total // max(size, 1), 1), dtype=np.int64)
    if INDEX.search(low) and len(shape) == 2 and shape[1] == 2:  # pairs of sequence and position: one sequence
        return np.stack([np.zeros(shape[0], dtype=np.int64), np.arange(shape[0])], axis=1)
    if INDEX.search(low):
        return (np.arange(size) % max(shape[-1] if shape else 1, 1)).reshape(shape).astype(np.int64)
    return np.ones(shape, dtype=np.int64)


def examples(base: Path, only: str) -> list[Path]:
    """Example scripts below a folder."""
    found = [p for p in sorted(base.rglob("*.py")) if not any(s in str(p.relative_to(base)) for s in SKIP)]
    return [p for p in found if fnmatch.fnmatch(str(p.relative_to(base)), f"*{only}*")]


def run_all(what: str, tasks: Sequence[Task], seconds: float, jobs: int) -> Iterator[tuple[int, str]]:
    """:func:`pool` that counts on stderr, every ten seconds."""
    start = shown = time.monotonic()
    for done, (index, problem) in enumerate(pool(tasks, seconds, jobs), 1):
        now = time.monotonic()
        if now > shown + 10 or done == len(tasks):
            shown = now
            print(f"{what}: {done} of {len(tasks)}, {now - start:.0f} s", file=sys.stderr, flush=True)
        yield index, problem


def harvest_all(paths: Sequence[Path], base: Path, arch: str, cache: Path, seconds: float, jobs: int) -> list[Path]:
    """Kernel files of all examples, those known already included; duplicates of one example folder are dropped."""
    folders = {p: cache / str(p.relative_to(base)).replace("/", "__") for p in paths}
    for real in (False, True):  # with values where shapes are not enough
        missing = [p for p, folder in folders.items() if not (folder / "problems.txt").exists()] if not real else [
            p for p, folder in folders.items() if not list(folder.glob("*.json")) and not (folder / "real.txt").exists()
            and re.search("Dependent|Dynamic", (folder / "problems.txt").read_text())]

        def task(path: Path, real: bool = real) -> None:
            folder = folders[path]
            folder.mkdir(parents=True, exist_ok=True)
            quiet(folder / "log.txt")
            save(path, arch, folder, cache / "kernels", fake=not real, seconds=seconds / 2)

        tasks = [functools.partial(task, p) for p in missing]
        for index, problem in run_all(f"{arch} examples{' again, with values' if real else ''}", tasks, 60 * seconds, jobs):
            folder = folders[missing[index]]
            folder.mkdir(parents=True, exist_ok=True)
            if problem:
                leave(folder / "problems.txt", problem)
            if real:
                leave(folder / "real.txt", problem)
    out: dict[tuple[str, str], Path] = {}
    for path, folder in folders.items():
        for file in sorted(folder.glob("*.json")):
            out.setdefault((path.parent.name, file.stem), file)
    return list(out.values())


def captured_kernel(file: Path, arch: str, captured: Path) -> tuple[dict[str, Any], Any]:
    """A harvested kernel: its facts, and its IR at the capture point."""
    import tilelang
    from gtsim.frontend.tilelang.capture import CapturedKernel, make_target
    from tilelang import tvm

    entry = json.loads(file.read_text())
    module = tvm.ir.load_json(captured.read_text())
    configs = {k: v for k, v in entry["configs"].items() if v is not None}
    return entry, CapturedKernel(module, arch, make_target(arch), configs, entry["name"], str(tilelang.__version__))


def lower(captured: Any, symbols: dict[str, int], arrays: dict[str, Any], notes: list[str]) -> Any:
    """The graphs of a program; what it asks for and the example does not say is assumed and noted."""
    from gtsim.frontend.tilelang.lower import lower_program_captured

    assumed: list[str] = []
    for _ in range(40):
        try:
            return lower_program_captured(captured, symbols=symbols, metadata=arrays, check=False)
        except ValueError as e:
            unbound = re.search(r"the symbolic sizes? ((?:'\w+'(?:, )?)+) ha", str(e))
            missing = re.search(r"tensor '(\w+)', shape \[([\d, ]*)\]", str(e))
            outside = re.search(r"is read at index -?\d+ of dimension \d+, whose size is (\d+)", str(e))
            indices = [name for name in assumed if INDEX.search(name.lower())]
            if unbound:
                for name in re.findall(r"'(\w+)'", unbound.group(1)):
                    symbols[name] = SYMBOL
                    notes.append(f"{name}={SYMBOL}")
            elif missing and missing.group(1) not in arrays:
                name = missing.group(1)
                shape = tuple(int(n) for n in missing.group(2).split(",") if n.strip())
                total = max((int(v) for v in symbols.values()), default=4096)
                arrays[name] = assume(name, shape, total)
                assumed.append(name)
                notes.append(f"{name} assumed")
            elif outside and any((arrays[name] >= int(outside.group(1))).any() for name in indices):
                for name in indices:
                    arrays[name] = arrays[name] % int(outside.group(1))
            else:
                raise
    raise ValueError("it asks for ever more sizes and tensors")


def survey(file: Path, arch: str, captured_file: Path, limit: int) -> dict[str, Any]:
    """Lower, check and simulate one kernel."""
    import numpy as np
    from gtsim.backend import simulate
    from gtsim.backend.occupancy import limits
    from gtsim.graph import CheckError, check
    from gtsim.hwconfigs import load_hardware

    entry, captured = captured_kernel(file, arch, captured_file)
    hw = load_hardware(HARDWARE[arch])
    notes: list[str] = []
    start = time.perf_counter()
    graphs = lower(captured, dict(entry["symbols"]), dict(np.load(file.with_suffix(".npz"))), notes)
    lowered = time.perf_counter()
    findings = [f for g in graphs for f in check(g, limits(hw))]
    checked = time.perf_counter()
    row: dict[str, Any] = {"nodes": sum(g.total_nodes for g in graphs), "templates": sum(len(g.templates) for g in graphs),
                           "kernels": len(graphs), "notes": notes, "warnings": [w for g in graphs for w in g.meta["warnings"]],
                           "findings": [[f.kind, f.severity, f.where, f.text] for f in findings]}
    errors = [f for f in findings if f.severity == "error"]
    if errors:
        return {**row, "error": f"{CheckError.__name__}: {errors[0].kind}: {errors[0].where}: {errors[0].line()}"}
    cycles = 0
    for graph in graphs:
        part = graph
        if graph.total_nodes > limit:
            count = max(int(len(graph.instances) * limit / graph.total_nodes), 1)
            part = dataclasses.replace(graph, instances=type(graph.instances)(
                graph.instances.template[:count], graph.instances.block[:count], graph.instances.columns[:count]))
            notes.append(f"first {count} of {len(graph.instances)} CTAs")
        cycles += simulate(part, hw).cycles
    row["seconds"] = [round(b - a, 3) for a, b in ((start, lowered), (lowered, checked), (checked, time.perf_counter()))]
    return {**row, "cycles": cycles}


def state() -> str:
    """A digest of gtsim's sources, its engine and this file: results of another state are not reused."""
    import gtsim

    digest = hashlib.sha1(Path(__file__).read_bytes())
    for root in gtsim.__path__:
        for room in ("frontend", "graph", "backend", "hwconfigs"):
            for file in sorted((Path(root) / room).resolve().rglob("*")):
                if file.suffix in (".py", ".so", ".toml"):
                    digest.update(file.read_bytes())
    return digest.hexdigest()


def survey_all(files: Sequence[Path], base: Path, arch: str, cache: Path, args: argparse.Namespace,
               rows: list[dict[str, Any]]) -> None:
    """Add the row of each kernel to `rows`, and print those of the kernels that TileLang lowers."""
    now = f"{state()} {args.nodes}"
    waiting = []
    for file in files:
        entry, verdict = json.loads(file.read_text()), json.loads((cache / "kernels" / f"{file.stem}.verdict.json").read_text())
        row = {"example": str(Path(entry["example"]).relative_to(base)), "kernel": entry["name"], "key": entry["key"],
               "arch": arch, "lowers": verdict["lowers"], "verdict": verdict.get("error", "")}
        result = file.with_suffix(".result")
        if not row["lowers"] or args.harvest_only:
            rows.append(row)
        elif "capture" in verdict:
            rows.append({**row, "error": verdict["capture"]})
            print_row(rows[-1])
        elif result.exists() and json.loads(result.read_text()).get("state") == now:
            rows.append({**row, **json.loads(result.read_text())})
            print_row(rows[-1])
        else:
            result.unlink(missing_ok=True)
            waiting.append((row, file, result))
    tasks = [guarded(survey, result, file, arch, cache / "kernels" / f"{file.stem}.captured.json", args.nodes, state=now)
             for _, file, result in waiting]
    for index, problem in run_all(f"{arch} surveyed", tasks, args.seconds, args.jobs):
        row, _, result = waiting[index]
        rows.append({**row, **(json.loads(result.read_text()) if result.exists() else {"error": problem or "no result"})})
        print_row(rows[-1])


def reason(row: dict[str, Any]) -> str:
    """The class of an error, without names and numbers."""
    text = re.sub(r"^\w+: ", "", row["error"])
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "X", text)
    return re.sub(r"\d+", "N", text)[-200:] if "on N" not in text else text[:200]


def print_row(row: dict[str, Any]) -> None:
    """One line of the table."""
    where = f"{row['example'][:52]:52} {row['kernel'][:26]:26} {row['arch']:6}"
    if "error" in row:
        print(f"{where} {' '.join(row['error'].split())}", flush=True)
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
        late = [r for r in mine if r["verdict"].startswith("more than")]
        share, able = (100 * len(good) / max(n, 1) for n in (len(lowered), len(lowered) - len(unfit)))
        print(f"{arch}: {len(mine)} kernels harvested, TileLang lowers {len(lowered)}, ok {len(good)} ({share:.1f} %; "
              f"{able:.1f} % without {len(unfit)} that {HARDWARE[arch]} cannot run)")
        if late:
            print(f"  {len(late):4d}  on which TileLang reached no verdict in time (not counted)")
        for text, count in Counter(reason(r) for r in lowered if "error" in r).most_common():
            print(f"  {count:4d}  {text}")


def main() -> int:
    """Print the table and the totals."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tilelang", type=Path, required=True, metavar="DIR")
    parser.add_argument("--arch", default="sm_90a,sm_80")
    parser.add_argument("--only", default="", metavar="PATTERN", help="examples whose path matches")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep what is done here")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=120.0, help="time limit of a step")
    parser.add_argument("--nodes", type=int, default=300_000, help="simulate at most about so many executed nodes of a kernel")
    parser.add_argument("--harvest-only", action="store_true", help="stop after TileLang's own verdicts")
    args = parser.parse_args()
    import gtsim.backend
    import gtsim.frontend  # noqa: F401
    import gtsim.frontend.tilelang.lower
    import gtsim.graph.check  # noqa: F401
    import tilelang  # before the forks: they share it
    import torch  # noqa: F401
    from gtsim.frontend.tilelang.ops import handler

    handler("")  # loads all operations
    root = args.tilelang.resolve()
    base = root / "examples" if (root / "examples").is_dir() else root
    rows: list[dict[str, Any]] = []
    interrupted = False
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    kept = (args.cache or Path(tempfile.mkdtemp(prefix="gtsim-zoo-"))).resolve()
    try:
        for arch in args.arch.split(","):
            cache = kept / f"{arch}-tilelang-{tilelang.__version__}"
            files = harvest_all(examples(base, args.only), base, arch, cache, args.seconds, args.jobs)
            survey_all(files, base, arch, cache, args, rows)
            silent = sum(not list(f.glob("*.json")) for f in cache.iterdir() if (f / "problems.txt").exists())
            print(f"{arch}: {silent} example files give no kernel (helpers, other vendors, missing packages): why is in "
                  f"{cache}/*/problems.txt", file=sys.stderr)
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: totals of what is done", file=sys.stderr)
    rows.sort(key=lambda r: (r["arch"] != args.arch.split(",")[0], r["example"], r["kernel"], r["key"]))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    totals(rows)
    return 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
