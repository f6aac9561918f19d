"""`gtsim model`: a whole model, one pass of it, by kernel."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from ..files import check_writable, write_text
from ..predictor import Options
from ..progress import progress_bar
from . import _options as o
from ._app import app

if TYPE_CHECKING:
    from ..models import ModelPrediction

_RANGE = "A number, a list (1,2,4), or A..B: A, doubled until it would pass B, and B."

_MODEL = "llama3-8b, another preset, or the config.json of a model on Hugging Face."

Model = Annotated[str, typer.Argument(metavar="NAME|CONFIG.json", help=_MODEL)]
Phase = Annotated[str, typer.Option(metavar="prefill|decode", help="All tokens of a prompt, or one new token a sequence.")]
Batch = Annotated[str, typer.Option(metavar="N|A..B", help=f"Sequences. {_RANGE}")]
Kv = Annotated[str, typer.Option("--kv", "--seq", metavar="N|A..B", help=f"Tokens of a sequence, new ones included. {_RANGE}")]
Dtype = Annotated[str, typer.Option(metavar="bfloat16|float16", help="Of weights, activations and cache.")]
Routing = Annotated[str, typer.Option(metavar="balanced|FILE.json|N,N,...", help="Rows of each expert of a layer.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write a row a launch.")]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw a stacked bar a point.")]


@app.command()
def model(
    name: Model,
    phase: Phase = "decode",
    batch: Batch = "1",
    kv: Kv = "2048",
    dtype: Dtype = "bfloat16",
    routing: Routing = "balanced",
    hw: o.Hw = None,
    clock_mhz: o.Clock = None,
    fidelity: o.Fidelity = None,
    threads: o.Threads = None,
    changes: o.Set = None,
    hw_file: o.HwFile = None,
    json: o.Json = None,
    csv: Csv = None,
    svg: Svg = None,
    report: o.ShowReport = None,
) -> None:
    """Predict a whole model: the kernels of a layer, their time, and that of a pass through all layers."""
    # What can be refused without TileLang, which takes a while, is refused first.
    o.check_json(json)
    for path in (csv, svg):
        if path is not None:
            check_writable(path)
    options = o.options(Options(), hw=hw, hw_file=hw_file, changes=changes, clock_mhz=clock_mhz, fidelity=fidelity,
                        threads=threads)
    from ..models import Predictor, layer_calls, load_model, workloads

    config = load_model(name)
    points = workloads(phase, values("--batch", batch), values("--kv", kv), dtype, _counts(routing, bool(config.experts)))
    predictor = Predictor(options)
    for work in points:
        layer_calls(config, work, predictor.hw, 0)  # refuses a routing that does not fit
    made: list[ModelPrediction] = []
    try:
        with progress_bar(f"simulating {config.name}") as progress:
            for i, work in enumerate(points):

                def step(share: float, done: int = i) -> None:
                    if progress is not None:
                        progress((done + share) / len(points))

                made.append(predictor.predict(config, work, step))
                _write(made, json, csv, svg)
    finally:
        if made:  # also what finished before an interruption or an error
            _show(made, json, report)


def _write(made: list[ModelPrediction], json: str | None, csv: Path | None, svg: Path | None) -> None:
    """The files, with what has finished so far."""
    from ..models.figure import stacked_bars
    from ..models.report import csv_text

    if json not in (None, "-"):
        write_text(Path(str(json)), _json(made))
    if csv is not None:
        write_text(csv, csv_text(made))
    if svg is not None:
        write_text(svg, stacked_bars(made))


def _show(made: list[ModelPrediction], json: str | None, report: bool | None) -> None:
    from ..models.report import report as content
    from ..report import print_text

    if json == "-":
        sys.stdout.write(_json(made))
    if report if report is not None else json != "-":
        print_text(content(made))


def _json(made: list[ModelPrediction]) -> str:
    from ..models.report import warnings_of

    warnings = list(dict.fromkeys(w for m in made for w in warnings_of(m)))
    return json_module.dumps({"points": [m.to_dict() for m in made], "warnings": warnings}, indent=2) + "\n"


def values(option: str, text: str) -> list[int]:
    """What `1`, `1,2,4` and `1..8` stand for. Raises UsageError."""
    def number(part: str) -> int:
        if not part.strip().isdecimal() or not 1 <= int(part) <= 1 << 20:
            raise UsageError(f"{option} {text}: {part.strip()!r:.40} is not a number from 1 to {1 << 20}. Write 512, 512,1024 or "
                             "512..2048.")
        return int(part)

    low, dots, high = text.partition("..")
    if not dots:
        return list(dict.fromkeys(number(part) for part in text.split(",")))
    first, last = number(low), number(high)
    if first > last:
        raise UsageError(f"{option} {text}: {first} is more than {last}. Write the smaller one first.")
    out = [first]
    while out[-1] * 2 <= last:
        out.append(out[-1] * 2)
    return out if out[-1] == last else [*out, last]


def _counts(text: str, experts: bool) -> list[int] | None:
    """Rows of each expert; None if they are balanced. Raises UsageError."""
    if text == "balanced":
        return None
    if not experts:
        raise UsageError("--routing: this model has no experts.")
    if Path(text).is_file():
        try:
            found = json_module.loads(Path(text).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"--routing {text}: not a JSON file: {error}") from None
    else:
        found = [int(part) if part.strip().isdecimal() else part for part in text.split(",")]
    if not isinstance(found, list) or not all(isinstance(n, int) and not isinstance(n, bool) for n in found):
        raise UsageError(f"--routing {text:.60}: must be balanced, a list of numbers (one an expert), or a JSON file with one.")
    return found
