"""`gtsim measure`: time a kernel on this machine's own GPU, and put the prediction beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..arguments import check_choice
from ..errors import UsageError
from ..kernel_file import check_arguments, load_kernel, parse_pairs
from ..predictor import Options, Predictor
from ..progress import progress_bar
from . import _options as o
from ._app import app

Hw = Annotated[str | None, typer.Option("--hw", metavar="NAME|FILE.toml", show_default="by the name of this machine's GPU",
                                        help="The GPU to predict; see gtsim hw list.")]
Clock = Annotated[float | None, typer.Option("--clock-mhz", metavar="MHZ", show_default="as measured",
                                             help="SM clock, for cycles and for the prediction.")]
Rows = Annotated[Path | None, typer.Option("--out", "--csv", metavar="FILE.csv", help="Append the measurement as a row.")]
Repeats = Annotated[int, typer.Option("--repeats", "-n", metavar="N", min=1, max=10_000, help="Runs that count.")]
Warmup = Annotated[int, typer.Option("--warmup", metavar="N", min=0, max=10_000, help="Runs before them.")]
WarmL2 = Annotated[bool, typer.Option("--warm-l2", help="Do not empty the L2 before each run.")]
TimerChoice = Annotated[str, typer.Option("--timer", metavar="kernel|events",
                                          help="kernel: time of the kernels alone (CUPTI); events: CUDA events around the call.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of the random inputs.")]
Op = Annotated[str | None, typer.Option("--op", metavar="NAME", help="The row's column op; the kernel's name by default.")]
Case = Annotated[str | None, typer.Option("--case", metavar="NAME", help="The row's column case; the arguments by default.")]


@app.command()
def measure(file: o.KernelFile, arg: o.Arg = None, out: Rows = None, repeats: Repeats = 100, warmup: Warmup = 10,
            warm_l2: WarmL2 = False, timer: TimerChoice = "kernel", seed: Seed = 0, op: Op = None, case: Case = None,
            hw: Hw = None, clock_mhz: Clock = None, fidelity: o.Fidelity = None, threads: o.Threads = None,
            changes: o.Set = None, hw_file: o.HwFile = None, symbol: o.Symbol = None, metadata: o.Metadata = None,
            pass_config: o.PassConfig = None, on_unknown: o.OnUnknown = None, detail: o.Detail = None) -> None:
    """Time a kernel on this machine's own GPU, beside the prediction at the clock that was measured."""
    from ..measure import cuda_device
    from ..measure.device import TIMERS
    from ..measure.report import report, warnings
    from ..measure.rows import append_row, check_rows_file
    from ..measure.run import measure as run
    from ..measure.run import predict_beside

    def chosen(own: Options) -> Options:
        return o.options(own, hw=hw, hw_file=hw_file, changes=changes, clock_mhz=clock_mhz, fidelity=fidelity, threads=threads,
                         symbol=symbol, metadata=metadata, pass_config=pass_config, on_unknown=on_unknown, detail=detail)

    arguments = parse_pairs("--arg", arg or ())
    options = chosen(Options())
    if hw is not None:
        options.hardware()
    check_choice("timer", timer, TIMERS)
    if not Path(file.rpartition(":")[0] or file).is_file() and not Path(file).is_file():
        raise UsageError(f"{file}: no such file.")
    if out is not None:
        check_rows_file(out)
    device = cuda_device.open_device()
    name, kernel = load_kernel(file)
    check_arguments(name, kernel, arguments)
    if isinstance(kernel, Predictor):
        kernel, options = kernel.kernel, chosen(kernel.options)
    measured = run(kernel, name, arguments, options, device, warmup=warmup, repeats=repeats, cold=not warm_l2,
                   timer="kernel" if timer == "kernel" else "events", seed=seed,
                   step=lambda what: typer.echo(f"{name}: {what}", err=True))
    if out is not None:  # before the prediction, which may take longer and be stopped
        left_out = append_row(out, measured.row(op=op, case=case))
        typer.echo(f"{out}: row appended" + (f"; it has no column {', '.join(left_out)}" if left_out else ""), err=True)
    with progress_bar(f"simulating {name}") as progress:
        predicted = predict_beside(measured, kernel, arguments, options, hw_given=hw is not None, progress=progress)
    print(report(measured, predicted))
    for text in warnings(measured):
        typer.echo(f"warning: {text}", err=True)
