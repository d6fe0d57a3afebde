"""A small SVG of compared policies: goodput against the bound by load, one panel per device.

Written by hand because no plotting library is among the dependencies. What it is not: a general
plotter.
"""

from collections.abc import Mapping, Sequence

from onbeat.server.engine.simulate.compare import Point, mean

WIDTH, HEIGHT, LEFT, TOP = 330, 240, 46, 28
COLOURS = (
    "#d62728",
    "#e377c2",
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#9467bd",
    "#8c564b",
    "#7f7f7f",
    "#bcbd22",
)


def svg(panels: Mapping[str, Sequence[Point]]) -> str:
    """`panels`: points of one case by title; goodput_ratio over load, a line per variant."""
    labels = list(dict.fromkeys(p.variant.label for points in panels.values() for p in points))
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    total = len(panels) * (WIDTH + LEFT) + 190
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {TOP + HEIGHT + 44}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{total}" height="{TOP + HEIGHT + 44}" fill="#ffffff"/>',
    ]
    for i, (title, points) in enumerate(panels.items()):
        parts += _panel(title, points, colours, i * (WIDTH + LEFT) + LEFT)
    left = len(panels) * (WIDTH + LEFT) + 14
    for i, label in enumerate(labels):
        y = TOP + 14 + 18 * i
        parts.append(f'<path d="M{left} {y}h18" stroke="{colours[label]}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 24}" y="{y + 4}">{label}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(title: str, points: Sequence[Point], colours: Mapping[str, str], left: int) -> list[str]:
    loads = sorted({p.load for p in points})
    low, high = loads[0], max(loads[-1], loads[0] + 1e-9)

    def x(load: float) -> float:
        return left + WIDTH * (load - low) / (high - low)

    def y(share: float) -> float:
        return TOP + HEIGHT * (1.0 - share)

    parts = [f'<text x="{left}" y="{TOP - 10}"><tspan font-weight="bold">{title}</tspan>: ']
    parts[0] += "goodput / bound</text>"
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path d="M{left} {y(share):.1f}h{WIDTH}" stroke="#dddddd"/>')
        parts.append(_text(left - 6, y(share) + 4, f"{share:g}", "end"))
    for load in loads:
        parts.append(_text(x(load), TOP + HEIGHT + 16, f"{load:g}x", "middle"))
    parts.append(_text(left + WIDTH / 2, TOP + HEIGHT + 34, "load, of capacity", "middle"))
    for label, colour in colours.items():
        line = sorted((p.load, mean(p.goodput)) for p in points if p.variant.label == label)
        path = " ".join(f"{x(load):.1f},{y(min(share, 1.0)):.1f}" for load, share in line)
        if path:
            style = f'fill="none" stroke="{colour}" stroke-width="2"'
            parts.append(f'<polyline points="{path}" {style}/>')
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
