"""`gtsim predict`: from a kernel file to a report."""

from __future__ import annotations

from ..kernel_file import check_arguments, load_kernel, parse_pairs
from ..predictor import Options, Predictor, run
from ..progress import progress_bar
from . import _options as o
from ._app import app


@app.command()
def predict(file: o.KernelFile, arg: o.Arg = None, hw: o.Hw = None, clock_mhz: o.Clock = None, fidelity: o.Fidelity = None,
            policy: o.Policy = None, threads: o.Threads = None, changes: o.Set = None, hw_file: o.HwFile = None,
            symbol: o.Symbol = None, metadata: o.Metadata = None, pass_config: o.PassConfig = None,
            on_unknown: o.OnUnknown = None, detail: o.Detail = None, no_cache: o.NoCache = False, json: o.Json = None,
            report: o.ShowReport = None) -> None:
    """Predict a kernel: how long it takes, and why."""

    def chosen(own: Options) -> Options:
        return o.options(own, hw=hw, hw_file=hw_file, changes=changes, clock_mhz=clock_mhz, fidelity=fidelity, policy=policy,
                         threads=threads, symbol=symbol, metadata=metadata, pass_config=pass_config, on_unknown=on_unknown,
                         detail=detail, no_cache=no_cache)

    # What can be refused without importing the kernel, which takes a while, is refused first.
    o.check_json(json)
    arguments = parse_pairs("--arg", arg or ())
    options = chosen(Options())
    if hw is not None:
        options.hardware()
    with o.quiet_stdout(json):
        name, kernel = load_kernel(file)
        check_arguments(name, kernel, arguments)
        if isinstance(kernel, Predictor):
            kernel, options = kernel.kernel, chosen(kernel.options)
        with progress_bar(f"simulating {name}") as progress:
            prediction = run(kernel, (), arguments, options, progress)
    o.output(prediction, json, report)
