"""Sound against picture: events that are seen in a track and events that are heard.

What it is: contacts and pulses by the detector's track, onsets of the sound, and how well the two
agree beside chance. What it is not: onset detection (onsets.py) or generation.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks
from torch import Tensor

from onbeat.models.toybox.concepts import CHUNK_FRAMES, FPS
from onbeat.models.toybox.detector import Detection, detect
from onbeat.models.toybox.onsets import chance_f1, detect_onsets, pooled_score
from onbeat.models.toybox.quality_scenes import said_scenes, true_scenes
from onbeat.models.toybox.render import render
from onbeat.models.toybox.sound import render_audio

Figures = dict[str, float]
Times = list[float]
SOUNDING = ("bounce", "roll", "pulse")


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


def sync_figures(pairs: Sequence[tuple[Times, Times]], seconds: float, prefix: str = "") -> Figures:
    """F1 (50 ms) of (heard, seen) times, median offset in ms (positive: heard late), the F1 of
    sounds shifted round their clip, and of sounds that belong to the next clip."""
    score = pooled_score(pairs)
    shuffled = [(pairs[i - 1][0], seen) for i, (_, seen) in enumerate(pairs)]
    return {
        f"{prefix}event_f1": score.f1,
        f"{prefix}event_f1_shifted": chance_f1(pairs, seconds),
        f"{prefix}event_f1_shuffled": pooled_score(shuffled).f1,
        f"{prefix}event_offset_ms": 1000.0 * score.offset,
    }


def true_sync(seed: int, count: int, chunks: int) -> Figures:
    """The score of true renders under the same instruments: the ceiling of `event_f1`."""
    said = said_scenes(seed, count, held_out=False, motions=SOUNDING)
    batch = true_scenes(said, chunks)
    frames, sounds = render(batch, 0, chunks * CHUNK_FRAMES)[0], render_audio(batch)
    pairs = [
        (heard_events(sound, len(clip)), seen_events(detect(clip), s.motion))
        for clip, sound, s in zip(frames, sounds, said, strict=True)
    ]
    return sync_figures(pairs, chunks * CHUNK_FRAMES / FPS, "true_")
