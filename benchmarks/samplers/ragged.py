"""One ragged call of the sampler for many rows, against one call per row of diffusers schedulers.

Rows are at random steps of random schedules (1 to 4 steps) of every family that diffusers has a
scheduler for. Both go from the batch of network outputs to the next batch. Ours: `batch_step`
(`speedup`), or `step_rows` on separate states (`states_speedup`). Theirs: `step` of a scheduler per
row that is set up already, with the row's own generator. Medians of the thread's processor time
(neighbours on the machine do not count), in runs of ten calls of each by turns; `cold_speedup` is
of the first call of a run, which finds the caches full of the other's work. The default row has as
many numbers as toybox's audio latents of a chunk; `by_numbers` has others: the more numbers, the
more of the time goes into the noise itself, on both sides.

Run: python benchmarks/samplers/ragged.py --rows 64 [--numbers N] [--json]. Prints one JSON line
last.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import diffusers
import torch
from torch import Tensor

from onbeat.samplers.adapters.config import SCHEDULERS, read_sampler
from onbeat.samplers.batch import batch_step, pack
from onbeat.samplers.consistency import start_rows, step_rows
from onbeat.samplers.state import ChunkState
from onbeat.server.cli.flags import whole

SIZES = (384, 1536, 4096)
RUN = 10


class Tokens:
    """One modality of `numbers` numbers, which diffusers sees as [1, tokens, 16]."""

    name, dim, shift = "video", 16, 1.0

    def __init__(self, numbers: int) -> None:
        self.tokens = numbers // self.dim


def scheduler(name: str, steps: int) -> Any:
    """One of diffusers, set up; at the schedule that ours has too."""
    made = getattr(diffusers, name)()
    if name == "SCMScheduler":
        made.set_timesteps(steps, intermediate_timesteps=1.3 if steps == 2 else None)
    elif name.startswith("Flow"):
        made.set_timesteps(sigmas=[1.0 - i / steps for i in range(steps)])
    else:
        made.set_timesteps(steps + (name == "MiniMaxH3Scheduler"))
    return made


def problem(rows: int, numbers: int) -> tuple[list[ChunkState], list[tuple[Any, int]]]:
    """Our states, and their (scheduler, step) for the same rows."""
    make, states, theirs = Random(0), [], []
    for i in range(rows):
        name, steps = make.choice(SCHEDULERS), make.randint(1, 4)
        step = make.randrange(steps)
        other = scheduler(name, steps)
        sampler = read_sampler({**other.config, "_class_name": name}, steps)
        [state] = start_rows([Tokens(numbers)], [7], [i], [0], [{"video": sampler}])
        x0 = None if step == 0 else state.latents
        states.append(replace(state, step=step, x0=x0))
        theirs.append((other, step))
    return states, theirs


def one_by_one(theirs: list[tuple[Any, int]], x: Tensor, outputs: Tensor) -> Callable[[], Tensor]:
    """From the batch of network outputs to the next batch, row by row."""
    generators = [torch.Generator().manual_seed(i) for i in range(len(theirs))]
    calls = []
    for (other, step), generator in zip(theirs, generators, strict=True):
        takes = "generator" in other.step.__code__.co_varnames
        extra = {"generator": generator} if takes else {}
        calls.append((other, step, other.timesteps[step], extra))
        other.is_scale_input_called = True

    def run() -> Tensor:
        rows = []
        for i, (other, step, t, extra) in enumerate(calls):
            other._step_index = step or None  # as set_timesteps leaves it
            one = slice(i, i + 1)
            rows.append(other.step(outputs[one], t, x[one], return_dict=False, **extra)[0])
        return torch.cat(rows)

    return run


def measure(rows: int, numbers: int, turns: int) -> dict[str, float]:
    """Median milliseconds of each, by turns, and the ratios."""
    states, theirs = problem(rows, numbers)
    batch = pack(states)
    x = batch.latents["video"]
    outputs = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    runs: tuple[Callable[[], object], ...] = (
        partial(batch_step, batch, {"video": outputs}),
        partial(step_rows, states, {"video": outputs}),
        one_by_one(theirs, x, outputs),
    )
    warm: tuple[list[float], ...] = ([], [], [])
    cold: tuple[list[float], ...] = ([], [], [])
    for _ in range(turns):
        for run, first, later in zip(runs, cold, warm, strict=True):
            first.append(seconds(run))
            later += [seconds(run) for _ in range(RUN - 1)]
    batched, by_states, base = (statistics.median(side) for side in warm)
    return {
        "numbers": numbers,
        "ms": round(batched * 1e3, 4),
        "states_ms": round(by_states * 1e3, 4),
        "baseline_ms": round(base * 1e3, 4),
        "speedup": round(base / batched, 2),
        "states_speedup": round(base / by_states, 2),
        "cold_speedup": round(statistics.median(cold[2]) / statistics.median(cold[0]), 2),
    }


def seconds(run: Callable[[], object]) -> float:
    """Processor time of this thread."""
    started = time.thread_time()
    run()
    return time.thread_time() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=whole(), default=64)
    parser.add_argument("--numbers", type=whole(), default=96, help="latent numbers of a row")
    parser.add_argument("--turns", type=whole(), default=20)
    parser.add_argument("--threads", type=whole(), default=1)
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    diffusers.utils.logging.set_verbosity_error()
    with torch.inference_mode():
        main_result = measure(options.rows, options.numbers, options.turns)
        others = [measure(options.rows, numbers, options.turns) for numbers in SIZES]
    if not options.json:
        for result in (main_result, *others):
            times = f"{result['speedup']} times faster, {result['cold_speedup']} in a first call"
            print(f"{options.rows} rows of {result['numbers']} numbers: {times}")
    line = {
        "benchmark": "samplers/ragged",
        "baseline": "one diffusers scheduler per row",
        "device": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "rows": options.rows,
        **main_result,
        "by_numbers": others,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
