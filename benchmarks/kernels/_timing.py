"""Paired timing for the kernel benchmarks: a kernel and its baseline, by turns, in one run.

Alternation makes a busy machine hurt both sides alike; the median is reported, ratios are of
medians. Imported by the scripts beside it, which run as `python -m benchmarks.kernels.NAME`.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable

import torch


def arguments() -> str:
    """Reads --device and --threads; returns the device."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return str(options.device)


def once(call: Callable[[], object], device: str) -> float:
    """Milliseconds of one call, work on the device included."""
    start = time.perf_counter()
    call()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def compare(
    kernel: Callable[[], object], baseline: Callable[[], object], device: str, turns: int = 60
) -> dict[str, float]:
    """Median milliseconds of both, and kernel / baseline."""
    with torch.inference_mode():
        for call in (kernel, baseline) * 5:
            once(call, device)
        pairs = [(once(kernel, device), once(baseline, device)) for _ in range(turns)]
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {
        "ms": round(ours, 4),
        "baseline_ms": round(theirs, 4),
        "ratio": round(ours / theirs, 3),
    }


def report(name: str, baseline: str, device: str, results: list[dict[str, float]]) -> None:
    """Prints the one JSON line."""
    gpu = torch.cuda.get_device_name() if device.startswith("cuda") else None
    print(
        json.dumps(
            {
                "benchmark": f"kernels/{name}",
                "baseline": baseline,
                "device": gpu or platform.processor() or platform.machine(),
                "threads": torch.get_num_threads(),
                "torch": torch.__version__,
                "results": results,
            }
        )
    )
