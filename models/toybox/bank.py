"""The tone and noise bank: waveforms to band amplitudes and back.

What it is: fixed signal maths without a learned weight. Analysis: 24 kHz sound to the amplitudes
of 96 semitone bands and 16 noise bands per 10 ms hop. Synthesis: amplitudes to 48 kHz sound by
oscillators with carried integer phases and counter-indexed noise grains, a hop per row of one
matrix product. What it is not: a compressor (see audio_codec).

Timing: the amplitudes of hop h hold at its end, (h + 1) * 10 ms; synthesis ramps to them during the
hop. Analysis windows begin at the hop's start and reach at most 90 ms past its end (look-ahead).
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from onbeat.models.toybox.sound import SEMITONES, band_noise, semitone_hz

RATE = 24_000
"""Of analysed sound, Hz."""
OUT_RATE = 48_000
"""Of synthesised sound, Hz."""
HOPS_PER_SECOND = 100
HOP = RATE // HOPS_PER_SECOND
OUT_HOP = OUT_RATE // HOPS_PER_SECOND
TONES = SEMITONES
NOISES = 16
BANDS = TONES + NOISES
LOOK_AHEAD = 2_160
"""Samples at 24 kHz past a hop's end that its analysis may see."""

_SHORT = 2 * HOP
_LONG = HOP + LOOK_AHEAD
_HEARD = 93  # bands below the Nyquist frequency of 24 kHz
_GROUP = TONES // NOISES
_FLOOR = 1e-4
_LOG_SPAN = float(np.log1p(1 / _FLOOR))
_GRAINS = 8
_SIGN_PERIOD = 4_096
_PHASE_BITS = 32


def to_log(amplitude: Tensor) -> Tensor:
    """Amplitude 0..1 to level 0..1 (0 = silence, exactly); any shape."""
    return torch.log1p(amplitude / _FLOOR) / _LOG_SPAN


def from_log(level: Tensor) -> Tensor:
    """The inverse of `to_log`; negative levels are silence."""
    return _FLOOR * torch.expm1(level.clamp(0, 1.1) * _LOG_SPAN)


@lru_cache(maxsize=1)
def _half_band() -> Tensor:
    """A windowed sinc [1, 1, 63] that passes the lower half of the spectrum, of sum 1."""
    at = np.arange(-31, 32)
    taps = np.sinc(at / 2) * np.hanning(65)[1:-1]
    return torch.from_numpy((taps / taps.sum()).astype(np.float32))[None, None]


