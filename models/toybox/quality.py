"""How good the toybox model is, in figures: prompts, motion, drift, sound against picture.

What it is: measurements through one callable that generates clips, read by the detector and set
against true renders, whose own scores are reported beside. What it is not: a gate (callers judge)
or a way to load models.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.signal import find_peaks
from torch import Tensor

from onbeat.models.toybox.concepts import CHUNK_FRAMES, FPS, SceneLabel
from onbeat.models.toybox.detector import Detection, detect
from onbeat.models.toybox.onsets import chance_f1, detect_onsets, pooled_score
from onbeat.models.toybox.prompts import recognise
from onbeat.models.toybox.quality_codec import measure_codec
from onbeat.models.toybox.quality_sheet import Tile, write_sheet
from onbeat.models.toybox.render import render
from onbeat.models.toybox.scenes import SceneBatch, sample_scenes
from onbeat.models.toybox.sound import render_audio
from onbeat.models.toybox.video_codec import VideoCodec

Generate = Callable[[str, int, int, int], tuple[Tensor, Tensor]]
"""(prompt, seed, chunks, steps) -> frames uint8 [f, 128, 128, 3] and mono sound [n], int16 or float
within +-1, of the same length in time."""
Figures = dict[str, float]
Times = list[float]

CHUNKS = 3
"""Length of the clips by which prompts are judged; the last chunk counts."""
LONG_CHUNKS = 150
LONG_CLIPS = 4
SPAN = 100
"""Frames at both ends of a long clip that are compared."""
SOUNDING = ("bounce", "roll", "pulse")


def said_scenes(seed: int, count: int, motions: Sequence[str] = ()) -> list[tuple[str, SceneLabel]]:
    """Prompts of one object that name background, colour and shape, with what they name.
    Only of the given motions, if any are given."""
    batch = sample_scenes(seed, count * 8, 1, change_probability=0.0, one_object=True)
    pairs = [(p[0], a[0]) for p, a in zip(batch.prompts, batch.attributes, strict=True)]

    def fits(prompt: str, label: SceneLabel) -> bool:
        actor, words = label.actors[0], recognise(prompt)
        named = {label.background, actor.colour, actor.shape} <= set(words)
        return named and (not motions or (actor.motion in motions and actor.motion in words))

    return [pair for pair in pairs if fits(*pair)][:count]


def verdict(seen: Detection, label: SceneLabel) -> dict[str, bool]:
    """Which of the label's attributes the frames show."""
    actor = label.actors[0]
    return {
        "background": seen.background == label.background,
        "object": seen.found >= 0.5,
        "colour": seen.colour == actor.colour,
        "shape": seen.shape == actor.shape,
    }


def measure_prompts(
    generate: Generate, prompts: int, seed: int, steps: int, sheet: Path | None = None
) -> Figures:
    """Shares of one-object prompts whose background, object, colour and shape come out right."""
    pairs = said_scenes(seed, prompts)
    right: dict[str, int] = {}
    tiles = []
    for k, (prompt, label) in enumerate(pairs):
        frames, _ = generate(prompt, seed + k, CHUNKS, steps)
        marks = verdict(detect(frames[-CHUNK_FRAMES:]), label)
        for name, ok in marks.items():
            right[name] = right.get(name, 0) + ok
        right["all"] = right.get("all", 0) + all(marks.values())
        tiles.append(Tile(frame=frames[-1], caption=prompt, good=all(marks.values())))
    if sheet is not None:
        write_sheet(tiles, sheet)
    return {f"{name}_right": count / len(pairs) for name, count in right.items()}


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


def measure_drift(clips: Sequence[Tensor], truths: Sequence[Tensor]) -> Figures:
    """Looks of the first and the last SPAN frames as ratios to true renders (1 is perfect)."""
    figures: Figures = {}
    for name in ("brightness", "sharpness", "motion"):
        want = float(np.mean([looks(t)[name] for t in truths]))
        for part, cut in (("first", slice(0, SPAN)), ("last", slice(-SPAN, None))):
            got = float(np.mean([looks(c[cut])[name] for c in clips]))
            figures[f"{name}_{part}"] = got / want
    return figures


def track_steps(seen: Detection) -> tuple[float, float]:
    """Mean length in pixels of the object's steps within chunks, and of those between chunks."""
    steps = np.hypot(*np.diff(seen.centres, axis=0).T)
    seam = np.arange(1, len(steps) + 1) % CHUNK_FRAMES == 0
    return float(np.nanmean(steps[~seam])), float(np.nanmean(steps[seam]))


def _peaks(values: NDArray[np.float64], prominence: float) -> Times:
    """Times of the peaks of a track, in seconds, placed between frames as if they were cusps."""
    times = []
    for i in find_peaks(values, prominence=prominence, distance=4)[0]:
        before, after = values[i] - values[i - 1], values[i + 1] - values[i]
        slope = max(abs(before), abs(after))
        times.append(float(i + (0.5 * (before + after) / slope if slope else 0.0)) / FPS)
    return times


