"""Tables and bars of model predictions for the terminal, and rows for files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ..report.style import columns, count, nbytes, percent, resource_name, shrinking
from .predict import ModelPrediction, Step, memory_bytes, shares

#: Kernel tables are printed for up to so many points; the files always have all.
MOST_TABLES = 4
BAR_WIDTH = 72
COLOURS = ("cyan", "blue", "green", "magenta", "yellow", "red", "bright_blue", "bright_green", "bright_magenta", "bright_yellow",
           "bright_red", "bright_cyan", "white")  # fmt: skip
CSV_COLUMNS = ("model", "hardware", "clock_mhz", "phase", "batch", "kv", "dtype", "part", "launches", "name", "kernel", "cycles",
               "time_us", "dram_read_bytes", "dram_written_bytes", "l2_hit_rate", "bound_by")  # fmt: skip


def warnings_of(made: ModelPrediction) -> list[str]:
    """What the reader must know about these figures."""
    out = [f"left out: {what}" for what in made.model.left_out]
    need, have = memory_bytes(made.model, made.work), made.hw.dram.capacity_gb * 1e9
    if need > have:
        out.append(f"weights and cache take {nbytes(need)}, and {made.hw.name} has {nbytes(have)}: the figures are those of a "
                   "GPU with more memory")
    return out


def report(points: Sequence[ModelPrediction]) -> RenderableType:
    """All points: a table each if there are few, then one over all, and a bar for each."""
    parts: list[RenderableType] = []
    if len(points) <= MOST_TABLES:
        for made in points:
            parts += [_one(made), Text("")]
    if len(points) > 1:
        parts += [_all(points), Text("")]
    parts.append(_bars(points))
    warnings = dict.fromkeys(w for made in points for w in warnings_of(made))
    parts += [Text(f"warning: {w}", style="yellow") for w in warnings]
    return Group(*parts)


def title(made: ModelPrediction) -> str:
    """The workload in words."""
    w, many = made.work, "sequence" if made.work.batch == 1 else "sequences"
    what = f"{w.kv:,} tokens each at once" if w.phase == "prefill" else f"one token each, {w.kv:,} with those in the cache"
    return f"{w.phase} of {w.batch} {many}, {what}, {w.dtype}"


def _one(made: ModelPrediction) -> RenderableType:
    first, n = made.layer[0].result, made.model.num_hidden_layers
    head = Text.assemble((made.model.name, "bold"), f" on {made.hw.name} at {first.clock_mhz:g} MHz: {title(made)}\n",
                         (f"{made.time_us / 1e3:,.2f} ms   {made.tokens_per_s:,.0f} tokens/s", "bold green"))
    if made.work.phase == "decode":
        head.append(f"   reading weights and cache once at {made.hw.dram.peak_gbs:,.0f} GB/s takes {made.floor_us / 1e3:,.2f} ms")
    table = columns(("kernel", "left"), ("cycles", "right"), ("us", "right"), ("share", "right"), ("from DRAM", "right"),
                    ("bound by", "left"))

    def rows(steps: Sequence[Step], launches: int) -> None:
        for s in steps:
            r = s.result
            table.add_row(shrinking(s.name), count(r.cycles), f"{r.time_us:,.2f}", percent(launches * r.time_us / made.time_us),
                          nbytes(r.traffic.dram_read_bytes), _bound(s))

    rows(made.layer, n)
    gaps = made.gap_us * len(made.layer)
    table.add_row(f"{len(made.layer)} gaps", "", f"{gaps:,.2f}", percent(n * gaps / made.time_us), "", "")
    table.add_row(f"one layer of {n}", count(made.layer_us * first.clock_mhz), f"{made.layer_us:,.2f}",
                  percent(n * made.layer_us / made.time_us), "", "", style="bold")
    rows(made.head, 1)
    table.add_row("all layers, head", count(made.cycles), f"{made.time_us:,.2f}", "100 %", "", "", style="bold")
    return Group(head, table)


def _bound(step: Step) -> str:
    """`bound_by` of a launch in a few words: the resource, or what the warps mostly wait for."""
    name, _, rest = step.result.bound_by.partition(" ")
    if name != "latency":
        return f"{resource_name(name)} {rest.replace('%', ' %').replace(' busy', '')}"
    what = rest.partition(": ")[2].partition(",")[0].replace("%", " %")
    return f"latency ({what})"


def _all(points: Sequence[ModelPrediction]) -> RenderableType:
    table = columns(("model", "left"), ("batch", "right"), ("tokens", "right"), ("layer, us", "right"), ("head, us", "right"),
                    ("all, ms", "right"), ("tokens/s", "right"), ("reads at peak, ms", "right"), ("longest", "left"))
    for made in points:
        parts = shares(made)
        longest = max(parts, key=lambda k: parts[k])
        table.add_row(shrinking(made.model.name), str(made.work.batch), count(made.work.kv), f"{made.layer_us:,.1f}",
                      f"{made.head_us:,.1f}", f"{made.time_us / 1e3:,.2f}", f"{made.tokens_per_s:,.0f}",
                      f"{made.floor_us / 1e3:,.2f}",
                      shrinking(f"{longest} {percent(parts[longest] / made.time_us)}"))
    return table


def series(points: Sequence[ModelPrediction]) -> list[str]:
    """Names of the parts of the bars, in the order in which they first come."""
    return list(dict.fromkeys(name for made in points for name in shares(made)))


def _bars(points: Sequence[ModelPrediction]) -> RenderableType:
    names, longest = series(points), max(made.time_us for made in points)
    letters = {name: chr(ord("a") + i) for i, name in enumerate(names)}
    lines: list[RenderableType] = []
    for made in points:
        line, drawn, passed = Text(f"{made.work.batch:>4} x {made.work.kv:<7,} "), 0, 0.0
        for name, us in shares(made).items():
            passed += us
            end = round(BAR_WIDTH * passed / longest)
            line.append(letters[name] * (end - drawn), style=COLOURS[names.index(name) % len(COLOURS)])
            drawn = end
        line.append(f" {made.time_us / 1e3:,.2f} ms")
        lines.append(line)
    legend = Text("batch x tokens; ")
    for i, name in enumerate(names):
        legend.append(letters[name], style=COLOURS[i % len(COLOURS)]).append(f" {name}   ")
    return Group(*lines, legend)


def csv_text(points: Sequence[ModelPrediction]) -> str:
    """One row a launch of the layer and of the head, for every point."""
    out = io.StringIO()
    table = csv.DictWriter(out, CSV_COLUMNS, lineterminator="\n")
    table.writeheader()
    for made in points:
        plain = made.to_dict()
        for part, launches in (("layer", made.model.num_hidden_layers), ("head", 1)):
            for step in plain[part]:
                row = {**plain, **step, "part": part, "launches": launches}
                table.writerow({key: row[key] for key in CSV_COLUMNS})
    return out.getvalue()