def analysed_rate(wave: Tensor) -> Tensor:
    """Sound [b, n] at `OUT_RATE` -> [b, n // 2] at `RATE`; silence beyond its ends."""
    taps = _half_band()
    return F.conv1d(wave[:, None], taps, stride=2, padding=31)[:, 0, : wave.shape[1] // 2]


def window_length(band: int) -> int:
    """Length of a band's analysis window in samples: 20 periods, within 20 and 100 ms."""
    return int(np.clip(round(20 * RATE / semitone_hz(band)), _SHORT, _LONG))


@lru_cache(maxsize=1)
def _kernels() -> tuple[int, Tensor, Tensor, Tensor]:
    """(first band of short windows, long kernels [2400, 2 * n], short kernels [480, 2 * m],
    response of each band to white noise of unit variance [96])."""
    split = next(b for b in range(TONES) if window_length(b) == _SHORT)
    kernels, response = np.zeros((_LONG, TONES), dtype=np.complex128), np.ones(TONES)
    for band in range(_HEARD):
        n = window_length(band)
        w = np.hanning(n + 1)[:n]
        turns = semitone_hz(band) / RATE * np.arange(n)
        kernels[:n, band] = 2 * w / w.sum() * np.exp(-2j * np.pi * turns)
        response[band] = np.sum(np.abs(kernels[:, band]) ** 2)
    low, high = kernels[:, :split], kernels[:_SHORT, split:]

    def flat(k: npt.NDArray[np.complex128]) -> Tensor:
        return torch.from_numpy(np.concatenate([k.real, k.imag], 1).astype(np.float32))

    return split, flat(low), flat(high), torch.from_numpy(response.astype(np.float32))


@lru_cache(maxsize=1)
def _gate_weights() -> Tensor:
    """Weights of the hops inside each long window: [96, 1, 10], rows sum to 1."""
    weights = np.zeros((TONES, 1, _LONG // HOP), dtype=np.float32)
    for band in range(TONES):
        n = window_length(band)
        hops = max(1, n // HOP - 1)
        at = (np.arange(hops) + 1) * HOP / n
        weights[band, 0, :hops] = np.sin(np.pi * at) ** 2 + 1e-3
        weights[band] /= weights[band].sum()
    return torch.from_numpy(weights)


@lru_cache(maxsize=1)
def _octaves() -> tuple[Tensor, Tensor]:
    """(short window [480], octave sums of its power spectrum [241, 8])."""
    hz = np.fft.rfftfreq(_SHORT, 1 / RATE)
    octave = np.floor(np.log2(np.maximum(hz, 1) / semitone_hz(-0.5))).clip(0, 7).astype(int)
    sums = np.eye(8, dtype=np.float32)[octave] * (hz > 30)[:, None]
    window = np.hanning(_SHORT + 1)[:_SHORT].astype(np.float32)
    return torch.from_numpy(window), torch.from_numpy(sums.astype(np.float32))


def _gate(frames: Tensor) -> Tensor:
    """Power now over the power that each band's long window saw: [b, hops, 96]. It sharpens in time
    what the long windows smear."""
    window, sums = _octaves()
    power = torch.fft.rfft(frames[..., :_SHORT] * window).abs().square() @ sums
    level = power.sqrt().repeat_interleave(12, -1).mT + 1e-6
    hops = _LONG // HOP
    seen = F.conv1d(F.pad(level, (0, hops - 1)), _gate_weights(), groups=TONES)
    gate: Tensor = (level / seen).square().clamp(max=10)
    return gate.mT


def _noise_floor(density: Tensor) -> Tensor:
    """Robust noise density around each band: [..., 96] -> [..., 96]. Starts from the geometric mean
    of 21 neighbours and averages again over those below three times the last mean, so that tones
    drop out; 0.66 undoes the bias on an exponential law."""
    heard = density[..., :_HEARD].flatten(0, -2).unsqueeze(1)

    def mean(x: Tensor) -> Tensor:
        return F.avg_pool1d(x, 21, 1, 10, count_include_pad=False)

    floor = mean((heard + 1e-14).log()).exp()
    for _ in range(3):
        keep = (heard < 3 * floor).float()
        floor = mean(heard * keep) / mean(keep).clamp(min=1 / 21)
    return F.pad(floor.view(*density.shape[:-1], _HEARD) / 0.66, (0, TONES - _HEARD))


def _peaks(power: Tensor, floor: Tensor) -> Tensor:
    """Power of the bands that are tones: local maxima, well over the noise and over sidelobes."""
    flat = power.flatten(0, -2).unsqueeze(1)
    near = F.max_pool1d(flat, 3, 1, 1).view(power.shape)
    wide = F.max_pool1d(flat, 15, 1, 7).view(power.shape)
    keep = (power >= near) & (power > 20 * floor) & (power > 10**-2.6 * wide) & (power > 1e-8)
    return power * keep


def analyse(wave: Tensor) -> Tensor:
    """Sound float32 [b, samples at 24 kHz] to levels (`to_log`) [b, hops, 112], tones first; hops =
    samples // 240. Past its end the sound counts as silence: the last 90 ms are less exact."""
    hops = wave.shape[-1] // HOP
    frames = F.pad(wave[..., : hops * HOP], (0, LOOK_AHEAD)).unfold(-1, _LONG, HOP)
    split, low, high, response = _kernels()
    parts = []
    for kernel in (low, high):
        re, im = (frames[..., : kernel.shape[0]] @ kernel).chunk(2, -1)
        parts.append(re.square() + im.square())
    power = torch.cat(parts, -1) * _gate(frames)
    floor = _noise_floor(power / response)
    tones = _peaks(power, floor * response).sqrt()
    shares = (floor * _band_share()).view(*floor.shape[:-1], NOISES, _GROUP)
    noise = shares.sum(-1).sqrt()
    return to_log(torch.cat([tones, noise], -1))


@lru_cache(maxsize=1)
def _band_share() -> Tensor:
    """Share of the spectrum up to Nyquist that each semitone covers: [96]."""
    edges = np.array([semitone_hz(b - 0.5) for b in range(TONES + 1)])
    return torch.from_numpy((np.diff(edges) / (RATE / 2)).astype(np.float32))


@lru_cache(maxsize=1)
def phase_steps() -> Tensor:
    """Phase of each oscillator per hop, in 2^-32 turns modulo one turn: int64 [96]."""
    turns = [semitone_hz(b) / HOPS_PER_SECOND for b in range(TONES)]
    return torch.tensor([round(t * 2**_PHASE_BITS) % 2**_PHASE_BITS for t in turns])


def first_phases() -> Tensor:
    """Phases of a new stream, spread by the golden ratio: int64 [96]."""
    golden = round((5**0.5 - 1) / 2 * 2**_PHASE_BITS)
    spread: Tensor = torch.arange(TONES) * golden
    return spread.remainder(2**_PHASE_BITS)


def advance_phases(phases: Tensor, hops: int) -> Tensor:
    """Phases after `hops` more hops: int64 [96]."""
    return (phases + hops * phase_steps()).remainder(2**_PHASE_BITS)


@lru_cache(maxsize=1)
def synthesis_basis() -> Tensor:
    """Waveforms of one hop: float32 [640, 480]: 96 cosines and 96 sines falling to zero, the same
    rising from zero, then 128 noise grains arriving and the same 128 leaving."""
    u = np.arange(OUT_HOP) / OUT_HOP
    angle = 2 * np.pi * np.outer([semitone_hz(b) for b in range(TONES)], np.arange(OUT_HOP))
    tones = np.concatenate([np.cos(angle / OUT_RATE), np.sin(angle / OUT_RATE)])
    grains = np.concatenate([_grains(band) for band in range(NOISES)])
    arriving, leaving = grains[:, :OUT_HOP], grains[:, OUT_HOP:]
    basis = np.concatenate([tones * (1 - u), tones * u, arriving, leaving])
    return torch.from_numpy(basis.astype(np.float32))


def _grains(band: int) -> npt.NDArray[np.float64]:
    """Grains of one noise band under a power-complementary window: [8, 960]."""
    rng = np.random.default_rng(1_000 + band)
    low, high = semitone_hz(band * _GROUP - 0.5), semitone_hz((band + 1) * _GROUP - 0.5)
    loop = band_noise(2 * OUT_HOP * 64, low, high, rate=OUT_RATE, rng=rng).reshape(64, -1)
    window = np.sin(np.pi * (np.arange(2 * OUT_HOP) + 0.5) / (2 * OUT_HOP))
    return np.asarray(loop[:: 64 // _GRAINS] * window / _GRAINS**0.5)


@lru_cache(maxsize=1)
def _signs() -> Tensor:
    """Signs of the grains per hop: float32 [4096, 16, 8]; they repeat after 41 s."""
    bits = np.random.default_rng(7).integers(0, 2, (_SIGN_PERIOD, NOISES, _GRAINS))
    return torch.from_numpy((bits * 2 - 1).astype(np.float32))


def synthesise(levels: Tensor, last: Tensor, phases: Tensor, hop: int) -> Tensor:
    """Sound of `n` hops of one stream: levels [n, 112] -> float32 [n * 480] at 48 kHz.

    `last` [112] are the levels before the first hop, `phases` int64 [96] the oscillators at its
    start, `hop` its number in the stream (it picks the noise). The caller then takes
    `advance_phases`. Bits depend on these and on n alone.
    """
    n = levels.shape[0]
    amplitude = from_log(torch.cat([last[None], levels]))
    before, after = amplitude[:-1, :TONES], amplitude[1:, :TONES]
    turns = (phases + torch.arange(n)[:, None] * phase_steps()).remainder(2**_PHASE_BITS)
    angle = turns.double() * (2 * np.pi / 2**_PHASE_BITS)
    sin, cos = angle.sin().float(), angle.cos().float()
    signs = _signs()[(hop - 1 + torch.arange(n + 1)) % _SIGN_PERIOD]
    noise = (amplitude[:, TONES:, None] * signs).flatten(1)
    rows = [before * sin, before * cos, after * sin, after * cos, noise[1:], noise[:-1]]
    return (torch.cat(rows, 1) @ synthesis_basis()).flatten()
