"""`gtsim hw`: the GPUs that gtsim knows."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..backend import cluster_residency
from ..hwconfigs import diff_hardware, list_hardware, load_hardware
from . import _options as o
from ._app import app

hw = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List, show and compare the GPUs that gtsim knows.")
app.add_typer(hw, name="hw")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a GPU, or path of a .toml file.")]


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _print(table: Table) -> None:
    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)


def _value(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


@hw.command("list")
def list_() -> None:
    """List the GPUs."""
    table = _table("name", "architecture", "SMs", "clock, MHz", "description")
    for name in list_hardware():
        gpu = load_hardware(name)
        table.add_row(name, gpu.chip.arch, str(gpu.chip.sm_count), _value(gpu.chip.clock_mhz), gpu.description)
    _print(table)


@hw.command()
def show(name: Name, changes: o.Set = None, hw_file: o.HwFile = None) -> None:
    """Show every number of a GPU and where it comes from."""
    gpu = load_hardware(name, o.overrides(changes), hw_file or ())
    table = _table("key", "value", "source")
    for path, value in gpu.flat().items():
        table.add_row(path, _value(value), Text(gpu.source_comment(path), style="dim"))
    _print(table)


@hw.command()
def diff(a: Name, b: Name) -> None:
    """Show what differs between two GPUs."""
    table = _table("key", a, b)
    for path, left, right in diff_hardware(load_hardware(a), load_hardware(b)):
        table.add_row(path, _value(left), _value(right))
    _print(table)


@hw.command()
def clusters(
    name: Name,
    ctas_per_sm: Annotated[int, typer.Option("--ctas-per-sm", metavar="N", help="CTAs that one SM holds.")] = 1,
    changes: o.Set = None,
    hw_file: o.HwFile = None,
) -> None:
    """Show how many CTAs of each cluster size run at once."""
    gpu = load_hardware(name, o.overrides(changes), hw_file or ())
    table = _table("cluster size", "clusters", "CTAs", "SMs used", "of all")
    for row in cluster_residency(gpu, ctas_per_sm):
        table.add_row(*map(str, (row.cluster_ctas, row.clusters, row.ctas, row.sms)), f"{row.sms / gpu.chip.sm_count:.0%}")
    _print(table)
