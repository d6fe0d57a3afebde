"""The contract between a causal few-step model and the engine that serves it.

What it is: plain data about a model's clocks, rows and memory (`ModelSpec`), and the calls that the
engine makes (`CausalModel`). What it is not: an implementation, or a place for weights.

Shape letters: r rows of a batch, n tokens of one modality, d numbers per token, f frames of a
chunk, l layers, p pages of the pool, k tokens of a page, h heads, e numbers per head, m page slots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from torch import Tensor

from onbeat.kernels.paged_attention import KVPages

Latents = Mapping[str, Tensor]
"""Per modality name: float32 [r, n, d]."""


Family = Literal[
    "rectified_flow",
    "self_forcing",
    "raven",
    "minimax_h3",
    "flow_map",
    "rcm",
    "sana_sprint",
    "consistency_model",
    "ect",
    "lcm",
    "tcd",
    "trigflow",
]
"""How a network was trained, and so how it is sampled (docs/samplers.md has them all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modality:
    """One kind of token in a chunk. `shift` is the time shift of its schedule, where its family
    (`rectified_flow`: a network that predicts x0 and is told t) has one."""

    name: str
    tokens: int
    dim: int
    shift: float
    family: Family = "rectified_flow"

    @property
    def target_name(self) -> str | None:
        """Under what name a flow map is told the time that its step goes to."""
        return f"{self.name}:to" if self.family == "flow_map" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Clocks, rows and memory of a model. All clocks are integers: frames, samples, chunks."""

    name: str
    modalities: tuple[Modality, ...]
    """In row order (toybox: audio first, then video)."""
    width: int
    height: int
    fps: int
    chunk_frames: int
    sample_rate: int
    """Of the decoded audio, Hz."""
    layers: int
    heads: int
    head_dim: int
    cond_dim: int
    """Width of the pooled prompt vector."""
    prefix_tokens: int
    """Rows of the permanent sink page (text slots and registers)."""
    window_chunks: int
    default_steps: int
    first_chunk_steps: int
    """Steps of the first chunk and of the first chunk after a prompt change."""
    max_steps: int
    kept_chunks: int
    """History that is kept when the prompt changes; 0 starts a new scene."""
    prompt_transition: Literal["cut", "recache"] = "cut"
    """What a prompt change does to that history: keep it as committed under the old prompt, or
    commit the whole window again under the new one."""
    takes_reference: bool = False
    """Whether `encode_media` works: the model has encoders."""
    default_strength: float = 0.6
    """How far from its input a video-to-video stream is made if nobody says (`at_strength`)."""
    context_noise: float
    """Level, on the path of each modality's family, at which a finished chunk is committed."""
    weights: str = field(default="", repr=False)
    """A hash of the weights: what other weights began is not gone on with. No part of what a step
    costs, so not shown either."""

    @property
    def chunk_tokens(self) -> int:
        return sum(m.tokens for m in self.modalities)

    @property
    def time_names(self) -> tuple[str, ...]:
        """What `CausalModel.denoise` is told times by."""
        targets = (m.target_name for m in self.modalities)
        return (*(m.name for m in self.modalities), *(t for t in targets if t is not None))

    @property
    def page_tokens(self) -> int:
        return max(self.chunk_tokens, self.prefix_tokens)

    @property
    def page_slots(self) -> int:
        """Width of a row's page table: the sink, then the window from oldest to newest."""
        return 1 + self.window_chunks

    @property
    def replay_chunks(self) -> int:
        """Newest chunks of a stream that decide the keys and values of its window: in layer n they
        depend on n windows before their own. From these latents, committed one after the other,
        the window gets the very bits that it had."""
        return self.layers * self.window_chunks

    @property
    def chunk_seconds(self) -> float:
        return self.chunk_frames / self.fps

    @property
    def chunk_samples(self) -> int:
        return self.sample_rate * self.chunk_frames // self.fps


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPrompt:
    """One encoded prompt: `pooled` float32 [cond_dim], `slots` float32 [prefix_tokens, width]."""

    pooled: Tensor
    slots: Tensor
    recognised: tuple[str, ...]
    """The words of the prompt that the model understood, in order; empty if none."""
    digest: str = ""
    """SHA-256 of the tensors, by which equal prompts share a page; the engine fills it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedChunks:
    """`frames` uint8 RGB [r, f, height, width, 3]; `audio` int16 mono [r, chunk_samples]."""

    frames: Tensor
    audio: Tensor


class CausalModel(Protocol):
    """What the engine calls. Every call is batched over rows and gives each row the same bits
    whatever its batch mates are (exact mode on CPU)."""

    @property
    def spec(self) -> ModelSpec: ...

    def encode_prompt(self, prompt: str) -> EncodedPrompt: ...

    def prefill_prompt(self, prompts: Sequence[EncodedPrompt], kv: KVPages) -> None:
        """Writes the prefix keys and values of each prompt to `kv.write_pages` (one per prompt)."""

    def denoise(
        self, latents: Latents, times: Mapping[str, Tensor], pooled: Tensor, kv: KVPages
    ) -> dict[str, Tensor]:
        """One forward of r chunks: noisy latents, scaled as the family's network is fed, and
        `times` as it is told them (float32 [r] by `ModelSpec.time_names`) under `pooled`
        [r, cond_dim] -> the network's output (x0 of rectified flow), float32, shapes of `latents`.
        Each row attends
        to its page slots and to itself; rows with `write_pages` >= 0 also store their keys and
        values there (a commit), in every layer before that layer's attention, so that a row may
        list a page that an earlier row of the same forward writes."""

    def encode_media(self, frames: Tensor, sound: Tensor) -> dict[str, Tensor]:
        """One chunk of reference media -> clean latents, per modality float32 [n, d]. frames: uint8
        RGB [f, height, width, 3]; sound: int16 mono [chunk_samples or more], which begins with the
        chunk; what follows it is look-ahead. Any thread. Raises ValueError if the model has no
        encoders (`ModelSpec.takes_reference`)."""

    def new_decoder_state(self) -> Any:
        """State of one stream's streaming decoders; plain tensors, picklable."""

    def skip_chunks(self, state: Any, chunks: int) -> None:
        """Moves a decoder state on as if so many chunks had been decoded; what they looked and
        sounded like is left out, and heard again from the next chunk that is decoded."""

    def decode(self, latents: Latents, states: Sequence[Any]) -> DecodedChunks:
        """Clean latents of r chunks (one per stream) to pictures and sound; states move on."""
