"""A run as one HTML file that opens anywhere: its figures, and plots drawn as SVG. No script.

Pure: text in, text out.
"""

from collections.abc import Sequence
from html import escape

from onbeat.server.load.figures import Figure
from onbeat.server.load.run import Outcome, Sample
from onbeat.server.load.seen import inside, intervals

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560, 220, 52, 30, 12
TONES = ("#e4572e", "#3f88c5", "#4f9d69")
MOST_POINTS = 400
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1200px; padding: 0 1rem;
  color: #26221e; background: #faf8f5; }
h1 { font-size: 1.5rem; } h2 { font-size: 1rem; margin: 0 0 .3rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 1rem; }
figure { margin: 0; background: #fff; border: 1px solid #e5dfd7; border-radius: 12px;
  padding: .8rem; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: #6d655c; }
table { border-collapse: collapse; margin-top: 1.5rem; width: 100%; background: #fff; }
td { border-top: 1px solid #e5dfd7; padding: .3rem .6rem; font-variant-numeric: tabular-nums; }
td:first-child { color: #6d655c; }
"""


HEADLINE = {
    "on_time_frame_ratio": "of the frames left on time",
    "goodput_ratio": "of the best possible: on-time frames over their bound",
    "goodput_streams": "viewers were served well",
    "interference": "more of the chunks missed their deadline with jobs than without",
}


def html(outcome: Outcome, found: dict[str, Figure], alone: Outcome | None = None) -> str:
    """The whole file. `alone`: the same sessions without jobs."""
    title = f"onbeat under load: {found['model']}, {found['sessions_offered']} sessions"
    plots = "".join(_figures(outcome, alone))
    heads = "".join(
        f"<li><b>{escape(shown(found[name]))}</b> {escape(words)}</li>"
        for name, words in HEADLINE.items()
        if found[name] is not None
    )
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(shown(value))}</td></tr>"
        for name, value in found.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><h1>{escape(title)}</h1><ul>{heads}</ul>"
        f'<div class="plots">{plots}</div><table>{rows}</table></html>\n'
    )


def shown(value: Figure) -> str:
    """A figure as people read it; what is not known is a dash."""
    if value is None:
        return "–"
    if isinstance(value, dict):
        return ", ".join(f"{name} {each:g}" for name, each in value.items()) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _figures(outcome: Outcome, alone: Outcome | None) -> list[str]:
    start = outcome.start
    frames = [inside(seen.frames, start, outcome.end) for seen in outcome.seen]
    gaps = [1e3 * gap for each in frames for gap in intervals(each)]
    first = [
        1e3 * (seen.frames[0].at - seen.accepted)
        for seen in outcome.seen
        if seen.frames and seen.accepted
    ]

    def line(name: str) -> Points:
        return _line(outcome, name)

    on_time, title = [_percent(line("on_time"))], "Frames on time, %"
    if alone is not None:
        on_time.append(_percent(_line(alone, "on_time")))
        title += ": with jobs, without"
    return [
        plot("Sessions, and those that wait", "s", [line("sessions"), line("waiting")]),
        plot("Frames sent a second", "s", [line("fps_sent")]),
        plot(title, "s", on_time),
        plot("Device busy, %", "s", [_percent(line("busy"))]),
        plot("Between two frames: share of gaps up to x ms", "ms", [rising(gaps)]),
        plot("To the first frame: share of sessions up to x ms", "ms", [rising(first)]),
    ]


def _line(outcome: Outcome, name: str) -> Points:
    values = [(s.at - outcome.start, _value(s, name)) for s in outcome.samples]
    return [(at, value) for at, value in values if value is not None]


def _percent(points: Points) -> Points:
    return [(at, 100 * value) for at, value in points]


def _value(sample: Sample, name: str) -> float | None:
    value = getattr(sample, name)
    return None if value is None else float(value)


def rising(values: Sequence[float]) -> Points:
    """The share of values up to each, %."""
    ordered = sorted(values)
    step = max(1, len(ordered) // MOST_POINTS)
    n = len(ordered)
    return [(value, 100 * (i + 1) / n) for i, value in enumerate(ordered)][::step]


def plot(title: str, unit: str, lines: Sequence[Points]) -> str:
    """One figure; an empty one says so."""
    points = [point for line in lines for point in line]
    if not points:
        return f"<figure><h2>{escape(title)}</h2><p>no data</p></figure>"
    right = max(max(x for x, _ in points), 1e-9)
    most = max(max(y for _, y in points) * 1.05, 1e-9)

    def place(x: float, y: float) -> str:
        across = LEFT + (WIDTH - LEFT - 8) * max(0.0, x) / right
        up = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * y / most
        return f"{across:.1f},{up:.1f}"

    drawn = "".join(
        f'<polyline fill="none" stroke="{tone}" stroke-width="1.8" points="'
        + " ".join(place(x, y) for x, y in line)
        + '"/>'
        for line, tone in zip(lines, TONES, strict=False)
    )
    foot = HEIGHT - BOTTOM
    return (
        f"<figure><h2>{escape(title)}</h2>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f'<path d="M{LEFT} {TOP}V{foot}H{WIDTH - 8}" fill="none" stroke="#cfc8be"/>{drawn}'
        f'<text x="{LEFT - 6}" y="{TOP + 8}" text-anchor="end">{most:.4g}</text>'
        f'<text x="{LEFT - 6}" y="{foot}" text-anchor="end">0</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end">{right:.4g} {unit}</text>'
        "</svg></figure>"
    )
