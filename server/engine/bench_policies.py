"""Policies against each other on the real engine, by wall clock, with the bound of its cost table.

Every contender serves the same streams with all their steps; `edf-s anytime` may leave steps out,
`process-per-stream` is one engine process per stream on the same cores. The bound counts the whole
streams that the costs of both lanes allow: as calibrated, each lane alone, and as they were in the
run, both lanes busy. What it is not: a simulation (simulate/compare.py).
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import psutil

from onbeat.models.registry import load_model
from onbeat.models.spec import ModelSpec
from onbeat.server.engine.bench import run_streams
from onbeat.server.engine.bench_processes import room_for_processes, run_processes
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.simulate.bound import most_chunks, most_streams
from onbeat.server.engine.simulate.curves import Curve
from onbeat.server.engine.simulate.windows import idle_windows
from onbeat.server.engine.simulate.workload import StreamClass, together

PROMISED = 0.9
"""Headroom of the contender that has admission; nothing but the engine is on the machine."""
MAX_ROWS = 24
BOUND_CHUNKS = 100
CONTENDERS: Mapping[str, Mapping[str, Any]] = {
    "edf-s": {"policy": "edf-s", "admission": False, "anytime": False},
    "edf-s + admission": {"policy": "edf-s", "anytime": False, "headroom": PROMISED},
    "edf-s anytime": {"policy": "edf-s", "admission": False},
    "coalesced": {"policy": "coalesced", "admission": False},
    "time-slice": {"policy": "time-slice", "admission": False},
    "process-per-stream": {},
    "static": {"policy": "static", "admission": False},
    "fcfs-chunk": {"policy": "fcfs-chunk", "admission": False},
    "orca": {"policy": "orca", "admission": False},
    "edf-greedy": {"policy": "edf-greedy", "admission": False},
}
Points = dict[str, dict[int, dict[str, Any]]]


def compare_real(
    model_name: str,
    *,
    loads: Sequence[int],
    seconds: float,
    names: Sequence[str],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Each contender at each load, smallest first; one that has no clean stream left is not run at
    higher loads. Plain JSON values; `load_average_before` above 0.3 or so says that other programs
    ran, and that the figures are worth little. Raises ValueError for unknown names."""
    unknown = sorted(set(names) - set(CONTENDERS))
    if unknown:
        raise ValueError(f"policies: {', '.join(unknown)}; allowed: {', '.join(CONTENDERS)}")
    model = load_model(model_name)
    others = psutil.getloadavg()[0]
    points: Points = {name: {} for name in names}
    for load in sorted(loads):
        for name in names:
            earlier = points[name].values()
            if any(p["streams_clean"] == 0 for p in earlier):
                continue
            if name != "process-per-stream":
                point = run_streams(
                    model,
                    streams=load,
                    seconds=seconds,
                    max_rows=MAX_ROWS,
                    **CONTENDERS[name],
                )
            elif load <= room_for_processes():
                point = run_processes(model_name, streams=load, seconds=seconds)
            else:
                continue
            points[name][load] = point
            say(_line(load, name, point))
    return {**_result(points, model.spec, seconds), "load_average_before": round(others, 2)}


def _line(load: int, name: str, p: Mapping[str, Any]) -> str:
    return (
        f"{load:3} streams  {name:18} admitted {p['streams_admitted']:3}  clean "
        f"{p['streams_clean']:3}  on time {p['on_time_frame_ratio']:7.2%}  "
        f"steps {p['steps_mean']:.2f}"
    )


def _result(points: Points, spec: ModelSpec, seconds: float) -> dict[str, Any]:
    compute, decode = _costs(points)
    clean = {
        n: max((p["streams_clean"] for p in by.values()), default=0) for n, by in points.items()
    }
    held = {n: max((k for k, p in by.items() if _held(p)), default=0) for n, by in points.items()}
    bound = whole_streams(spec, compute, decode)
    busy, sliced = _slower(points, "edf-s"), _slower(points, "time-slice")
    bound_busy = whole_streams(spec, {n: busy * t for n, t in compute.items()}, decode)
    device = Curve(seconds=compute)
    gain = device.at(1) / device.best_row_seconds(MAX_ROWS)
    alone = int(spec.chunk_seconds / ((spec.default_steps + 1) * device.at(1)))
    whole = _ratio(min(bound.values()), alone)
    ours = max(clean.get("edf-s", 0), clean.get("edf-s + admission", 0))
    return {
        "benchmark": "policies-real",
        "model": spec.name,
        "seconds": seconds,
        "step_ms": {str(n): round(1e3 * t, 2) for n, t in compute.items()},
        "decode_ms": {str(n): round(1e3 * t, 2) for n, t in decode.items()},
        "bound_streams": bound,
        "slower_in_the_run": round(busy, 3),
        "bound_streams_in_the_run": bound_busy,
        "streams_clean": clean,
        "streams_held": held,
        "edf_s_to_bound": _ratio(ours, min(bound.values())),
        "edf_s_to_bound_in_the_run": _ratio(ours, min(bound_busy.values())),
        "goodput_to_bound": _goodput(points, spec, compute),
        "edf_s_ratio": {n: _ratio(ours, k) for n, k in clean.items() if not n.startswith("edf-s")},
        "batching_limit": round(gain, 3),
        "whole_stream_limit": whole,
        "share_of_batching_limit": _ratio(_ratio(ours, clean.get("time-slice", 0)) or 0.0, gain),
        "share_of_batching_limit_in_the_run": _ratio(
            _ratio(ours, clean.get("time-slice", 0)) or 0.0, gain * sliced / busy
        ),
        "share_of_whole_stream_limit": _ratio(
            _ratio(ours, clean.get("time-slice", 0)) or 0.0, whole or 0.0
        ),
        "points": {n: {str(k): _short(p) for k, p in by.items()} for n, by in points.items()},
    }


