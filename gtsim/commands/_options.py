"""Options that several commands share, and what they mean."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..checker import CheckReport
from ..hwconfigs import parse_override
from ..kernel_file import parse_pairs
from ..metadata import load_metadata
from ..prediction import Prediction
from ..predictor import DEFAULT_HARDWARE, Options
from ..sequence import SequencePrediction

_KERNEL = "A Python file, and the kernel in it where there are several: gemm.py or gemm.py:make."

KernelFile = Annotated[str, typer.Argument(metavar="FILE.py[:FACTORY]", help=_KERNEL)]
Arg = Annotated[
    list[str] | None, typer.Option("--arg", "-a", metavar="NAME=VALUE", help="An argument of the factory. Repeatable.")
]
Symbol = Annotated[
    list[str] | None, typer.Option("--symbol", metavar="NAME=VALUE", help="A symbolic size of the kernel. Repeatable.")
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata", metavar="FILE.npz|NAME=FILE.npy", help="Integer tensors that steer the kernel's control flow. Repeatable."
    ),
]
PassConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--pass-config", metavar="NAME=VALUE", help="A switch of the TileLang compiler, such as tl.disable_tma_lower=true."
    ),
]
OnUnknown = Annotated[
    str | None,
    typer.Option(
        "--on-unknown",
        metavar="error|warn",
        show_default="error",
        help="What to do about a statement that gtsim cannot interpret.",
    ),
]
Detail = Annotated[
    str | None,
    typer.Option(
        "--detail",
        metavar="fast|exact",
        show_default="fast",
        help="exact asks TileLang's later passes for layouts, TMA boxes, instructions, shared memory and barriers.",
    ),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="With --detail exact, neither read nor write the cache.")]
Hw = Annotated[
    str | None, typer.Option("--hw", metavar="NAME|FILE.toml", help="The GPU; see gtsim hw list.", show_default=DEFAULT_HARDWARE)
]
HwFile = Annotated[
    list[str] | None, typer.Option("--hw-file", metavar="FILE.toml", help="Settings laid over the GPU's. Repeatable.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Change one number of the GPU, such as l2.latency_near_cycles=200. Repeatable."
    ),
]
Clock = Annotated[float | None, typer.Option("--clock-mhz", metavar="MHZ", help="SM clock; the GPU's own by default.")]
Fidelity = Annotated[
    str | None,
    typer.Option("--fidelity", metavar="fast|bulk|line",
                 help="line simulates every 128-byte line by itself; fast leaves out CTAs that repeat others.",
                 show_default="bulk"),
]
Policy = Annotated[
    str | None,
    typer.Option("--policy", metavar="gto|lrr|oldest", show_default="gto", help="How a scheduler chooses among ready warps."),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", show_default="1", help="Host threads; the result is the same for any number."),
]
Json = Annotated[str | None, typer.Option("--json", metavar="FILE|-", help="Write the result as JSON; - is standard output.")]
ShowReport = Annotated[
    bool | None, typer.Option("--report/--no-report", help="Print the report.", show_default="yes, except with --json -")
]


def overrides(changes: list[str] | None) -> dict[str, Any]:
    """What `--set` options say. Raises HardwareError."""
    return dict(parse_override(text) for text in changes or ())


def options(
    own: Options,
    *,
    hw: str | None,
    hw_file: list[str] | None,
    changes: list[str] | None,
    clock_mhz: float | None = None,
    fidelity: str | None = None,
    policy: str | None = None,
    threads: int | None = None,
    symbol: list[str] | None = None,
    metadata: list[str] | None = None,
    pass_config: list[str] | None = None,
    on_unknown: str | None = None,
    detail: str | None = None,
    no_cache: bool = False,
) -> Options:
    """What the command line asks for, laid over the kernel's `own` options. Raises UsageError and HardwareError."""
    asked = {"hw": hw, "clock_mhz": clock_mhz, "fidelity": fidelity, "policy": policy, "threads": threads,
             "on_unknown": on_unknown, "detail": detail, "cache": False if no_cache else None}
    made = replace(
        own,
        override_files=(*own.override_files, *(hw_file or ())),
        overrides={**own.overrides, **overrides(changes)},
        symbols={**own.symbols, **parse_pairs("--symbol", symbol or ())},
        metadata={**own.metadata, **load_metadata(metadata or ())},
        pass_configs={**own.pass_configs, **parse_pairs("--pass-config", pass_config or (), dotted=True)},
        **{k: v for k, v in asked.items() if v is not None},  # type: ignore[arg-type]
    )
    made.check()
    return made


def check_json(target: str | None) -> None:
    """Refuse an output that cannot be written before anything is computed. Raises UsageError."""
    from ..files import check_writable

    if target not in (None, "-"):
        check_writable(Path(str(target)))


def quiet_stdout(json_target: str | None) -> contextlib.AbstractContextManager[Any]:
    """With `--json -`, what the kernel's file prints goes to standard error: standard output holds JSON only."""
    return contextlib.redirect_stdout(sys.stderr) if json_target == "-" else contextlib.nullcontext()


def output(made: Prediction | SequencePrediction | CheckReport, json_target: str | None, show_report: bool | None) -> None:
    """Write what the user asked for: JSON, the report, or both."""
    from ..files import write_text

    if json_target is not None:
        text = json.dumps(made.to_dict(), indent=2) + "\n"
        if json_target == "-":
            sys.stdout.write(text)
        else:
            write_text(Path(json_target), text)
    if show_report if show_report is not None else json_target != "-":
        made.report()
