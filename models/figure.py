"""A stacked-bar chart as an SVG file, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from .predict import ModelPrediction, shares
from .report import series

COLOURS = ("#4878a8", "#88a868", "#c87848", "#b8c8d8", "#7858a0", "#d8b048", "#a04858", "#58a0a0", "#a8a8a8", "#d898b8",
           "#5060c0", "#80c080", "#c0c060")  # fmt: skip
WIDTH, LEFT, BAR, GAP, TOP = 640, 110, 20, 10, 34  #: pixels: plot, left margin, one bar, between bars, above the plot
LEGEND = 18  #: pixels of a line of the legend


def stacked_bars(points: Sequence[ModelPrediction]) -> str:
    """The time of each pass by kernel, a bar a point, in milliseconds from 0."""
    names, top = series(points), _round_up(max(made.time_us for made in points) / 1e3)
    bottom = TOP + len(points) * (BAR + GAP)
    height = bottom + 28 + LEGEND * -(-len(names) // 3) + 8
    first = points[0]
    caption = f"{first.model.name}, {first.work.phase}, {first.hw.name}: ms by kernel, batch x tokens"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 70}" height="{height}" font-family="sans-serif" '
           'font-size="11">', '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="13">{escape(caption)}</text>']  # fmt: skip
    for tick in range(5):
        x = LEFT + WIDTH * tick / 4
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="#dddddd"/>'
                   f'<text x="{x:.1f}" y="{bottom + 13}" text-anchor="middle">{top * tick / 4:g}</text>')
    for row, made in enumerate(points):
        x, y = float(LEFT), TOP + GAP / 2 + row * (BAR + GAP)
        out.append(f'<text x="{LEFT - 6}" y="{y + 14:.1f}" text-anchor="end">{made.work.batch} x {made.work.kv:,}</text>')
        for name, us in shares(made).items():
            wide = WIDTH * us / 1e3 / top
            out.append(f'<rect x="{x:.2f}" y="{y:.1f}" width="{wide:.2f}" height="{BAR}" fill="{_colour(names, name)}">'
                       f"<title>{escape(name)}: {us / 1e3:.3f} ms</title></rect>")
            x += wide
        out.append(f'<text x="{x + 5:.1f}" y="{y + 14:.1f}">{made.time_us / 1e3:,.2f}</text>')
    for i, name in enumerate(names):
        x, y = LEFT - 90 + (WIDTH + 90) // 3 * (i % 3), bottom + 28 + LEGEND * (i // 3)
        out.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{_colour(names, name)}"/>'
                   f'<text x="{x + 14}" y="{y + 9}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])


def _colour(names: Sequence[str], name: str) -> str:
    return COLOURS[names.index(name) % len(COLOURS)]


def _round_up(value: float) -> float:
    """The next number of 1, 2, 4, 8, 10, 20, ..."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(n * power for n in (1, 2, 4, 8, 10) if n * power >= value)
