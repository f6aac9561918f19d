"""`gtsim check`: is the kernel right, before it is simulated?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..checker import check as run_check
from ..errors import UsageError
from ..graph import load_graph
from ..kernel_file import check_arguments, load_kernel, parse_pairs
from ..predictor import Options, Predictor
from . import _options as o
from ._app import app

#: Exit status if there are errors among the findings.
FINDINGS = 3

Subject = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py[:FACTORY]|GRAPH.npz", help="A kernel file as for gtsim predict, or a graph that gtsim graph wrote."
    ),
]


@app.command()
def check(
    file: Subject,
    arg: o.Arg = None,
    hw: o.Hw = None,
    changes: o.Set = None,
    hw_file: o.HwFile = None,
    symbol: o.Symbol = None,
    metadata: o.Metadata = None,
    pass_config: o.PassConfig = None,
    on_unknown: o.OnUnknown = None,
    detail: o.Detail = None,
    no_cache: o.NoCache = False,
    json: o.Json = None,
    report: o.ShowReport = None,
) -> None:
    """Find deadlocks, races, overflows and what costs time. Exits with 3 if there are errors."""

    def chosen(own: Options) -> Options:
        return o.options(
            own, hw=hw, hw_file=hw_file, changes=changes, symbol=symbol, metadata=metadata, pass_config=pass_config,
            on_unknown=on_unknown, detail=detail, no_cache=no_cache,
        )

    o.check_json(json)
    arguments = parse_pairs("--arg", arg or ())
    options = chosen(Options())
    if hw is not None:
        options.hardware()
    if file.endswith(".npz"):
        if arguments:
            raise UsageError(f"{file} is a graph and takes no arguments.")
        if not Path(file).is_file():
            raise UsageError(f"{file}: no such file.")
        found = run_check(load_graph(file), hw=options.hardware())
    else:
        with o.quiet_stdout(json):
            name, kernel = load_kernel(file)
            check_arguments(name, kernel, arguments)
            if isinstance(kernel, Predictor):
                kernel, options = kernel.kernel, chosen(kernel.options)
            found = run_check(
                kernel,
                (),
                arguments,
                hw=options.hardware(),
                symbols=options.symbols,
                metadata=options.metadata,
                pass_configs=options.pass_configs,
                on_unknown=options.on_unknown,
                detail=options.detail,
                cache=options.cache,
            )
    o.output(found, json, report)
    if not found.ok:
        raise typer.Exit(FINDINGS)
