"""Training sees what serving sees: a clip at once equals its chunks one by one over pages."""

import pytest
import torch
from torch import Tensor

from onbeat.kernels.paged_attention import KVPages, paged_attention
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.dit import Attend
from onbeat.models.toybox.rope import window_rope
from onbeat.models.toybox.text import tokenise
from onbeat.samplers.distill import consistency
from onbeat.samplers.distill.clip import Layout, clip_attention, prompt_of_chunk
from onbeat.samplers.distill.consistency import (
    Recipe,
    history_levels,
    own_output,
    resampled_loss,
)
from onbeat.samplers.distill.data import Clips
from onbeat.samplers.distill.generate import chunk_page, empty_pages, page_table
from onbeat.samplers.distill.networks import Networks, encode, predict

CONFIG = ToyboxConfig(layers=2)
CHUNKS, CHANGE = 13, 7


def networks() -> Networks:
    torch.manual_seed(0)
    nets = Networks(CONFIG)
    for p in nets.parameters():
        if p.ndim == 2:
            torch.nn.init.normal_(p, std=p.shape[1] ** -0.5)
    return nets.eval().requires_grad_(False)


def prompts() -> Tensor:
    texts = ("a red ball over the sea", "two blue stars in the snow")
    rows = [tokenise(t, CONFIG.text_slots, CONFIG.trigram_buckets) for t in texts]
    return torch.stack(rows)[None]


def noisy() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    g = torch.Generator().manual_seed(1)
    x = {
        "audio": torch.randn(1, 2, CHUNKS, 4, 24, generator=g),
        "video": torch.randn(1, 2, CHUNKS, 16, 256, generator=g),
    }
    return x, {name: torch.rand(1, 2, CHUNKS, generator=g) for name in x}


