"""Training of the video autoencoder: it learns, writes what it promises, and resumes."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.samplers.distill import ae_training
from onbeat.samplers.distill.ae_training import frames_of, reconstruction_loss, train_video_codec
from onbeat.samplers.distill.muon import Muon, orthogonal


def _log(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def test_a_short_run_writes_its_files_and_a_longer_one_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ae_training, "CLIPS", 1)
    train_video_codec(0.005, tmp_path, seed=3)
    weights = load_file(tmp_path / "model.safetensors")
    VideoCodec().load_state_dict(weights)
    assert bool((weights["latent_std"] > 0).all())
    assert list(tmp_path.glob("sheet-*.png"))
    first = _log(tmp_path)[-1]
    train_video_codec((first["seconds"] + 0.2) / 60.0, tmp_path, seed=3)
    last = _log(tmp_path)[-1]
    assert last["step"] > first["step"] and last["seconds"] > first["seconds"]
    assert {"loss", "psnr", "psnr_object"} <= set(last)


def test_frames_are_a_function_of_the_seed() -> None:
    a, b = frames_of(1, 2), frames_of(1, 2)
    assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])
    assert a[0].shape == (4, 3, 128, 128) and a[1].shape == (4, 1, 128, 128)


def test_errors_on_objects_cost_more() -> None:
    x = torch.zeros(1, 3, 128, 128)
    mask = torch.zeros(1, 1, 128, 128)
    mask[..., 32:64, 32:64] = 1.0
    on, off = x.clone(), x.clone()
    on[..., 40:48, 40:48] = 0.5
    off[..., 100:108, 100:108] = 0.5
    assert reconstruction_loss(on, x, mask) > 2.0 * reconstruction_loss(off, x, mask)
    assert float(reconstruction_loss(x, x, mask)) == 0.0


@pytest.mark.parametrize("shape", [(8, 40), (40, 8), (16, 16)])
def test_orthogonal_evens_out_singular_values(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonal(matrix))
    assert float(values.max()) < 1.3 and float(values.min()) > 0.3


def test_muon_fits_a_badly_scaled_problem() -> None:
    scale = torch.logspace(0, -2, 8)
    x = torch.randn(256, 8, generator=torch.Generator().manual_seed(0)) * scale
    layer = torch.nn.Linear(8, 4)
    target = x @ (torch.ones(8, 4) / scale[:, None]) + 1.0
    optimizer = Muon(layer.parameters(), lr=1.0)
    first = float((layer(x) - target).detach().square().mean())
    for step in range(200):
        optimizer.param_groups[0]["lr"] = 4.0 * (1.0 - step / 200)
        optimizer.zero_grad()
        loss = (layer(x) - target).square().mean()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.05 * first
