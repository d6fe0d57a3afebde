"""The net that sees where objects are, its short training, and the loss that it gives."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.video_codec import VideoCodec, pack, unpack
from onbeat.samplers.distill import cover
from onbeat.samplers.distill.cover import GRID, CoverNet, load_cover, place_of, train_cover
from onbeat.samplers.distill.data import Clips
from onbeat.samplers.distill.losses import Draw, draw
from onbeat.samplers.distill.motion_loss import MotionLoss, beside, place_error
from onbeat.samplers.distill.networks import Networks


class Bright(CoverNet):
    """Objects are where the first channel of a latent frame is high."""

    def forward(self, latents: Tensor) -> Tensor:
        return nn.functional.interpolate(latents[:, :1], (GRID, GRID))[:, 0].float()


def spot(x: float, y: float) -> Tensor:
    """[16, 8, 8] of an object at a place in frame sides."""
    axis = (torch.arange(8) + 0.5) / 8
    near = torch.exp(-((axis[None] - x) ** 2 + (axis[:, None] - y) ** 2) / 0.02)
    return (8.0 * near - 6.0).expand(16, 8, 8)


def moving(start: float, speed: float) -> Tensor:
    """One clip of two chunks [1, 1, 2, 16, 256] of an object that moves to the right."""
    frames = torch.stack([spot(start + speed * i, 0.5) for i in range(8)])
    return pack(frames.view(2, 4, 16, 8, 8))[None, None]


def drawn(video: Tensor, seed: int = 0) -> tuple[Draw, Clips]:
    clips = Clips(
        audio=torch.zeros(1, 2, 4, 24),
        video=video[0],
        audio_weight=torch.ones(1, 2, 4),
        video_weight=torch.ones(1, 2, 16),
        text=torch.zeros(1, 2, 16, 12, dtype=torch.int64),
        change=torch.tensor([2]),
        labels=torch.full((1, 2, 3), -1),
    )
    config = ToyboxConfig(layers=1, width=64, heads=2, condition_rank=8)
    return draw(Networks(config), clips, 1, torch.Generator().manual_seed(seed)), clips


def cost(predicted: Tensor, places: float = 1.0, moves: float = 1.0) -> float:
    d, clips = drawn(moving(0.3, 0.04))
    loss = MotionLoss(net=Bright(), places=places, moves=moves)
    return float(loss(torch.cat([d.clean["video"][:, :1], predicted], dim=1), d, clips))


def test_a_place_is_the_middle_of_what_is_covered() -> None:
    cover_of = torch.zeros(2, GRID, GRID)
    cover_of[0, 4:6, 8:12] = 1.0
    place = place_of(cover_of)
    assert place.centre[0].tolist() == pytest.approx([10 / 16, 5 / 16], abs=1e-4)
    assert float(place.size[0]) == pytest.approx((8 / 256) ** 0.5, rel=1e-3)
    assert place.centre[1].tolist() == pytest.approx([0.5, 0.5])


def test_the_truth_costs_nothing_and_further_off_costs_more() -> None:
    near, far = cost(moving(0.36, 0.04)), cost(moving(0.42, 0.04))
    assert cost(moving(0.3, 0.04)) == 0.0 and 0.0 < near < far


def test_a_chunk_that_stands_still_costs_by_its_steps_alone() -> None:
    assert cost(moving(0.36, 0.04), places=0.0) < 0.4 * cost(moving(0.44, 0.0), places=0.0)


def test_a_prediction_is_pulled_towards_the_motion_of_the_truth() -> None:
    d, clips = drawn(moving(0.3, 0.04))
    loss = MotionLoss(net=Bright(), places=1.0, moves=1.0)
    guess = moving(0.44, 0.0).requires_grad_(True)
    optimizer = torch.optim.Adam([guess], 0.1)
    costs = []
    for _ in range(40):
        value = loss(torch.cat([d.clean["video"][:, :1], guess], dim=1), d, clips)
        costs.append(float(value.detach()))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert costs[-1] < 0.3 * costs[0]


def test_a_first_chunk_counts_by_what_its_noise_lets_see() -> None:
    loss, wrong = MotionLoss(net=Bright()), moving(0.5, 0.04)
    for seed in range(3):
        d, clips = drawn(moving(0.3, 0.04), seed)
        video = torch.cat([d.clean["video"][:, :1], wrong], dim=1)
        video[:, :, 1] = d.clean["video"][:, :, 1]  # the second chunk is right
        got = float(loss(video, d, clips))
        t = float(d.times["video"][0, 1, 0])
        whole = float(place_error(*_places(loss, video, d), loss.places, loss.moves)[0])
        assert got == pytest.approx((1.0 - t) * whole / 2.0, rel=0.05, abs=1e-4)


def _places(loss: MotionLoss, video: Tensor, d: Draw) -> tuple[cover.Place, cover.Place]:
    flat = [unpack(x[:, 1:].flatten(0, 2)).flatten(0, 1) for x in (video, d.clean["video"])]
    return loss.net.place(flat[0]), loss.net.place(flat[1])


def test_losses_stand_beside_one_another() -> None:
    d, clips = drawn(moving(0.3, 0.04))
    both = beside(lambda p, d, c: p.sum(), lambda p, d, c: p.mean())
    video = d.clean["video"]
    assert float(both(video, d, clips)) == pytest.approx(float(video.sum() + video.mean()))


def test_a_short_training_repeats_and_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = torch.stack([spot(0.2 + 0.6 * i / 31, 0.8 - 0.6 * i / 31) for i in range(32)])
    frames = frames.view(8, 4, 16, 8, 8)
    seen = Bright()(frames.flatten(0, 1)).sigmoid().view(8, 4, GRID, GRID)
    monkeypatch.setattr(cover, "covered_latents", lambda *_: (frames, seen))
    codecs = (VideoCodec(), None)
    one = train_cover(codecs, tmp_path / "one", 0, 40)  # type: ignore[arg-type]
    two = train_cover(codecs, tmp_path / "two", 0, 40)  # type: ignore[arg-type]
    assert one == two and one < 8.0
    net = load_cover(tmp_path / "one" / "model.safetensors")
    assert not any(p.requires_grad for p in net.parameters())