def pages_attend(kv: KVPages, target: int | None) -> Attend:
    """Attention over pages; keeps keys and values in page `target`, if any."""
    rope = window_rope(CONFIG)

    def attend(layer: int, q: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out = paged_attention(q, key, value, kv, layer, rope)
        if target is not None:
            kv.k[layer, target], kv.v[layer, target] = key[0], value[0]
        return out

    return attend


def served(nets: Networks, x: dict[str, Tensor], t: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same chunks over a cache: history is committed, copies are only denoised."""
    spec = CONFIG.spec()
    k, v = empty_pages(spec, 1)
    encoded = encode(nets, prompts(), torch.tensor([CHANGE]))
    prefix = nets.denoiser.prefix(encoded.slots)
    out: dict[str, list[Tensor]] = {name: [] for name in x}
    for chunk in range(CHUNKS):
        prompt = int(chunk >= CHANGE)
        for layer, (pk, pv) in enumerate(prefix):
            k[layer, 0], v[layer, 0] = pk[prompt], pv[prompt]
        table = page_table(spec, 1, chunk)
        kv = KVPages(k=k, v=v, page_table=table, write_pages=table[:, 0])
        page = chunk_page(spec, chunk)
        for stream, target in ((1, None), (0, page)):
            mine = {name: y[:, stream, chunk] for name, y in x.items()}
            times = {name: y[:, stream, chunk] for name, y in t.items()}
            pooled = encoded.pooled[:, prompt]
            result = nets.denoiser(mine, times, pooled, pages_attend(kv, target))
            for name, y in result.items():
                if stream == 1:
                    out[name].append(y)
    return {name: torch.stack(rows, dim=1) for name, rows in out.items()}


def test_a_clip_at_once_is_its_chunks_over_pages() -> None:
    nets = networks()
    x, t = noisy()
    encoded = encode(nets, prompts(), torch.tensor([CHANGE]))
    at_once, one_by_one = predict(nets, encoded, x, t, history=True), served(nets, x, t)
    for name, want in one_by_one.items():
        got = at_once[name][:, 1]
        error = (got - want).square().mean((0, 2, 3)).sqrt() / want.std()
        assert float(error.max()) < 0.03, (name, error)


def test_the_test_above_would_see_a_wrong_prompt() -> None:
    nets = networks()
    x, t = noisy()
    early, late = (
        predict(nets, encode(nets, prompts(), torch.tensor([c])), x, t, history=True)["video"]
        for c in (CHANGE, CHANGE + 1)
    )
    error = (early - late)[:, 1].square().mean((0, 2, 3)).sqrt() / early.std()
    assert float(error[CHANGE]) > 0.05
    assert float(error[:CHANGE].max()) < 1e-6


def test_a_chunk_sees_its_past_only() -> None:
    nets = networks()
    x, t = noisy()
    encoded = encode(nets, prompts(), torch.tensor([CHANGE]))
    before = predict(nets, encoded, x, t, history=True)["video"]
    x["video"][:, 0, 6] += 1.0
    after = predict(nets, encoded, x, t, history=True)["video"]
    changed = (before - after).abs().amax((3, 4))[0]
    assert (changed[1, :7] == 0).all() and (changed[1, 7:] > 0).all()
    assert (changed[0, :6] == 0).all() and (changed[0, 6:] > 0).all()


def test_copies_do_not_see_each_other() -> None:
    layout = Layout(config=CONFIG, streams=3, chunks=1, history=False)
    q, k, v = torch.randn(3, 3, CONFIG.chunk_tokens, CONFIG.heads, CONFIG.head_dim)
    empty = torch.zeros(1, 2 * CONFIG.prefix_tokens, CONFIG.heads, CONFIG.head_dim)
    attend = clip_attention(layout, [(empty, empty)], torch.tensor([1]))
    before = attend(0, q, k, v)
    v[2] += 1.0
    after = attend(0, q, k, v)
    assert torch.equal(before[:2], after[:2]) and not torch.equal(before[2], after[2])


def test_prompt_of_chunk() -> None:
    assert prompt_of_chunk(torch.tensor([1, 3]), 3).tolist() == [[0, 1, 1], [0, 0, 0]]


def clips() -> Clips:
    g = torch.Generator().manual_seed(2)
    return Clips(
        audio=torch.randn(1, 3, 4, 24, generator=g),
        video=torch.randn(1, 3, 16, 256, generator=g),
        audio_weight=torch.ones(1, 3, 4),
        video_weight=torch.ones(1, 3, 16),
        text=prompts(),
        change=torch.tensor([3]),
        labels=torch.full((1, 2, 3), -1),
    )


def test_own_output_is_made_again_from_true_history_and_from_own_output() -> None:
    nets = networks()
    one, two = (own_output(nets, clips(), n, torch.Generator().manual_seed(3)) for n in (1, 2))
    assert one["video"].shape == (1, 1, 3, 16, 256)
    assert one["video"].isfinite().all()
    assert not torch.allclose(one["video"][:, :, 1:], two["video"][:, :, 1:])


def test_own_output_begins_with_the_true_chunk() -> None:
    """A denoiser that changes nothing shows what it was given: the truth, noised to the level."""
    made: list[Tensor] = []

    def mirror(
        nets: Networks,
        prompts: object,
        x: dict[str, Tensor],
        t: dict[str, Tensor],
        *,
        history: bool,
    ) -> dict[str, Tensor]:
        made.append(t["video"])
        return x

    nets, batch = networks(), clips()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consistency, "predict", mirror)
        out = own_output(nets, batch, 2, torch.Generator().manual_seed(3))["video"][:, 0]
    level = made[-1][:, 1:]
    assert torch.equal(made[0][:, 1:], level) and bool((level == level[:, :, :1]).all())
    for i in range(3):
        noise = (out[:, i] - (1 - level[0, 0, i]) * batch.video[:, i]) / level[0, 0, i]
        assert abs(float(noise.std()) - 1.0) < 0.05 and abs(float(noise.mean())) < 0.05


def test_levels_of_histories_lie_towards_the_clean_end() -> None:
    levels = history_levels(20_000, 2, torch.Generator().manual_seed(0))
    assert levels.shape == (20_000, 1, 2) and torch.equal(levels[..., 0], levels[..., 1])
    assert 0.0 < float(levels.min()) and float(levels.max()) < 1.0
    # the median of t' = s t / (1 + (s - 1) t) at t = 1/2 is s / (1 + s)
    assert abs(float(levels.median()) - 0.6 / 1.6) < 0.01


def test_own_history_is_seen_by_the_loss() -> None:
    nets = networks()
    true, own = (
        float(
            resampled_loss(
                nets, Recipe(own_history=share), clips(), 1, torch.Generator().manual_seed(4)
            )
        )
        for share in (0.0, 1.0)
    )
    assert true != own and own > 0.0
