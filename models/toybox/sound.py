"""Sound of a toybox scene: events and ambience rendered to a waveform.

What it is: the truth that the audio codec and the model are trained on. A strike is a handful of
decaying partials on the semitone grid plus a short burst of noise, placed at its exact sample; an
ambience is soft, looped band noise. What it is not: a physical model, or code that runs while a
model generates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BASE_HZ = 55.0
"""Pitch of band 0 (A1). Band 95 is 13.3 kHz."""
BASE_MIDI = 33
SEMITONES = 96
CHUNK_SECONDS = 0.2
_LOOP_SECONDS = 16
_STRIKE_LEVEL = 0.45

Wave = npt.NDArray[np.float32]


class SoundEvent(Protocol):
    """One event: `time` in seconds from the clip's start, `gain` 0..1, `semitone` on the MIDI scale
    (rounded to the grid)."""

    @property
    def time(self) -> float: ...
    @property
    def kind(self) -> str: ...
    @property
    def material(self) -> str: ...
    @property
    def semitone(self) -> float: ...
    @property
    def gain(self) -> float: ...


class Soundtrack(Protocol):
    """What is rendered: per clip its events, and per clip and 200 ms chunk its ambience."""

    @property
    def events(self) -> Sequence[Sequence[SoundEvent]]: ...
    @property
    def ambience(self) -> Sequence[Sequence[str]]: ...
    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Timbre of a strike: `partials` = (semitones above the pitch, level); `decay` = time constant
    of the lowest partial in seconds; `burst` = noise at the impact: (low Hz, high Hz, s, level)."""

    partials: tuple[tuple[int, float], ...]
    decay: float
    burst: tuple[float, float, float, float]


MATERIALS = {
    "wood": Material(
        partials=((0, 1.0), (24, 0.35), (40, 0.12)), decay=0.10, burst=(900, 3500, 0.008, 0.5)
    ),
    "metal": Material(
        partials=((0, 1.0), (12, 0.6), (15, 0.45), (19, 0.4), (24, 0.3), (31, 0.2)),
        decay=0.45,
        burst=(3500, 9000, 0.008, 0.3),
    ),
    "glass": Material(
        partials=((12, 1.0), (31, 0.5), (40, 0.35), (48, 0.2)), decay=0.28,
        burst=(6000, 11000, 0.006, 0.3),
    ),
    "rubber": Material(partials=((0, 1.0), (12, 0.2)), decay=0.07, burst=(120, 500, 0.020, 0.4)),
    "drum": Material(
        partials=((-12, 1.0), (-4, 0.5), (1, 0.35), (5, 0.2)), decay=0.13,
        burst=(150, 2500, 0.045, 0.6),
    ),
}  # fmt: skip

AMBIENCES: dict[str, tuple[tuple[float, float, float], ...]] = {
    "silence": (),
    "sea": ((60, 400, 0.012), (400, 1800, 0.008)),
    "rain": ((1500, 5000, 0.006), (5000, 11000, 0.010)),
    "wind": ((80, 300, 0.010), (300, 900, 0.012)),
}
"""Per kind: noise bands (low Hz, high Hz, rms)."""


def semitone_hz(semitone: float) -> float:
    """Frequency of a semitone counted from 55 Hz, Hz."""
    return float(BASE_HZ * 2 ** (semitone / 12))


def band_noise(
    samples: int, low: float, high: float, *, rate: int, rng: np.random.Generator
) -> Wave:
    """Circular noise of unit rms between `low` and `high` Hz: float32 [samples]."""
    hz = np.fft.rfftfreq(samples, 1 / rate)
    inside = (hz >= low) & (hz < min(high, rate / 2))
    assert inside.any(), (samples, low, high, rate)
    spectrum = rng.standard_normal(hz.size) + 1j * rng.standard_normal(hz.size)
    wave = np.fft.irfft(spectrum * inside, samples)
    return np.asarray(wave / np.sqrt(np.mean(wave**2)), dtype=np.float32)


