"""Streams held at 99 % on time by each policy, on the real engine, without admission.

    python benchmarks/engine/policies.py --seconds 10 --loads 4,8,12,16,20,24

One run per policy and load; `edf-s (all steps)` is edf-s that may not end a chunk early. Prints a
table, the ratios and, last, one JSON line. What it is not: a simulation.
"""

import argparse
import json
from typing import Any

from onbeat.models.registry import load_model
from onbeat.models.spec import CausalModel
from onbeat.server.engine.bench import run_streams

HELD = 0.99
NOISE = 0.005
"""Differences of on-time ratios below this are not told apart."""
POLICIES: dict[str, dict[str, Any]] = {
    "edf-s": {"policy": "edf-s"},
    "edf-s (all steps)": {"policy": "edf-s", "anytime": False},
    "fcfs-chunk": {"policy": "fcfs-chunk"},
    "static": {"policy": "static"},
}

Results = dict[str, dict[int, dict[str, Any]]]


def sweep(model: CausalModel, loads: list[int], seconds: float, policies: list[str]) -> Results:
    """Every policy at every load; each point is printed as it is measured."""
    results: Results = {name: {} for name in policies}
    for load in loads:
        for name in policies:
            point = run_streams(
                model, streams=load, seconds=seconds, admission=False, **POLICIES[name]
            )
            results[name][load] = point
            print(
                f"{load:3} streams  {name:18} on time {point['on_time_frame_ratio']:7.2%}  "
                f"clean {point['streams_clean']:3}  steps {point['steps_mean']:.2f}  "
                f"batch {point['batch_rows']['mean']:5.2f}  step {point['step_ms']['p50']:6.1f} ms",
                flush=True,
            )
    return results


def held(points: dict[int, dict[str, Any]]) -> int:
    """The largest load at which all frames together are on time to 99 %."""
    return max((n for n, p in points.items() if p["on_time_frame_ratio"] >= HELD), default=0)


def behind(results: Results) -> list[dict[str, Any]]:
    """Points at which edf-s is behind another policy by more than noise."""
    ours = results["edf-s"]
    return [
        {"streams": load, "policy": name, "edf_s": mine["on_time_frame_ratio"], "other": other}
        for name, points in results.items()
        for load, mine in ours.items()
        if (other := points[load]["on_time_frame_ratio"]) > mine["on_time_frame_ratio"] + NOISE
    ]


def summary(results: Results, seconds: float) -> dict[str, Any]:
    streams = {name: held(points) for name, points in results.items()}
    return {
        "benchmark": "policies",
        "seconds": seconds,
        "streams_held": streams,
        "ratio": {
            name: round(streams["edf-s"] / count, 2) if count else None
            for name, count in streams.items()
            if name != "edf-s"
        },
        "edf_s_behind": behind(results),
        "on_time": {
            name: {str(n): p["on_time_frame_ratio"] for n, p in points.items()}
            for name, points in results.items()
        },
        "steps_mean": {
            name: {str(n): p["steps_mean"] for n, p in points.items()}
            for name, points in results.items()
        },
    }


def table(results: Results) -> str:
    """On-time ratio (mean steps) by policy and load."""
    loads = sorted(next(iter(results.values())))
    head = "| policy |" + "".join(f" {n} |" for n in loads) + " held |"
    rows = [head, "|---|" + "---|" * (len(loads) + 1)]
    for name, points in results.items():
        cells = "".join(
            f" {100 * points[n]['on_time_frame_ratio']:.1f} ({points[n]['steps_mean']:.2f}) |"
            for n in loads
        )
        rows.append(f"| {name} |{cells} {held(points)} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="counted time of each point")
    parser.add_argument("--loads", default="4,8,12,16,20,24", help="streams, comma separated")
    parser.add_argument("--policies", default=",".join(POLICIES), help="comma separated")
    parser.add_argument("--model", default="toybox")
    arguments = parser.parse_args()
    loads = [int(n) for n in arguments.loads.split(",")]
    policies = arguments.policies.split(",")
    results = sweep(load_model(arguments.model), loads, arguments.seconds, policies)
    print(table(results))
    line = summary(results, arguments.seconds)
    for name, ratio in line["ratio"].items():
        print(f"edf-s holds {ratio} times the streams of {name}")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
