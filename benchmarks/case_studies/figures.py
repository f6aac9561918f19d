"""Bar charts as SVG files, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

COLOURS = ("#4878a8", "#b8c8d8", "#c87848", "#88a868")
HEIGHT, LEFT, BAR, GAP, TOP = 180, 44, 22, 26, 58  #: pixels: plot, left margin, one bar, between groups, above the plot


def bars(path: str | Path, title: str, unit: str, groups: Mapping[str, Mapping[str, float | None]],
         series: Sequence[str]) -> None:
    """Write grouped bars from 0 upwards.

    Args:
        path: the SVG file.
        title, unit: what is shown and in which unit, for the caption.
        groups: label under the group -> series -> value; None leaves a gap.
        series: the order of the bars and of the legend.

    Raises:
        ValueError: the largest value is not above 0.
    """
    top = _round_up(max((v for g in groups.values() for v in g.values() if v is not None), default=1.0))
    digits = 2 if top < 10 else 1
    wide = len(series) * BAR + GAP
    width = max(LEFT + len(groups) * wide + 16, LEFT + 150 * len(series))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT + TOP + 46}" font-family="sans-serif" '
           'font-size="11">', '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="13">{escape(title)}, {escape(unit)}</text>']
    for i, name in enumerate(series):
        out.append(f'<rect x="{LEFT + 150 * i}" y="28" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>'
                   f'<text x="{LEFT + 150 * i + 14}" y="37">{escape(name)}</text>')
    for tick in range(5):
        value = top * tick / 4
        y = TOP + HEIGHT * (1 - tick / 4)
        out.append(f'<line x1="{LEFT}" x2="{width - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for g, (label, values) in enumerate(groups.items()):
        x = LEFT + GAP / 2 + g * wide
        for i, name in enumerate(series):
            v = values.get(name)
            if v is not None:
                h = HEIGHT * v / top
                out.append(f'<rect x="{x + i * BAR:.1f}" y="{TOP + HEIGHT - h:.1f}" width="{BAR - 2}" height="{h:.1f}" '
                           f'fill="{COLOURS[i % len(COLOURS)]}"/><text x="{x + i * BAR + BAR / 2 - 1:.1f}" '
                           f'y="{TOP + HEIGHT - h - 3:.1f}" text-anchor="middle" font-size="8">{v:.{digits}f}</text>')
        for line, part in enumerate(label.split("\n")):
            out.append(f'<text x="{x + len(series) * BAR / 2:.1f}" y="{TOP + HEIGHT + 15 + 13 * line}" text-anchor="middle">'
                       f"{escape(part)}</text>")
    Path(path).write_text("\n".join([*out, "</svg>", ""]), encoding="utf-8")


def _round_up(value: float) -> float:
    """The next number of 1, 2, 4, 10, 20, ..."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(n * power for n in (1, 2, 4, 10) if n * power >= value)
