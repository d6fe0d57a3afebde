"""Onsets: when something in a sound begins, and how well that matches known events.

What it is: a band-energy-flux detector and its scores, used to measure the codec and the model.
What it is not: part of generation, or of any engine path.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor

HOP_SECONDS = 0.005
WINDOW_SECONDS = 0.02
MIN_GAP = 0.05
"""Seconds between two onsets that can be told apart."""
_BANDS = 24
_FLOOR = 3e-3
_NEIGHBOURS = 10
_LAG = 3
_PAST = 8
_SENSITIVITY = 0.09


@dataclass(frozen=True, slots=True, kw_only=True)
class OnsetScore:
    """`f1`, `precision` and `recall` in 0..1; `offset` = median of found minus true time in seconds
    over the matches (0 without a match)."""

    f1: float
    precision: float
    recall: float
    offset: float


def onset_strength(wave: Tensor, rate: int) -> Tensor:
    """Rise of compressed band amplitudes per 5 ms hop: float32 [samples] -> [hops].

    Counted over the strongest recent one nearby in time and pitch (Boeck and Widmer's SuperFlux,
    2013), so that noise, which wavers, does not count.
    """
    hop, size = round(HOP_SECONDS * rate), round(WINDOW_SECONDS * rate)
    padded = F.pad(wave.float(), (size // 2, size // 2))
    window = torch.hann_window(size)
    spectra = torch.fft.rfft(padded.unfold(0, size, hop) * window).abs() / (window.sum() / 2)
    hz = torch.fft.rfftfreq(size, 1 / rate)
    edges = torch.logspace(2, 4.04, _BANDS + 1)
    inside = (hz >= edges[:-1, None]) & (hz < edges[1:, None])
    bands = (spectra.square() @ inside.float().T).sqrt()
    level = torch.log1p(bands / _FLOOR)
    before = F.max_pool2d(level[None], (_PAST, 3), 1, (0, 1))[0, :-_LAG]
    rise = (level[_PAST + _LAG - 1 :] - before).clamp(min=0).mean(1)
    return F.pad(rise, (_PAST + _LAG - 1, 0))


def detect_onsets(wave: Tensor, rate: int) -> list[float]:
    """Onset times in seconds, ascending, of a sound [samples]: int16, or float within +-1."""
    if not wave.is_floating_point():
        wave = wave.float() / 32_768
    strength = onset_strength(wave, rate)
    around = F.avg_pool1d(strength[None, None], 2 * _NEIGHBOURS + 1, 1, _NEIGHBOURS)[0, 0]
    highest = F.max_pool1d(strength[None, None], 7, 1, 3)[0, 0]
    hits = (strength == highest) & (strength > _SENSITIVITY + 1.5 * around)
    times: list[float] = []
    for hop in hits.nonzero().flatten().tolist():
        time = max(0.0, (hop - 0.6) * HOP_SECONDS)
        if not times or time - times[-1] >= MIN_GAP:
            times.append(time)
    return times


def distinct_times(times: Sequence[float], gap: float = MIN_GAP) -> list[float]:
    """Times in order without those less than `gap` seconds after the last one kept: what an ear, or
    a detector, can tell apart."""
    kept: list[float] = []
    for time in sorted(times):
        if not kept or time - kept[-1] >= gap:
            kept.append(time)
    return kept


def match_events(found: Sequence[float], truth: Sequence[float], tolerance: float) -> list[float]:
    """Found minus true time of each pair of a one-to-one match within `tolerance` (in order)."""
    offsets: list[float] = []
    found, truth = sorted(found), sorted(truth)
    i = j = 0
    while i < len(found) and j < len(truth):
        offset = found[i] - truth[j]
        if abs(offset) <= tolerance:
            offsets.append(offset)
            i, j = i + 1, j + 1
        elif offset < 0:
            i += 1
        else:
            j += 1
    return offsets


def pooled_score(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], tolerance: float = 0.05
) -> OnsetScore:
    """Score of many clips together; each pair is (found, truth) times in seconds."""
    offsets = [o for found, truth in pairs for o in match_events(found, truth, tolerance)]
    n_found, n_truth = sum(len(f) for f, _ in pairs), sum(len(t) for _, t in pairs)
    if n_found + n_truth == 0:
        return OnsetScore(f1=1.0, precision=1.0, recall=1.0, offset=0.0)
    return OnsetScore(
        f1=2 * len(offsets) / (n_found + n_truth),
        precision=len(offsets) / n_found if n_found else 1.0,
        recall=len(offsets) / n_truth if n_truth else 1.0,
        offset=median(offsets) if offsets else 0.0,
    )


def event_f1(
    found: Sequence[float], truth: Sequence[float], tolerance: float = 0.05
) -> tuple[float, float]:
    """(F1, signed median offset in seconds; positive = found late) of one clip."""
    score = pooled_score([(found, truth)], tolerance)
    return score.f1, score.offset


def chance_f1(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]],
    seconds: float,
    *,
    tolerance: float = 0.05,
    shifts: int = 7,
) -> float:
    """Mean F1 after shifting the found times round the clip by even parts of its length: what the
    density of events alone would score."""
    scores = []
    for k in range(1, shifts + 1):
        shift = seconds * k / (shifts + 1)
        moved = [([(t + shift) % seconds for t in found], truth) for found, truth in pairs]
        scores.append(pooled_score(moved, tolerance).f1)
    return sum(scores) / len(scores)
