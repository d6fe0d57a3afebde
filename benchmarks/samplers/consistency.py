"""Times everything the sampler does for the engine in one tick, by number of rows.

Shapes are the embedded model's (4 audio tokens of 24, 16 video tokens of 96). A tick here is the
worst one: every row starts a chunk, takes a step that adds noise, and commits.
Baseline: one scheduler object of diffusers per row and modality (FlowMatchLCMScheduler.step).
Run: python -m benchmarks.samplers.consistency [--threads N]. Prints one JSON line last.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import diffusers
import torch
from torch import Tensor

from onbeat.samplers.consistency import commit_latents, init_rows, latents_of, step_rows, times_of
from onbeat.samplers.state import ChunkState


@dataclass(frozen=True)
class Tokens:
    name: str
    tokens: int
    dim: int
    shift: float


MODALITIES = (Tokens("audio", 4, 24, 1.5), Tokens("video", 16, 96, 3.0))


def median_ms(call: Callable[[], object], turns: int = 60) -> float:
    times = []
    for _ in range(turns + 5):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return round(statistics.median(times[5:]), 4)


def start(rows: int) -> list[ChunkState]:
    return init_rows(MODALITIES, [7] * rows, range(rows), [3] * rows, [4] * rows)


def baseline(rows: int, predictions: dict[str, Tensor]) -> Callable[[], None]:
    make: Any = diffusers.FlowMatchLCMScheduler
    schedulers = []
    for modality in MODALITIES * rows:
        scheduler = make(shift=modality.shift)
        scheduler.set_timesteps(sigmas=[1.0, 0.75, 0.5, 0.25])
        schedulers.append((scheduler, predictions[modality.name][:1]))

    def run() -> None:
        for scheduler, velocity in schedulers:
            scheduler._step_index = None
            scheduler.step(velocity, scheduler.timesteps[0], velocity)

    return run


def measure(rows: int) -> dict[str, float]:
    states = start(rows)
    predictions = {name: torch.randn_like(x) for name, x in latents_of(states).items()}
    after = step_rows(states, predictions)
    parts: dict[str, Callable[[], object]] = {
        "init_ms": partial(start, rows),
        "inputs_ms": lambda: (latents_of(states), times_of(states)),
        "step_ms": partial(step_rows, states, predictions),
        "commit_ms": partial(commit_latents, after, 0.02),
        "bytes_ms": lambda: ChunkState.from_bytes(after[0].to_bytes()),
    }
    times = {name: median_ms(call) for name, call in parts.items()}
    theirs = median_ms(baseline(rows, predictions))
    ratio = round(times["step_ms"] / theirs, 3)
    return {"rows": rows, **times, "baseline_step_ms": theirs, "step_ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    with torch.inference_mode():
        results = [measure(rows) for rows in (1, 4, 8, 16)]
    line = {
        "benchmark": "samplers/consistency",
        "baseline": "one FlowMatchLCMScheduler per row and modality",
        "device": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "results": results,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
