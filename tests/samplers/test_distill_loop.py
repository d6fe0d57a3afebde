"""The training loop: it learns, repeats with its seed, and goes on where it stopped."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from onbeat.models.toybox.config import ToyboxConfig
from onbeat.samplers.distill.data import Clips
from onbeat.samplers.distill.loop import (
    Piece,
    Run,
    Stage,
    load_run,
    new_run,
    save_run,
    train_loop,
    train_step,
)
from onbeat.samplers.distill.losses import grid_positions, history_times, teacher_loss
from onbeat.samplers.distill.networks import Networks, mix, shifted
from onbeat.samplers.distill.optim import is_matrix, rate_at
from onbeat.samplers.schedule import rf_schedule

CONFIG = ToyboxConfig(layers=1, width=64, heads=2, condition_rank=8)


def run() -> Run:
    torch.manual_seed(0)
    return new_run(Networks(CONFIG))


def clips(seed: int) -> Clips:
    g = torch.Generator().manual_seed(seed)
    return Clips(
        audio=torch.ones(2, 2, 4, 24) * 0.5,
        video=torch.randn(1, 1, 16, 256, generator=g).expand(2, 2, -1, -1),
        audio_weight=torch.ones(2, 2, 4),
        video_weight=torch.ones(2, 2, 16),
        text=torch.zeros(2, 2, 16, 12, dtype=torch.int64).index_fill(3, torch.tensor([0]), 5),
        change=torch.full((2,), 2),
        labels=torch.full((2, 2, 3), -1),
    )


def stage(steps: list[int]) -> Stage:
    """Two pieces a step, the same in each; `steps` collects what was asked for."""

    def pieces(step: int, run: Run) -> list[Piece]:
        steps.append(step)

        def piece(i: int) -> Tensor:
            g = torch.Generator().manual_seed(i)
            return teacher_loss(run.nets, clips(0), 1, g)

        return [lambda i=i: piece(i) for i in range(2)]  # type: ignore[misc]

    return Stage(
        name="test", pieces=pieces, refresh=lambda: None, on_checkpoint=lambda r, o: {"done": 1.0}
    )


def test_it_learns_and_repeats() -> None:
    with ThreadPoolExecutor(2) as pool:
        one, other = run(), run()
        losses = [train_step(one, stage([]), pool, 0.3)[0] for _ in range(4)]
        again = [train_step(other, stage([]), pool, 0.3)[0] for _ in range(4)]
    assert losses[-1] < losses[0]
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(again), rtol=1e-3, atol=0)


def test_it_leaves_log_and_checkpoint(tmp_path: Path) -> None:
    train_loop(run(), stage([]), 0.001, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines[0]["step"] == 1 and lines[0]["now"] > 0.0
    assert lines[-1]["done"] == 1.0
    assert (tmp_path / "state.pt").exists()


def test_it_resumes_where_it_stopped(tmp_path: Path) -> None:
    first = run()
    train_loop(first, stage([]), 0.001, tmp_path)
    again, steps = run(), list[int]()
    load_run(again, tmp_path / "state.pt")
    assert again.step == first.step and again.seconds == first.seconds
    train_loop(again, stage(steps), first.seconds / 60.0 + 0.001, tmp_path)
    assert steps[0] == first.step


def test_a_checkpoint_is_exact(tmp_path: Path) -> None:
    one, other = run(), run()
    with torch.no_grad():
        one.nets.text.table.add_(1.0)
    save_run(one, tmp_path / "a.pt")
    load_run(other, tmp_path / "a.pt")
    assert torch.equal(other.nets.text.table, one.nets.text.table)


def test_the_rate_warms_up_and_falls() -> None:
    assert rate_at(0, 0.0, 1.0) < 0.05
    assert rate_at(1000, 0.3, 2.0) == 2.0
    assert 0.09 < rate_at(1000, 1.0, 1.0) < 0.11


def test_only_hidden_matrices_are_made_orthogonal() -> None:
    names = [n for n, p in Networks(CONFIG).named_parameters() if is_matrix(n, p)]
    assert "denoiser.blocks.0.qkv.weight" in names and "text.mixer.up.weight" in names
    assert not any("table" in n or "_in" in n or "place" in n for n in names)


def test_times_of_training_are_those_of_serving() -> None:
    u = torch.tensor([1.0, 0.75, 0.5, 0.25, 0.0], dtype=torch.float64)
    for shift in (1.5, 3.0):
        want = torch.tensor(rf_schedule(4, shift).times, dtype=torch.float64)
        torch.testing.assert_close(shifted(u, shift), want)


def test_positions_cover_the_grid_and_hit_pure_noise() -> None:
    u = grid_positions(64, 4, 8, torch.Generator().manual_seed(0))
    assert 0.08 < float((u == 1.0).float().mean()) < 0.17
    assert float(u.min()) < 0.02 and u.shape == (64, 4, 8)
    served = grid_positions(64, 4, 8, torch.Generator().manual_seed(0), serving=1.0)
    assert served.unique().tolist() == [0.25, 0.5, 0.75, 1.0]
    past = history_times(64, 8, torch.Generator().manual_seed(0))
    assert 0.0 < float(past.min()) and float(past.max()) <= 0.25


def test_mix_is_the_straight_path() -> None:
    x, z = torch.zeros(1, 1, 1, 2, 3), torch.ones(1, 1, 1, 2, 3)
    assert (mix(x, z, torch.full((1, 1, 1), 0.25)) == 0.25).all()
