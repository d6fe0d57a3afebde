"""The training loop of the denoiser's stages: seeded, resumable, within a budget of minutes.

What it is: two threads that each work on their share of every step's pieces (one torch thread
each: on few cores much faster than one net spread over them), checkpoints, log and progress bar.
What it is not: a loss (a stage hands it in) or samples (samples.py).
"""

import copy
import json
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.progress import Progress, TextColumn
from torch import Tensor

from onbeat.samplers.distill.networks import Networks
from onbeat.samplers.distill.optim import Optimizer, rate_at, update_ema

WORKERS = 2
CHECKPOINT_SECONDS = 300.0
SMOOTH = 0.03

Piece = Callable[[], Tensor]
"""One piece of a step: builds its loss (a mean; pieces count alike)."""
Pieces = Callable[[int, "Run"], Sequence[Piece]]
"""Step number and run -> the step's pieces, all seeded by the step."""


@dataclass(slots=True, kw_only=True)
class Run:
    """All that a checkpoint holds."""

    nets: Networks
    ema: Networks
    optimizer: Optimizer
    step: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a stage adds to the loop."""

    name: str
    pieces: Pieces
    refresh: Callable[[], None]
    """Adds fresh data; runs beside the pieces of each step."""
    on_checkpoint: Callable[[Run, Path], dict[str, float]]
    """Writes samples; returns figures for the log."""
    peak: float = 1.0
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    before: Callable[[Run], None] = field(default=lambda run: None)
    steps: int | None = None
    """Ends the run after this many steps in all, on one thread and whatever the time: the same bits
    from the same seed."""


def new_run(nets: Networks) -> Run:
    ema = copy.deepcopy(nets).requires_grad_(False)
    return Run(nets=nets, ema=ema, optimizer=Optimizer(nets))


def load_run(run: Run, path: Path) -> None:
    """Fills `run` from a checkpoint."""
    state = torch.load(path, weights_only=True)
    run.nets.load_state_dict(state["nets"])
    run.ema.load_state_dict(state["ema"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.step, run.seconds = state["step"], state["seconds"]


def save_run(run: Run, path: Path) -> None:
    state = {
        "nets": run.nets.state_dict(),
        "ema": run.ema.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "step": run.step,
        "seconds": run.seconds,
    }
    torch.save(state, path.with_suffix(".partial"))
    path.with_suffix(".partial").replace(path)


def _gradients(run: Run, piece: Piece) -> tuple[float, list[Tensor]]:
    torch.set_num_threads(1)
    loss = piece()
    params = run.optimizer.params
    grads = torch.autograd.grad(loss, params, allow_unused=True)
    filled = [torch.zeros_like(p) if g is None else g for p, g in zip(params, grads, strict=True)]
    return float(loss.detach()), filled


def _share(run: Run, pieces: Sequence[Piece], taken: list[int]) -> tuple[float, list[Tensor]]:
    """One worker: takes pieces until none are left; sums of losses and gradients."""
    total, sums = 0.0, [torch.zeros_like(p) for p in run.optimizer.params]
    while True:
        try:
            at = taken.pop()
        except IndexError:
            return total, sums
        loss, grads = _gradients(run, pieces[at])
        total += loss
        torch._foreach_add_(sums, grads)


def train_step(
    run: Run, stage: Stage, pool: ThreadPoolExecutor, rate: float, workers: int = WORKERS
) -> tuple[float, float]:
    """One optimiser step -> (mean loss, gradient norm). Refreshes the data beside it."""
    pieces = stage.pieces(run.step, run)
    taken = list(range(len(pieces)))
    fresh: Future[None] = pool.submit(stage.refresh)
    shares = [pool.submit(_share, run, pieces, taken) for _ in range(workers)]
    results = [share.result() for share in shares]
    fresh.result()
    grads = [
        torch.stack(parts).sum(0) / len(pieces)
        for parts in zip(*(r[1] for r in results), strict=True)
    ]
    norm = run.optimizer.step(grads, rate, pool)
    update_ema(run.ema, run.nets, run.step)
    run.step += 1
    return sum(r[0] for r in results) / len(pieces), norm


def train_loop(run: Run, stage: Stage, minutes: float, out: Path) -> None:
    """Trains until the stage has had `minutes` in all, or its own number of steps, and leaves
    state.pt, log.jsonl and samples in `out`."""
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    budget, loss, saved = minutes * 60.0, math.nan, run.seconds
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[text]}"))
    workers = WORKERS if stage.steps is None else 1
    stage.before(run)
    with ThreadPoolExecutor(workers) as pool, Progress(*columns) as bar:
        task = bar.add_task(stage.name, total=1.0, text="")
        while (done := _done(run, stage, budget)) < 1.0:
            began = time.monotonic()
            rate = rate_at(run.step, done, stage.peak)
            now, norm = train_step(run, stage, pool, rate, workers)
            loss = now if math.isnan(loss) else loss + SMOOTH * (now - loss)
            run.seconds += time.monotonic() - began
            _log(out, run, loss=loss, now=now, norm=norm, rate=rate)
            text = f"step {run.step} loss {loss:.4f}"
            bar.update(task, completed=_done(run, stage, budget), text=text)
            if run.seconds - saved >= stage.checkpoint_seconds:
                _checkpoint(run, stage, out)
                saved = run.seconds
        _checkpoint(run, stage, out)


def _done(run: Run, stage: Stage, budget: float) -> float:
    """Share of the run that is over, by seconds or by steps."""
    return run.seconds / budget if stage.steps is None else run.step / stage.steps


def _checkpoint(run: Run, stage: Stage, out: Path) -> None:
    save_run(run, out / "state.pt")
    figures = stage.on_checkpoint(run, out)
    if figures:
        _log(out, run, **figures)


def _log(out: Path, run: Run, **values: float) -> None:
    line = {"step": run.step, "seconds": round(run.seconds, 1)}
    with (out / "log.jsonl").open("a") as log:
        log.write(json.dumps(line | {k: round(v, 5) for k, v in values.items()}) + "\n")
