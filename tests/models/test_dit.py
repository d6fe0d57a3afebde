"""The denoiser: its boundary, what it depends on, and rotation that knows relative time only."""

import torch
from torch import Tensor
from torch.nn import functional as F

from onbeat.kernels.paged_attention import rotate
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.dit import MIN_TIME, Denoiser, blend
from onbeat.models.toybox.rope import TIME_PAIRS, chunk_angles, timeless_mask, window_rope

CONFIG = ToyboxConfig(layers=2)


def denoiser() -> Denoiser:
    torch.manual_seed(0)
    net = Denoiser(CONFIG)
    for p in net.parameters():
        if p.ndim == 2:
            torch.nn.init.normal_(p, std=0.1)
    return net.eval().requires_grad_(False)


def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def inputs(rows: int, time: float) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
    g = torch.Generator().manual_seed(1)
    latents = {
        "audio": torch.randn(rows, 4, 24, generator=g),
        "video": torch.randn(rows, 16, 256, generator=g),
    }
    times = {name: torch.full((rows,), time) for name in latents}
    return latents, times, torch.randn(rows, CONFIG.width, generator=g)


def test_at_time_zero_the_prediction_is_the_input() -> None:
    latents, times, pooled = inputs(2, 0.0)
    out = denoiser()(latents, times, pooled, attend)
    assert all(torch.equal(out[name], latents[name]) for name in latents)


def test_blend_is_the_velocity_rule() -> None:
    x, raw, t = torch.randn(3, 2, 5), torch.randn(3, 2, 5), torch.tensor([0.01, 0.02, 0.7])
    v = (x - raw) / t.clamp(min=MIN_TIME)[:, None, None]
    torch.testing.assert_close(blend(x, raw, t), x - t[:, None, None] * v)


def test_each_modality_has_its_own_time_and_sees_the_other() -> None:
    net = denoiser()
    latents, times, pooled = inputs(1, 0.5)
    before = net(latents, times, pooled, attend)
    after = net(latents, times | {"audio": torch.tensor([0.9])}, pooled, attend)
    assert not torch.allclose(before["audio"], after["audio"])
    assert not torch.allclose(before["video"], after["video"])


def test_the_pooled_prompt_matters() -> None:
    net = denoiser()
    latents, times, pooled = inputs(1, 0.5)
    before, after = (net(latents, times, p, attend)["video"] for p in (pooled, -pooled))
    assert not torch.allclose(before, after)


def test_scores_depend_on_the_distance_of_chunks_only() -> None:
    q, k = torch.randn(2, CONFIG.chunk_tokens, CONFIG.heads, CONFIG.head_dim)

    def scores(first: int, second: int) -> Tensor:
        a, b = chunk_angles(CONFIG, torch.tensor([first, second]))
        turned = (rotate(x, r.cos().float(), r.sin().float()) for x, r in ((q, a), (k, b)))
        return torch.einsum("nhe,mhe->hnm", *turned)

    torch.testing.assert_close(scores(8, 0), scores(48, 40), atol=1e-4, rtol=1e-4)


def test_scores_of_a_prompt_are_the_same_at_any_time() -> None:
    q = torch.randn(CONFIG.chunk_tokens, CONFIG.heads, CONFIG.head_dim)
    k = torch.randn(CONFIG.prefix_tokens, CONFIG.heads, CONFIG.head_dim) * timeless_mask(CONFIG)

    def scores(frame: int) -> Tensor:
        angles = chunk_angles(CONFIG, torch.tensor([frame]))[0]
        turned = rotate(q, angles.cos().float(), angles.sin().float())
        return torch.einsum("nhe,mhe->hnm", turned, k)

    torch.testing.assert_close(scores(0), scores(44), atol=1e-4, rtol=1e-4)


def test_window_rope_is_the_identity_at_the_sink() -> None:
    rope = window_rope(CONFIG)
    assert rope.cos.shape == (CONFIG.window_chunks + 2, CONFIG.chunk_tokens, CONFIG.head_dim // 2)
    assert (rope.cos[0] == 1).all() and (rope.sin[0] == 0).all()
    assert not torch.allclose(rope.cos[1, :, :TIME_PAIRS], rope.cos[2, :, :TIME_PAIRS])
