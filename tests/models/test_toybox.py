"""The served model: the contract, the same bits in any batch, and its one file."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from onbeat.kernels.paged_attention import KVPages
from onbeat.models.spec import CausalModel, EncodedPrompt
from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.dit import Denoiser
from onbeat.models.toybox.model import Toybox
from onbeat.models.toybox.text import TextEncoder
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.models.toybox.weights import load_toybox, save_weights

ROWS = 15
PAGES = 40


@pytest.fixture(scope="module")
def model() -> Toybox:
    return Toybox.random(0)


def pool(model: Toybox) -> tuple[Tensor, Tensor]:
    s = model.spec
    shape = (s.layers, PAGES, s.page_tokens, s.heads, s.head_dim)
    g = torch.Generator().manual_seed(2)
    return torch.randn(shape, generator=g), torch.randn(shape, generator=g)


def prompt(model: Toybox) -> EncodedPrompt:
    return model.encode_prompt("a red ball bouncing over the sea")


def batch(
    model: Toybox, rows: list[int], kv: tuple[Tensor, Tensor], write: list[int] | None = None
) -> dict[str, Tensor]:
    """Predictions of some of ROWS fixed rows that differ in time, window and fill."""
    g = torch.Generator().manual_seed(3)
    latents = {
        m.name: torch.randn(ROWS, m.tokens, m.dim, generator=g) for m in model.spec.modalities
    }
    times = {name: torch.rand(ROWS, generator=g) for name in latents}
    table = torch.randint(1, PAGES // 2, (ROWS, model.spec.page_slots), generator=g)
    table[:, 0] = 0
    for row in range(ROWS):
        table[row, 1 : 1 + row % model.spec.page_slots] = -1
    written = torch.tensor(write or [-1] * len(rows))
    pages = KVPages(k=kv[0], v=kv[1], page_table=table[rows], write_pages=written)
    pooled = torch.randn(ROWS, model.spec.cond_dim, generator=g)
    cut = {name: x[rows] for name, x in latents.items()}
    return model.denoise(cut, {n: t[rows] for n, t in times.items()}, pooled[rows], pages)


def test_it_is_a_causal_model(model: Toybox) -> None:
    served: CausalModel = model
    spec = served.spec
    assert (spec.chunk_tokens, spec.page_tokens, spec.page_slots) == (20, 20, 13)
    assert (spec.chunk_seconds, spec.chunk_samples) == (0.2, 9600)


@pytest.mark.parametrize("mates", [[4], [4, 0, 9, 2, 13], list(range(ROWS))])
def test_a_row_has_the_same_bits_in_any_batch(model: Toybox, mates: list[int]) -> None:
    kv = pool(model)
    alone, among = batch(model, [4], kv), batch(model, mates, kv)
    for name, x in alone.items():
        assert x.dtype == torch.float32
        assert torch.equal(x[0], among[name][mates.index(4)])


def test_only_commits_write_and_only_their_pages(model: Toybox) -> None:
    kv, before = pool(model), pool(model)
    batch(model, [1, 2, 3], kv, write=[-1, 30, -1])
    changed = [p for p in range(PAGES) if not torch.equal(kv[0][:, p], before[0][:, p])]
    assert changed == [30]
    again = pool(model)
    batch(model, [2], again, write=[30])
    assert torch.equal(kv[0], again[0]) and torch.equal(kv[1], again[1])


def test_prefill_fills_the_sink_of_each_prompt(model: Toybox) -> None:
    kv, alone = pool(model), pool(model)
    prompts = [prompt(model), model.encode_prompt("")]
    nothing = torch.zeros(0, model.spec.page_slots, dtype=torch.int64)
    for pages, which in ((kv, [0, 1]), (alone, [1])):
        write = torch.tensor([[7, 8][i] for i in which])
        sink = KVPages(k=pages[0], v=pages[1], page_table=nothing, write_pages=write)
        model.prefill_prompt([prompts[i] for i in which], sink)
    assert torch.equal(kv[0][:, 8], alone[0][:, 8])
    assert not torch.equal(kv[0][:, 7], kv[0][:, 8])


def test_the_prompt_in_the_sink_steers_the_prediction(model: Toybox) -> None:
    kv = pool(model)
    before = batch(model, [5], kv)
    sink = torch.zeros(0, model.spec.page_slots, dtype=torch.int64)
    pages = KVPages(k=kv[0], v=kv[1], page_table=sink, write_pages=torch.tensor([0]))
    model.prefill_prompt([prompt(model)], pages)
    assert not torch.equal(before["video"], batch(model, [5], kv)["video"])


@pytest.mark.parametrize(
    ("text", "words"), [("", ()), ("qwertz", ()), ("A RED ball!", ("red", "ball"))]
)
def test_it_says_which_words_it_knew(model: Toybox, text: str, words: tuple[str, ...]) -> None:
    assert model.encode_prompt(text).recognised == words


def test_a_stream_decodes_the_same_alone_and_beside_others(model: Toybox) -> None:
    g = torch.Generator().manual_seed(4)
    chunks = [
        {m.name: torch.randn(3, m.tokens, m.dim, generator=g) for m in model.spec.modalities}
        for _ in range(2)
    ]
    states, alone = [model.new_decoder_state() for _ in range(3)], model.new_decoder_state()
    for chunk in chunks:
        many = model.decode(chunk, states)
        one = model.decode({name: x[1:2] for name, x in chunk.items()}, [alone])
        assert many.frames.shape == (3, 4, 128, 128, 3) and many.frames.dtype == torch.uint8
        assert many.audio.shape == (3, 9600) and many.audio.dtype == torch.int16
        assert torch.equal(one.frames[0], many.frames[1])
        assert torch.equal(one.audio[0], many.audio[1])


def test_a_file_gives_the_same_model_again(tmp_path: Path) -> None:
    config = ToyboxConfig(layers=1)
    torch.manual_seed(0)
    parts = {
        "denoiser": Denoiser(config),
        "text": TextEncoder(config),
        "video": VideoCodec(),
        "audio": AudioCodec(),
    }
    facts = {"config": config.to_json(), "data_seed": "0", "commit": "none"}
    save_weights(parts, tmp_path / "a.safetensors", facts)
    one, other = (load_toybox(weights=tmp_path / "a.safetensors") for _ in range(2))
    assert replace(one.spec, weights="") == config.spec()
    assert one.spec.weights == other.spec.weights != ""
    assert torch.equal(prompt(one).slots, prompt(other).slots)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "b.safetensors", metadata={"format": "other"})
    with pytest.raises(ValueError, match="'other'; allowed: 'onbeat-toybox-1'"):
        load_toybox(weights=tmp_path / "b.safetensors")
