"""`Toybox`: the embedded model as the engine calls it.

What it is: the denoiser, the text encoder and the two codecs behind the contract of models/spec.py,
for serving (no gradients). What it is not: training, or the sampler that calls it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onbeat.kernels.paged_attention import KVPages, Rope, paged_attention
from onbeat.kernels.store_kv import store_kv
from onbeat.models.spec import DecodedChunks, EncodedPrompt, Latents, ModelSpec
from onbeat.models.toybox.audio_codec import AudioCodec, AudioState
from onbeat.models.toybox.bank import analysed_rate
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.dit import Denoiser
from onbeat.models.toybox.prompts import recognise
from onbeat.models.toybox.rope import window_rope
from onbeat.models.toybox.text import TextEncoder, tokenise
from onbeat.models.toybox.video_codec import (
    LATENT_LIMIT,
    VideoCodec,
    VideoDecoderState,
    pack,
    prepare_to_serve,
    unpack,
)

Part = TypeVar("Part", bound=nn.Module)


@dataclass(slots=True, kw_only=True)
class DecoderState:
    """The streaming decoders of one stream; plain tensors, picklable."""

    video: VideoDecoderState
    audio: AudioState


class Toybox:
    """The served model. Rows of a batch have the same bits whatever their batch mates are."""

    def __init__(
        self,
        config: ToyboxConfig,
        denoiser: Denoiser,
        text: TextEncoder,
        video: VideoCodec,
        audio: AudioCodec,
        device: torch.device | str = "cpu",
        weights: str = "",
    ) -> None:
        """The audio decoder, small and made of short serial pieces, stays on the CPU. weights: a
        hash of them."""
        self._config = config
        self._spec = replace(config.spec(), weights=weights)
        self._denoiser = _for_serving(denoiser).to(device)
        self._text = _for_serving(text).to(device)
        self._video = prepare_to_serve(video).requires_grad_(False).to(device)
        self._audio = audio.eval().requires_grad_(False)
        rope = window_rope(config)
        self._rope = Rope(cos=rope.cos.to(device), sin=rope.sin.to(device))
        self._device = device

    @classmethod
    def random(cls, seed: int) -> "Toybox":
        """A model of the right shapes and cost with random weights, for tests without a file."""
        config = ToyboxConfig()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            denoiser = Denoiser(config)
            text, video, audio = TextEncoder(config), VideoCodec(), AudioCodec()
            for name, p in denoiser.named_parameters():
                if name.endswith(("out.weight", "down.weight")):
                    nn.init.normal_(p, std=0.02)
        return cls(config, denoiser, text, video, audio)

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @torch.inference_mode()
    def encode_prompt(self, prompt: str) -> EncodedPrompt:
        """An empty prompt gives the learned empty one; words past the 16th are not read."""
        rows = tokenise(prompt, self._config.text_slots, self._config.trigram_buckets)
        slots, pooled = self._text(rows[None].to(self._device))
        return EncodedPrompt(pooled=pooled[0], slots=slots[0], recognised=recognise(prompt))

    @torch.inference_mode()
    def prefill_prompt(self, prompts: Sequence[EncodedPrompt], kv: KVPages) -> None:
        """Writes each prompt's keys and values of all layers to its page of `kv.write_pages`."""
        n = self._config.prefix_tokens
        for prompt, page in zip(prompts, kv.write_pages.split(1), strict=True):
            for layer, (k, v) in enumerate(self._denoiser.prefix(prompt.slots[None])):
                kv.k[layer, :, :n].index_copy_(0, page, k.to(kv.k.dtype))
                kv.v[layer, :, :n].index_copy_(0, page, v.to(kv.v.dtype))

    @torch.inference_mode()
    def denoise(
        self, latents: Latents, times: Mapping[str, Tensor], pooled: Tensor, kv: KVPages
    ) -> dict[str, Tensor]:
        """See `CausalModel.denoise`; commits are rows with a page to write to."""

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            store_kv(k, v, kv, layer)
            return paged_attention(q, k, v, kv, layer, self._rope)

        predictions: dict[str, Tensor] = self._denoiser(latents, times, pooled, attend)
        return predictions

    @torch.inference_mode()
    def encode_media(self, frames: Tensor, sound: Tensor) -> dict[str, Tensor]:
        """See `CausalModel.encode_media`. Sound past the chunk is looked at for 100 ms."""
        pictures = frames.to(self._device).permute(0, 3, 1, 2)[None].float() / 127.5 - 1.0
        video = pack(self._video.encode(pictures))[0].clamp(-LATENT_LIMIT, LATENT_LIMIT)
        used = self._spec.chunk_samples + self._spec.sample_rate // 10
        wave = analysed_rate(sound[None, :used].float() / 32_768)
        wave = F.pad(wave, (0, used // 2 - wave.shape[1]))
        audio = self._audio.encode(wave)[0, : self._config.audio_tokens]
        return {"audio": audio.to(self._device), "video": video}

    def new_decoder_state(self) -> DecoderState:
        return DecoderState(video=self._video.new_state(), audio=self._audio.new_state())

    def skip_chunks(self, state: DecoderState, chunks: int) -> None:
        self._video.skip(state.video, chunks * self._spec.chunk_frames)
        self._audio.skip(state.audio, chunks)

    @torch.inference_mode()
    def decode(self, latents: Latents, states: Sequence[DecoderState]) -> DecodedChunks:
        """One chunk of each stream to pictures and sound; states move on."""
        video = unpack(latents["video"].to(self._device))
        pictures = [
            self._video.decode(row[None], state.video)
            for row, state in zip(video, states, strict=True)
        ]
        frames = torch.cat(pictures).add(1).mul(127.5).round().to(torch.uint8)
        audio = self._audio.decode(latents["audio"].cpu(), [state.audio for state in states])
        return DecodedChunks(frames=frames.permute(0, 1, 3, 4, 2).contiguous(), audio=audio)


def _for_serving(module: Part) -> Part:
    """Linear layers in bfloat16, all else in float32."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.to(torch.bfloat16)
    return module.eval().requires_grad_(False)
