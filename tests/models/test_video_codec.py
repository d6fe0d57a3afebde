"""The video codec: shapes, packing, and a stream that is the same however it is cut or batched."""

import pytest
import torch

from onbeat.models.toybox.video_codec import VideoCodec, pack, prepare_to_serve, unpack


@pytest.fixture(scope="module")
def codec() -> VideoCodec:
    torch.manual_seed(0)
    return prepare_to_serve(VideoCodec())


def _latents(clips: int, frames: int) -> torch.Tensor:
    return torch.randn(clips, frames, 16, 8, 8, generator=torch.Generator().manual_seed(1))


@torch.inference_mode()
def test_shapes(codec: VideoCodec) -> None:
    z = codec.encode(torch.rand(2, 3, 3, 128, 128) * 2 - 1)
    assert z.shape == (2, 3, 16, 8, 8)
    frames = codec.decode(z, codec.new_state())
    assert frames.shape == (2, 3, 3, 128, 128) and frames.dtype == torch.float32
    assert float(frames.abs().max()) <= 1.0


@torch.inference_mode()
def test_a_stream_in_chunks_is_the_stream_at_once(codec: VideoCodec) -> None:
    z = _latents(1, 12)
    state = codec.new_state()
    parts = [codec.decode(z[:, i : i + 4], state) for i in range(0, 12, 4)]
    assert torch.equal(torch.cat(parts, dim=1), codec.decode(z, codec.new_state()))
    assert state.frames == 12


@torch.inference_mode()
def test_a_clip_has_the_same_bits_in_any_company(codec: VideoCodec) -> None:
    z = _latents(7, 4)
    alone = codec.decode(z[3:4], codec.new_state())
    for rows in ([3], [0, 3], [3, 1, 2], list(range(7))):
        got = codec.decode(z[rows], codec.new_state())
        assert torch.equal(got[rows.index(3)], alone[0])


def test_pack_and_unpack_are_inverse_and_keep_places() -> None:
    z = _latents(2, 4)
    tokens = pack(z)
    assert tokens.shape == (2, 16, 256)
    assert torch.equal(unpack(tokens), z)
    only = torch.zeros(1, 4, 16, 8, 8)
    only[..., 2:4, 6:8] = 1.0
    assert pack(only).sum(-1).nonzero().tolist() == [[0, 1 * 4 + 3]]


@torch.inference_mode()
def test_latents_beyond_the_limit_are_clamped(codec: VideoCodec) -> None:
    far = codec.decode(torch.full((1, 4, 16, 8, 8), 1e6), codec.new_state())
    near = codec.decode(torch.full((1, 4, 16, 8, 8), 5.0), codec.new_state())
    assert torch.equal(far, near)
