"""The application that commands register with."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(name="gtsim", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
                  rich_markup_mode=None, help="Predict how fast TileLang GPU kernels run, and why, without a GPU.")


def _version(wanted: bool) -> None:
    if wanted:
        import gtsim

        print(f"gtsim {gtsim.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and what TileLang printed. May stand anywhere.")
    ] = False,
) -> None:
    """Take the options that stand before the command; `--debug` has been read by then (gtsim.cli)."""
