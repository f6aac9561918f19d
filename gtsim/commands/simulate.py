"""`gtsim simulate`: predict a saved graph; needs no TileLang."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from ..graph import load_graph
from ..predictor import Options, simulate_graph
from ..progress import progress_bar
from . import _options as o
from ._app import app

GraphFile = Annotated[Path, typer.Argument(metavar="GRAPH.npz", help="A graph that gtsim graph wrote.")]


@app.command()
def simulate(
    file: GraphFile,
    hw: o.Hw = None,
    clock_mhz: o.Clock = None,
    fidelity: o.Fidelity = None,
    policy: o.Policy = None,
    threads: o.Threads = None,
    changes: o.Set = None,
    hw_file: o.HwFile = None,
    json: o.Json = None,
    report: o.ShowReport = None,
) -> None:
    """Predict a saved graph, without TileLang."""
    o.check_json(json)
    options = o.options(Options(), hw=hw, hw_file=hw_file, changes=changes, clock_mhz=clock_mhz, fidelity=fidelity, policy=policy,
                        threads=threads)
    options.hardware()
    if not file.is_file():
        raise UsageError(f"{file}: no such file." if not file.is_dir() else f"{file} is a folder. Give a graph file.")
    graph = load_graph(file)
    with progress_bar(f"simulating {graph.name}") as progress:
        prediction = simulate_graph(graph, options, progress)
    o.output(prediction, json, report)
