"""Offline generation: whole clips from prompts, without an engine.

What it is: the plain loop of a causal model (denoise a chunk in a few steps, commit it, decode it)
over its own small cache, for samples and measurements. What it is not: scheduling or serving.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from onbeat.kernels.paged_attention import KVPages
from onbeat.models.spec import CausalModel, EncodedPrompt, Latents, ModelSpec
from onbeat.samplers.consistency import latents_of, start_rows
from onbeat.samplers.distill.rules.policy import Walk, roll_out
from onbeat.samplers.sampler import Sampler, shared
from onbeat.samplers.serving import commit_inputs, served_samplers, step_inputs
from onbeat.samplers.state import ChunkState

PromptOf = Callable[[int], Sequence[str]]
"""Chunk number -> the prompt of each row."""


def empty_pages(spec: ModelSpec, rows: int) -> tuple[Tensor, Tensor]:
    """Keys and values of a pool with, per row, one sink, one window, and a page to write to."""
    pages = rows * (spec.page_slots + 1)
    shape = (spec.layers, pages, spec.page_tokens, spec.heads, spec.head_dim)
    return torch.zeros(shape), torch.zeros(shape)


def page_table(spec: ModelSpec, rows: int, chunk: int, since: int = 0) -> Tensor:
    """int64 [rows, page_slots] before chunk `chunk`: row r owns pages r * (slots + 1) on. Chunks
    before `since` are no history any more."""
    slots, window = spec.page_slots, spec.window_chunks
    held = min(chunk - since, window)
    table = torch.full((rows, slots), -1)
    first = torch.arange(rows) * (slots + 1)
    table[:, 0] = first
    for i, past in enumerate(range(chunk - held, chunk)):
        table[:, slots - held + i] = first + chunk_page(spec, past)
    return table


def chunk_page(spec: ModelSpec, chunk: int) -> int:
    """Where a row keeps a chunk, counted from its sink; no chunk that is still read lies there."""
    return 1 + chunk % (spec.window_chunks + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """One chunk of all rows: each step, and the latents and times that were committed."""

    walks: Sequence[Walk]
    committed: tuple[Latents, Latents]

    @property
    def finished(self) -> Sequence[ChunkState]:
        return self.walks[-1].after


def rolled_chunks(
    model: CausalModel,
    prompts: PromptOf,
    seeds: Sequence[int],
    chunks: int,
    steps: int | None = None,
    stochasticity: float = 1.0,
) -> Iterator[Rolled]:
    """Chunk by chunk, rows together, as latents.

    `steps` per chunk; None for the model's own (more for a first chunk and after a new prompt).
    `stochasticity` 1 samples as the model's family does (toybox draws noise anew between steps), 0
    follows the path (Euler).
    """
    spec, rows = model.spec, len(seeds)
    k, v = empty_pages(spec, rows)
    nowhere = torch.full((rows,), -1)
    known: tuple[str, ...] = ()
    encoded: list[EncodedPrompt] = []
    since = 0
    for chunk in range(chunks):
        fresh = tuple(prompts(chunk)) != known
        if fresh:
            since = max(since, chunk - spec.kept_chunks)
        table = page_table(spec, rows, chunk, since)
        if fresh:
            known = tuple(prompts(chunk))
            encoded = [model.encode_prompt(prompt) for prompt in known]
            sink = KVPages(k=k, v=v, page_table=table, write_pages=table[:, 0])
            model.prefill_prompt(encoded, sink)
        own = spec.first_chunk_steps if fresh else spec.default_steps
        samplers = _samplers(spec, steps or own, stochasticity)
        pooled = torch.stack([e.pooled for e in encoded])
        kv = KVPages(k=k, v=v, page_table=table, write_pages=nowhere)
        states = start_rows(spec.modalities, seeds, range(rows), [chunk] * rows, [samplers] * rows)
        walks = roll_out(states, partial(_predict, model, pooled, kv))
        target = table[:, 0] + chunk_page(spec, chunk)
        kv = KVPages(k=k, v=v, page_table=table, write_pages=target)
        committed = commit_inputs(spec.modalities, walks[-1].after, spec.context_noise)
        model.denoise(*committed, pooled, kv)
        yield Rolled(walks=walks, committed=committed)


def _predict(
    model: CausalModel, pooled: Tensor, kv: KVPages, rows: Sequence[ChunkState]
) -> dict[str, Tensor]:
    return model.denoise(*step_inputs(model.spec.modalities, rows), pooled, kv)


def chunks_of(
    model: CausalModel,
    prompts: PromptOf,
    seeds: Sequence[int],
    chunks: int,
    steps: int | None = None,
    stochasticity: float = 1.0,
) -> Iterator[tuple[Tensor, Tensor]]:
    """`rolled_chunks`, decoded: frames uint8 [r, f, h, w, 3], audio int16 [r, n]."""
    decoders = [model.new_decoder_state() for _ in seeds]
    for rolled in rolled_chunks(model, prompts, seeds, chunks, steps, stochasticity):
        decoded = model.decode(latents_of(rolled.finished), decoders)
        yield decoded.frames, decoded.audio


def _samplers(spec: ModelSpec, steps: int, stochasticity: float) -> dict[str, Sampler]:
    made = served_samplers(spec.modalities, steps)
    if stochasticity == 1.0:
        return made
    return {n: shared(replace(s, stochasticity=stochasticity)) for n, s in made.items()}


def generate_many(
    model: CausalModel,
    prompts: PromptOf,
    seeds: Sequence[int],
    chunks: int,
    steps: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Whole clips of `chunks_of`, one per seed: frames [r, f, h, w, 3] and audio [r, n]."""
    frames, audio = zip(*chunks_of(model, prompts, seeds, chunks, steps), strict=True)
    return torch.cat(frames, dim=1), torch.cat(audio, dim=1)


def generate(
    model: CausalModel, prompt: str, seed: int, chunks: int, steps: int | None = None
) -> tuple[Tensor, Tensor]:
    """One clip -> (frames uint8 [f, h, w, 3], audio int16 [n])."""
    frames, audio = generate_many(model, lambda _: [prompt], [seed], chunks, steps)
    return frames[0], audio[0]
