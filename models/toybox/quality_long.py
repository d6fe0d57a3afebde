"""Long clips: whether they drift, whether their objects last, and sound against picture.

What it is: many streams side by side, read chunk by chunk so that ten thousand frames need no more
memory than two spans. What it is not: a judge of single prompts.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from onbeat.models.toybox.concepts import CHUNK_FRAMES, FPS
from onbeat.models.toybox.detector import Detection, detect
from onbeat.models.toybox.quality_events import (
    SOUNDING,
    Figures,
    heard_events,
    seen_events,
    sync_figures,
    track_steps,
)
from onbeat.models.toybox.quality_frechet import Features, Rows, frechet
from onbeat.models.toybox.quality_scenes import Generate, Said, lives, true_frames

SPAN_CHUNKS = 25
"""Chunks at both ends that are compared: 100 frames."""
EVENT_CHUNKS = 75
"""Of each clip that are searched for events."""


def looks(frames: Tensor) -> Figures:
    """Brightness (0..1), sharpness (variance of the Laplacian of luma, 0..1 scale) and motion (mean
    change between neighbouring frames, 0..1) of uint8 [f, h, w, 3]."""
    luma = frames.float().mean(-1) / 255.0
    middle = luma[:, 1:-1, 1:-1]
    around = luma[:, :-2, 1:-1] + luma[:, 2:, 1:-1] + luma[:, 1:-1, :-2] + luma[:, 1:-1, 2:]
    return {
        "brightness": float(luma.mean()),
        "sharpness": float((around - 4.0 * middle).var()),
        "motion": float((luma[1:] - luma[:-1]).abs().mean()),
    }


def mean_looks(clips: Tensor) -> Figures:
    """The mean of `looks` over clips [s, f, h, w, 3]."""
    each = [looks(clip) for clip in clips]
    return {name: float(np.mean([e[name] for e in each])) for name in each[0]}


@dataclass(slots=True, kw_only=True)
class _Read:
    """What is kept of the streams while they grow."""

    said: Sequence[Said]
    last: deque[Tensor] = field(default_factory=lambda: deque(maxlen=SPAN_CHUNKS))
    """The last chunks' frames, each [s, 4, h, w, 3]."""
    tracks: list[list[Detection]] = field(default_factory=list)
    sound: list[Tensor] = field(default_factory=list)
    alive: list[float] = field(default_factory=list)
    """Share of streams that live at the end of each span."""
    spans: dict[int, Tensor] = field(default_factory=dict)
    """By frame number at its end: [s, 100, h, w, 3]."""

    def add(self, chunk: int, frames: Tensor, sound: Tensor, ends: Sequence[int]) -> None:
        end, whole = chunk + 1, (chunk + 1) % SPAN_CHUNKS == 0
        self.last.append(frames)
        if chunk < EVENT_CHUNKS or whole:
            seen = [detect(clip) for clip in frames]
        if chunk < EVENT_CHUNKS:
            self.tracks.append(seen)
            self.sound.append(sound)
        if whole:
            pairs = zip(seen, self.said, strict=True)
            self.alive.append(float(np.mean([lives(d, s.label) for d, s in pairs])))
        if end in ends:
            self.spans[end * CHUNK_FRAMES] = torch.cat(list(self.last), dim=1)

    def track(self, stream: int) -> Detection:
        """One stream's detections joined."""
        parts = [row[stream] for row in self.tracks]
        first = parts[0]
        return Detection(
            background=first.background,
            background_margin=first.background_margin,
            found=float(np.mean([p.found for p in parts])),
            colour=first.colour,
            shape=first.shape,
            centres=np.concatenate([p.centres for p in parts]),
            areas=np.concatenate([p.areas for p in parts]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LongReading:
    """`figures`, and the share of streams that live after every 100 frames."""

    figures: Figures
    survival: list[float]


def measure_long(
    generate: Generate,
    features: Features,
    said: Sequence[Said],
    *,
    chunks: int,
    seed: int,
    steps: int,
    marks: Sequence[int],
) -> LongReading:
    """One stream of `chunks` for each scene. `marks`: frame numbers at which drift is read, beside
    the first 100."""
    ends = {SPAN_CHUNKS, *(m // CHUNK_FRAMES for m in marks)}
    read = _Read(said=said)
    prompts = [s.prompt for s in said]
    seeds = range(seed, seed + len(said))
    for chunk, (frames, sound) in enumerate(generate(lambda _: prompts, seeds, chunks, steps)):
        read.add(chunk, frames, sound, sorted(ends))
    truth = true_frames(said, SPAN_CHUNKS)
    figures = _drift(read.spans, truth, features, marks)
    for mark in marks:
        figures[f"survival_{mark}"] = read.alive[mark // (SPAN_CHUNKS * CHUNK_FRAMES) - 1]
    figures |= _sync(read, said, chunks) | _steps(read, said, truth)
    return LongReading(figures=figures, survival=read.alive)


def _drift(
    spans: dict[int, Tensor], truth: Tensor, features: Features, marks: Sequence[int]
) -> Figures:
    """Looks of spans over those of true renders, and Frechet distances of later ones over the
    first's."""
    real, want = features.windows(truth), mean_looks(truth)
    rows: dict[int, Rows] = {at: features.windows(span) for at, span in spans.items()}
    first = frechet(rows[SPAN_CHUNKS * CHUNK_FRAMES], real)
    figures = {"first_100_frechet": first}
    for at in sorted({SPAN_CHUNKS * CHUNK_FRAMES, *marks}):
        got = mean_looks(spans[at])
        figures |= {f"{name}_{at}": got[name] / want[name] for name in want}
    for at in marks:
        figures[f"drift_ratio_{at}"] = frechet(rows[at], real) / first
    return figures


def _sync(read: _Read, said: Sequence[Said], chunks: int) -> Figures:
    heard = torch.cat(read.sound, dim=1)
    pairs = []
    for i, s in enumerate(said):
        track = read.track(i)
        if s.motion in SOUNDING:
            pairs.append((heard_events(heard[i], len(track.areas)), seen_events(track, s.motion)))
    seconds = min(chunks, EVENT_CHUNKS) * CHUNK_FRAMES / FPS
    return sync_figures(pairs, seconds)


def _steps(read: _Read, said: Sequence[Said], truth: Tensor) -> Figures:
    """Steps of the objects in pixels, within chunks and over their seams, and true ones."""
    steps = [track_steps(read.track(i)) for i in range(len(said))]
    true = [track_steps(detect(clip[: 8 * CHUNK_FRAMES]))[0] for clip in truth]
    return {
        "step_px": float(np.nanmean([s[0] for s in steps])),
        "step_px_seam": float(np.nanmean([s[1] for s in steps])),
        "step_px_true": float(np.nanmean(true)),
    }