def _short(p: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "on_time_frame_ratio",
        "worst_stream_ratio",
        "streams_admitted",
        "streams_clean",
        "steps_mean",
        "missed_by_stream",
    )
    return {name: p[name] for name in names if name in p}


def _held(p: Mapping[str, Any]) -> bool:
    """Every stream that was offered is clean."""
    return bool(p["streams_clean"] == p["streams_offered"])


def _ratio(a: float, b: float) -> float | None:
    return round(a / b, 3) if b else None


def _costs(points: Points) -> tuple[dict[int, float], dict[int, float]]:
    """Seconds by rows as calibrated, the median over all runs: each run measured them anew."""
    runs = [p for by in points.values() for p in by.values() if "step_ms" in p]

    def table(name: str) -> dict[int, float]:
        sizes = runs[0][name]["calibrated"]
        return {
            int(n): median(r[name]["calibrated"][n] for r in runs if n in r[name]["calibrated"])
            / 1e3
            for n in sizes
        }

    return table("step_ms"), table("decode_ms")


def _slower(points: Points, policy: str) -> float:
    """How many times its calibrated cost a forward took in the run: the median forward of the
    policy at the highest load at which it has a clean stream, with both lanes busy; else 1."""
    runs = {
        load: p
        for name, by in points.items()
        if name.startswith(policy)
        for load, p in by.items()
        if p["streams_clean"]
    }
    return float(runs[max(runs)]["step_ms"]["slower"]) if runs else 1.0


def whole_streams(
    spec: ModelSpec, compute: Mapping[int, float], decode: Mapping[int, float]
) -> dict[str, int]:
    """Streams that each lane could carry with all their chunks, by lane."""
    device, lane = Curve(seconds=compute), Curve(seconds=decode)
    row = device.best_row_seconds(MAX_ROWS)
    count = int(1.5 * spec.chunk_seconds / ((spec.default_steps + 1) * row)) + 2
    windows = idle_windows(_sessions(spec, count), spec, EngineSettings(), device)
    chunk = lane.best_row_seconds(max(decode))
    return {
        "compute": most_streams(windows, device, MAX_ROWS),
        "decode": int(spec.chunk_seconds / chunk),
    }


def _sessions(spec: ModelSpec, count: int) -> Any:
    kind = StreamClass(steps=spec.default_steps)
    return together(count, BOUND_CHUNKS * spec.chunk_seconds, within=1.0, classes=[kind])


def _goodput(points: Points, spec: ModelSpec, compute: Mapping[int, float]) -> dict[str, float]:
    """Chunks on time with all steps, as a share of the compute bound, at each contender's best."""
    device = Curve(seconds=compute)
    best: dict[str, float] = {}
    for name, by in points.items():
        for load, p in by.items():
            windows = idle_windows(_sessions(spec, load), spec, EngineSettings(), device)
            share = most_chunks(windows, device, MAX_ROWS) / (load * BOUND_CHUNKS)
            mine = p["on_time_frame_ratio"] * p["streams_admitted"] / load
            if p["steps_mean"] >= spec.default_steps - 1e-3:
                best[name] = max(best.get(name, 0.0), round(mine / share, 4))
    return best


def real_table(result: Mapping[str, Any]) -> str:
    """Clean streams and on-time ratio by contender and load, then what the cost curve says."""
    loads = sorted({int(k) for by in result["points"].values() for k in by})
    rows = [
        "| policy |" + "".join(f" {n} |" for n in loads) + " clean at best |",
        "|---" * (len(loads) + 2) + "|",
    ]
    for name, by in result["points"].items():
        cells = "".join(f" {_cell(by.get(str(n)))} |" for n in loads)
        rows.append(f"| {name} |{cells} {result['streams_clean'][name]} |")
    return "\n".join([*rows, "", _curve_text(result)])


def _cell(p: Mapping[str, Any] | None) -> str:
    return "-" if p is None else f"{p['streams_clean']}, {100 * p['on_time_frame_ratio']:.1f}"


def _curve_text(result: Mapping[str, Any]) -> str:
    costs = {int(n): ms for n, ms in result["step_ms"].items()}
    rates = ", ".join(f"{n}: {costs[1] * n / ms:.2f}" for n, ms in costs.items())
    gain = result["batching_limit"]
    says = (
        f"batching pays: a row of the best batch costs 1/{gain:.2f} of a row alone"
        if gain > 1.1
        else f"batching does not pay here: rows get at most {gain:.2f} times cheaper in batches"
    )
    reached, share = result["edf_s_to_bound"], result["share_of_batching_limit"]
    whole, whole_share = result["whole_stream_limit"], result["share_of_whole_stream_limit"]
    return (
        f"rows per second against single rows, by batch size: {rates}\n{says}; no policy can hold "
        f"more than {gain:.2f} times what time slicing can.\nstreams that the bound allows: "
        f"{result['bound_streams']}; edf-s reaches {reached} of it, and {share} of the batching "
        f"limit against time slicing (in whole streams: {whole_share} of {whole})\nforwards took "
        f"{result['slower_in_the_run']} times that with both lanes busy: at those costs the bound "
        f"is {result['bound_streams_in_the_run']}, of which edf-s reaches "
        f"{result['edf_s_to_bound_in_the_run']}"
    )