@lru_cache(maxsize=1024)
def strike_waves(material: str, semitone: int, rate: int) -> tuple[Wave, Wave]:
    """Body and impact burst of a strike of gain 1, each float32 [samples]."""
    if material not in MATERIALS:
        raise ValueError(f"material: {material!r} is not one of {sorted(MATERIALS)}")
    m = MATERIALS[material]
    t = np.arange(int(min(6 * m.decay, 2.0) * rate)) / rate
    body = np.zeros(t.size)
    for offset, level in m.partials:
        band = semitone + offset
        if 0 <= band < SEMITONES and semitone_hz(band) < 0.47 * rate:
            tau = m.decay * 2 ** (-max(offset, 0) / 36)
            body += level * np.exp(-t / tau) * np.sin(2 * np.pi * semitone_hz(band) * t)
    body *= _STRIKE_LEVEL / sum(level for _, level in m.partials)
    body *= np.minimum(1, t / 0.001)
    body[-rate // 50 :] *= np.linspace(1, 0, rate // 50)
    low, high, tau, level = m.burst
    burst_t = np.arange(int(5 * tau * rate)) / rate
    rng = np.random.default_rng([semitone, len(material)])
    noise = band_noise(burst_t.size, low, high, rate=rate, rng=rng)
    burst = 0.15 * level * noise * np.exp(-burst_t / tau)
    return body.astype(np.float32), burst.astype(np.float32)


@lru_cache(maxsize=128)
def beep_wave(semitone: int, rate: int) -> Wave:
    """A soft tone of 120 ms and gain 1: float32 [samples]."""
    t = np.arange(int(0.12 * rate)) / rate
    shape = np.minimum(1, t / 0.008) * np.cos(np.pi / 2 * t / t[-1]) ** 2
    tone = np.sin(2 * np.pi * semitone_hz(semitone) * t)
    if semitone + 12 < SEMITONES:
        tone += 0.2 * np.sin(2 * np.pi * semitone_hz(semitone + 12) * t)
    return np.asarray(0.25 * shape * tone, dtype=np.float32)


@lru_cache(maxsize=16)
def ambience_loop(kind: str, rate: int) -> Wave:
    """Sixteen seconds of one ambience, circular: float32 [samples]."""
    if kind not in AMBIENCES:
        raise ValueError(f"ambience: {kind!r} is not one of {sorted(AMBIENCES)}")
    rng = np.random.default_rng(sorted(AMBIENCES).index(kind))
    wave = np.zeros(_LOOP_SECONDS * rate, dtype=np.float32)
    for low, high, rms in AMBIENCES[kind]:
        wave += rms * band_noise(wave.size, low, high, rate=rate, rng=rng)
    return wave


def add_event(out: Wave, event: SoundEvent, rate: int) -> None:
    """Adds one event to a clip [samples]; what lies outside the clip is cut off."""
    semitone = int(np.clip(round(event.semitone) - BASE_MIDI, 0, SEMITONES - 1))
    if event.kind == "beep":
        _add(out, event, rate, event.gain * beep_wave(semitone, rate))
    elif event.kind == "strike":
        body, burst = strike_waves(event.material, semitone, rate)
        _add(out, event, rate, event.gain * body)
        _add(out, event, rate, event.gain * (0.4 + 0.6 * event.gain) * burst)
    else:
        raise ValueError(f"kind: {event.kind!r} is not one of ['beep', 'strike']")


def _add(out: Wave, event: SoundEvent, rate: int, wave: Wave) -> None:
    start = round(event.time * rate)
    first, last = max(start, 0), min(start + wave.size, out.size)
    if first < last:
        out[first:last] += wave[first - start : last - start]


def ambience_wave(kinds: Sequence[str], samples: int, *, rate: int, offset: int) -> Wave:
    """Ambience of one clip, kinds cross-faded over 100 ms: float32 [samples]. The last kind lasts
    to the end of the clip."""
    out = np.zeros(samples, dtype=np.float32)
    per_chunk, fade = round(CHUNK_SECONDS * rate), round(0.1 * rate)
    ramp = np.ones(fade, dtype=np.float32) / fade
    for kind in sorted(set(kinds) - {"silence"}):
        on = np.repeat(np.array([k == kind for k in kinds], dtype=np.float32), per_chunk)
        on = np.pad(on, (0, max(0, samples - on.size)), mode="edge")[:samples]
        if not on.all():
            padded = np.concatenate([np.full(fade - 1, on[0], np.float32), on])
            total = np.cumsum(padded, dtype=np.float64)
            total = np.concatenate([[0.0], total])
            on = ((total[fade:] - total[:-fade]) * ramp[0]).astype(np.float32)
        loop = ambience_loop(kind, rate)
        index = (offset + np.arange(samples)) % loop.size
        out += np.sqrt(on) * loop[index]
    return out


def render_audio(batch: Soundtrack, *, rate: int = 24_000) -> Tensor:
    """Waveforms of a batch of clips: float32 [b, samples], samples = seconds * rate, within +-1.

    The same batch always gives the same samples. Raises ValueError for an unknown event kind,
    material or ambience.
    """
    samples = round(batch.seconds * rate)
    out = np.zeros((len(batch.events), samples), dtype=np.float32)
    for row, (events, kinds) in enumerate(zip(batch.events, batch.ambience, strict=True)):
        if kinds:
            offset = (row * 50_021 + len(events) * 9_973) % (_LOOP_SECONDS * rate)
            out[row] = ambience_wave(kinds, samples, rate=rate, offset=offset)
        for event in events:
            add_event(out[row], event, rate)
    return torch.from_numpy(np.clip(out, -1, 1))
