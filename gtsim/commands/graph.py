"""`gtsim graph`: lower a kernel and save its graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..backend.errors import SimulationError
from ..backend.occupancy import occupancy
from ..files import check_writable
from ..graph import save_graph
from ..kernel_file import check_arguments, load_kernel, parse_pairs
from ..predictor import Options, Predictor, lower
from . import _options as o
from ._app import app

Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE.npz", help="Where to write the graph.")]


@app.command()
def graph(file: o.KernelFile, output: Output, arg: o.Arg = None, hw: o.Hw = None, changes: o.Set = None, hw_file: o.HwFile = None,
          symbol: o.Symbol = None, metadata: o.Metadata = None, pass_config: o.PassConfig = None,
          on_unknown: o.OnUnknown = None, detail: o.Detail = None, no_cache: o.NoCache = False) -> None:
    """Lower a kernel and save its graph, to simulate it anywhere."""

    def chosen(own: Options) -> Options:
        return o.options(own, hw=hw, hw_file=hw_file, changes=changes, symbol=symbol, metadata=metadata,
                         pass_config=pass_config, on_unknown=on_unknown, detail=detail, no_cache=no_cache)

    check_writable(output)
    arguments = parse_pairs("--arg", arg or ())
    options = chosen(Options())
    if hw is not None:
        options.hardware()
    name, kernel = load_kernel(file)
    check_arguments(name, kernel, arguments)
    if isinstance(kernel, Predictor):
        kernel, options = kernel.kernel, chosen(kernel.options)
    made = lower(kernel, (), arguments, hw=options.hardware(), symbols=options.symbols, metadata=options.metadata,
                 pass_configs=options.pass_configs, on_unknown=options.on_unknown, detail=options.detail, cache=options.cache)
    save_graph(made, output)
    nodes = sum(t.nodes for t in made.templates)
    print(f"{output}: {made.name} for {made.launch.arch}, {len(made.templates)} templates, {nodes} nodes, "
          f"{len(made.instances)} instances")
    warnings = list(made.warnings)
    try:
        occupancy(made, options.hardware())
    except SimulationError as error:
        warnings.append(f"it will not run: {error}")
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
