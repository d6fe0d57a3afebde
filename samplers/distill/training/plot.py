"""The plot of a run: an SVG file with one panel for each number of its log.

Written by hand: a line over steps needs no plotting library. What it is not: a general plotter.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from onbeat.samplers.distill.training.journal import Row

WIDTH, HEIGHT, MARGIN = 640, 180, 44
POINTS = 320
"""At most, in a panel; each is the mean of the steps that it stands for."""
_STYLE = "font:12px sans-serif;fill:#222"


def write_plot(rows: Sequence[Row], path: Path) -> None:
    """One panel for every name of the rows but `step`; names that are above 0 everywhere are drawn
    on a logarithmic scale. Raises ValueError without rows."""
    if not rows:
        raise ValueError("rows is empty; allowed: at least one step")
    names = [name for name in rows[0] if name != "step"]
    panels = [_panel(rows, name, i * (HEIGHT + MARGIN)) for i, name in enumerate(names)]
    height = len(names) * (HEIGHT + MARGIN) + MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 2 * MARGIN}" '
    body = f'height="{height}"><rect width="100%" height="100%" fill="#fff"/>'
    path.write_text(head + body + "".join(panels) + "</svg>\n")


def thinned(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most `most` points, each the mean of its neighbours."""
    size = math.ceil(len(points) / most)
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [
        (sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group))
        for group in groups
    ]


def _panel(rows: Sequence[Row], name: str, top: int) -> str:
    points = thinned([(row["step"], row[name]) for row in rows if name in row], POINTS)
    logarithmic = all(y > 0.0 for _, y in points)
    heights = [math.log10(y) if logarithmic else y for _, y in points]
    low, high = min(heights), max(heights)
    first, last = points[0][0], points[-1][0]
    base = top + MARGIN + HEIGHT
    line = " ".join(
        f"{MARGIN + WIDTH * _share(x, first, last):.1f},{base - HEIGHT * _share(y, low, high):.1f}"
        for (x, _), y in zip(points, heights, strict=True)
    )
    ends = [_number(10.0**y if logarithmic else y) for y in (high, low)]
    scale = ", logarithmic" if logarithmic else ""
    return (
        f'<text x="{MARGIN}" y="{top + MARGIN - 8}" style="{_STYLE}">{escape(name)}: '
        f"{ends[1]} to {ends[0]}{scale}; steps {first:.0f} to {last:.0f}</text>"
        f'<rect x="{MARGIN}" y="{top + MARGIN}" width="{WIDTH}" height="{HEIGHT}" '
        f'fill="none" stroke="#bbb"/><polyline points="{line}" fill="none" stroke="#06c"/>'
    )


def _share(value: float, low: float, high: float) -> float:
    """Where a value lies between two, 0 to 1; in the middle if they are equal."""
    return 0.5 if high == low else (value - low) / (high - low)


def _number(value: float) -> str:
    return f"{value:.3g}"
