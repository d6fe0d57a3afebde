"""The attribute net, its labels, its short training and the loss that it gives."""

from pathlib import Path

import pytest
import torch

from onbeat.models.toybox.attributes import ATTRIBUTES, UNKNOWN, AttributeNet, labels_of
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.video_codec import VideoCodec, pack
from onbeat.samplers.distill import attribute_training
from onbeat.samplers.distill.attribute_loss import (
    AttributeLoss,
    feature_weight,
    pick,
    shapes_in_force,
)
from onbeat.samplers.distill.attribute_training import (
    attribute_error,
    load_attributes,
    train_attributes,
)
from onbeat.samplers.distill.data import Clips
from onbeat.samplers.distill.losses import Draw, draw
from onbeat.samplers.distill.networks import Networks


def clips(change: int = 4) -> Clips:
    g = torch.Generator().manual_seed(0)
    return Clips(
        audio=torch.randn(2, 8, 4, 24, generator=g),
        video=torch.randn(2, 8, 16, 256, generator=g),
        audio_weight=torch.ones(2, 8, 4),
        video_weight=torch.ones(2, 8, 16),
        text=torch.zeros(2, 2, 16, 12, dtype=torch.int64),
        change=torch.tensor([change, 8]),
        labels=torch.tensor([[[1, 0, 0], [3, 0, 0]], [[2, 0, 0], [2, 0, 0]]]),
    )


def drawn(c: Clips) -> Draw:
    config = ToyboxConfig(layers=1, width=64, heads=2, condition_rank=8)
    return draw(Networks(config), c, 2, torch.Generator().manual_seed(1))


def test_labels_are_what_a_prompt_names_once() -> None:
    shapes, colours, backgrounds = ATTRIBUTES
    rows = labels_of(["a red ball over the sea", "a ball and a star", "hello"])
    want = [shapes.index("ball"), colours.index("red"), backgrounds.index("sea")]
    assert rows[0].tolist() == want
    assert rows[1, 0] == UNKNOWN and rows[2].tolist() == [UNKNOWN] * 3


def test_unknown_labels_cost_nothing() -> None:
    net = AttributeNet()
    logits = net(torch.randn(4, 16, 8, 8))
    assert [row.shape for row in logits] == [(4, 5), (4, 8), (4, 8)]
    assert attribute_error(logits, torch.full((4, 3), UNKNOWN)) == 0.0


def test_the_truth_costs_no_features_and_a_wrong_picture_does() -> None:
    c = clips()
    d, loss = drawn(c), AttributeLoss(net=AttributeNet().requires_grad_(False), shape=0.0)
    truth = d.clean["video"]
    assert float(loss(truth, d, c)) == 0.0
    assert float(loss(truth + 0.5, d, c)) > 0.01


def test_the_shape_pulls_towards_its_name() -> None:
    torch.manual_seed(0)
    c = clips()
    d = drawn(c)
    loss = AttributeLoss(net=AttributeNet().requires_grad_(False), features=0.0, shape=1.0)
    guess = d.clean["video"].clone().requires_grad_(True)
    optimizer = torch.optim.Adam([guess], 0.05)
    costs = []
    for _ in range(30):
        cost = loss(guess, d, c)
        costs.append(float(cost.detach()))
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
    assert costs[-1] < 0.5 * costs[0]


def test_no_shape_is_asked_while_the_picture_morphs() -> None:
    got = shapes_in_force(clips()).tolist()
    assert got == [[1, 1, 1, 1, UNKNOWN, UNKNOWN, UNKNOWN, 3], [2] * 8]


def test_pure_noise_is_asked_for_no_features() -> None:
    weights = feature_weight(torch.tensor([0.1, 0.5, 1.0]))
    assert weights.tolist() == pytest.approx([1 / 0.3, 2.0, 0.0])


def test_pick_takes_the_frame_asked_for() -> None:
    latents = torch.randn(3, 4, 16, 8, 8)
    got = pick(pack(latents), torch.tensor([2, 0, 3]))
    assert torch.equal(got, latents[torch.arange(3), torch.tensor([2, 0, 3])])


def test_a_short_training_repeats_and_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = torch.randn(64, 2, 16, 8, 8)
    labels = torch.randint(0, 5, (64, 3))
    frames[:, :, 0] = labels[:, :1, None, None].float()
    monkeypatch.setattr(attribute_training, "latents_of_scenes", lambda *_: (frames, labels))
    monkeypatch.setattr(attribute_training, "BATCH", 32)
    codecs = (VideoCodec(), None)
    one = train_attributes(codecs, tmp_path / "one", 0, 12)  # type: ignore[arg-type]
    two = train_attributes(codecs, tmp_path / "two", 0, 12)  # type: ignore[arg-type]
    assert one == two and one["shape"] > 0.3
    net = load_attributes(tmp_path / "one" / "model.safetensors")
    assert not any(p.requires_grad for p in net.parameters())