def seen_events(seen: Detection, motion: str) -> Times:
    """When the object of a clip touches something or pulses, by its track alone; seconds."""
    there = np.isfinite(seen.areas)
    if there.mean() < 0.5:
        return []
    t = np.arange(len(there))
    x, y, area = (
        np.interp(t, t[there], v[there])
        for v in (seen.centres[:, 0], seen.centres[:, 1], seen.areas)
    )
    if motion == "pulse":
        return _peaks(area, 0.15 * float(area.mean()))
    walls = _peaks(x, 6.0) + _peaks(-x, 6.0)
    return sorted(walls + (_peaks(y, 8.0) if motion == "bounce" else []))


def heard_events(sound: Tensor, frames: int) -> Times:
    """Onsets of a clip's sound, in seconds; its rate follows from the number of frames."""
    return detect_onsets(sound, round(len(sound) * FPS / frames))


def sync_figures(pairs: Sequence[tuple[Times, Times]], seconds: float, prefix: str) -> Figures:
    """F1 (50 ms) of (heard, seen) times, median offset in ms, and the F1 of shifted sounds."""
    score = pooled_score(pairs)
    return {
        f"{prefix}onset_f1": score.f1,
        f"{prefix}onset_chance": chance_f1(pairs, seconds),
        f"{prefix}onset_offset_ms": 1000.0 * score.offset,
    }


def _true_clips(seed: int, count: int) -> tuple[SceneBatch, Tensor, Tensor]:
    """Long true scenes that sound, their frames and their sound."""
    batch = sample_scenes(seed, count, LONG_CHUNKS, change_probability=0.0, one_object=True)
    frames, _ = render(batch, 0, LONG_CHUNKS * CHUNK_FRAMES)
    return batch, frames, render_audio(batch)


def true_sync(seed: int, count: int = 12) -> Figures:
    """The score of true renders under the same instruments: the ceiling of `onset_f1`."""
    batch, frames, sound = _true_clips(seed, count)
    pairs = []
    for clip, wave, labels in zip(frames, sound, batch.attributes, strict=True):
        motion = labels[0].actors[0].motion
        if motion in SOUNDING:
            pairs.append((heard_events(wave, len(clip)), seen_events(detect(clip), motion)))
    return sync_figures(pairs, LONG_CHUNKS * CHUNK_FRAMES / FPS, "true_")


def _truth_for(label: SceneLabel, seed: int) -> Tensor:
    """A true long clip with the background and motion of a label."""
    for attempt in range(1000):
        batch = sample_scenes(
            seed + attempt, 16, LONG_CHUNKS, change_probability=0.0, one_object=True
        )
        for i, labels in enumerate(batch.attributes):
            same = labels[0].actors[0].motion == label.actors[0].motion
            if same and labels[0].background == label.background:
                return render(batch, 0, 2 * SPAN)[0][i]
    raise AssertionError(label)


def measure_long(generate: Generate, seed: int, steps: int) -> Figures:
    """Long clips: drift, whether the object lasts, its steps, and sound against picture."""
    pairs = said_scenes(seed + 1, LONG_CLIPS, SOUNDING)
    clips, truths, sync, inside, seams, true_inside, lasting = [], [], [], [], [], [], []
    for k, (prompt, label) in enumerate(pairs):
        frames, sound = generate(prompt, seed + k, LONG_CHUNKS, steps)
        truth = _truth_for(label, seed)
        seen, motion = detect(frames), label.actors[0].motion
        sync.append((heard_events(sound, len(frames)), seen_events(seen, motion)))
        a, b = track_steps(seen)
        inside.append(a)
        seams.append(b)
        true_inside.append(track_steps(detect(truth))[0])
        lasting.append(all(verdict(detect(frames[-SPAN:]), label).values()))
        clips.append(frames)
        truths.append(truth)
    return {
        **measure_drift(clips, truths),
        **sync_figures(sync, LONG_CHUNKS * CHUNK_FRAMES / FPS, ""),
        "step_px": float(np.nanmean(inside)),
        "step_px_true": float(np.nanmean(true_inside)),
        "step_px_seam": float(np.nanmean(seams)),
        "last_frames_right": float(np.mean(lasting)),
    }


def print_figures(figures: Mapping[str, float], quiet: bool = False) -> None:
    """A table for people (not when quiet), then one line of JSON for programs."""
    for name, value in () if quiet else figures.items():
        print(f"{name:<24}{value:>10.3f}")
    print(json.dumps({k: round(v, 4) for k, v in figures.items()}))


def run_quality(
    generate: Generate,
    *,
    prompts: int = 100,
    seed: int = 0,
    steps: int = 2,
    sheet: Path | None = None,
    codec: VideoCodec | None = None,
    quiet: bool = False,
) -> Figures:
    """All figures of a generator, with those of its video codec if it is given; prints them (when
    quiet only the JSON line) and, if asked, writes a contact sheet (PNG)."""
    with torch.inference_mode():
        figures = measure_codec(codec) if codec is not None else {}
        figures |= measure_prompts(generate, prompts, seed, steps, sheet)
        figures |= measure_long(generate, seed, steps)
        figures |= true_sync(seed + 2)
    print_figures(figures, quiet)
    return figures
