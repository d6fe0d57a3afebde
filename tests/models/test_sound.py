"""Rendered sound: exact event times, pitches on the grid, quiet ambience, named errors."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from onbeat.models.toybox.concepts import AMBIENCES, MATERIALS, Event
from onbeat.models.toybox.sound import BASE_MIDI, render_audio, semitone_hz


@dataclass(kw_only=True)
class Track:
    events: list[list[Event]]
    ambience: list[list[str]] = field(default_factory=lambda: [["silence"] * 10])
    seconds: float = 2.0


def event(time: float, **changes: object) -> Event:
    values: dict[str, object] = {
        "time": time, "actor": 0, "kind": "strike", "material": "wood", "semitone": 69.0,
        "gain": 0.8,
    }  # fmt: skip
    return Event(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("material", MATERIALS)
def test_strike_begins_at_its_exact_sample(material: str) -> None:
    wave = render_audio(Track(events=[[event(0.5123, material=material)]]))
    assert wave.dtype == torch.float32 and wave.shape == (1, 48_000)
    start = round(0.5123 * 24_000)
    assert wave[0, :start].abs().max() == 0
    assert wave[0, start : start + 60].abs().max() > 0.01


def test_pitch_is_on_the_grid() -> None:
    wave = render_audio(Track(events=[[event(0.0, kind="beep", semitone=71.4)]]))[0]
    spectrum = np.abs(np.fft.rfft(wave[:2_880].numpy(), 48_000))
    found = float(np.argmax(spectrum)) / 2
    assert found == pytest.approx(semitone_hz(71 - BASE_MIDI), abs=1.0)
    assert semitone_hz(69 - BASE_MIDI) == pytest.approx(440)


def test_gain_scales_and_materials_differ() -> None:
    loud, soft = (render_audio(Track(events=[[event(0.1, gain=g)]])) for g in (1.0, 0.5))
    assert float(loud.square().sum() / soft.square().sum()) == pytest.approx(4, rel=0.15)
    seconds = {
        m: float((render_audio(Track(events=[[event(0, material=m)]])).abs() > 0.01).sum()) / 24_000
        for m in MATERIALS
    }
    assert seconds["metal"] > seconds["glass"] > seconds["wood"] > seconds["rubber"]


def test_ambience_is_quiet_follows_its_chunks_and_fades() -> None:
    strike = render_audio(Track(events=[[event(0.1)]])).abs().max()
    for kind in set(AMBIENCES) - {"silence"}:
        track = Track(events=[[]], ambience=[["silence"] * 5 + [kind] * 5])
        wave = render_audio(track)[0]
        assert wave[: 24_000 - 2_400].abs().max() == 0
        level = float(wave[28_000:].square().mean().sqrt())
        assert 0.003 < level < 0.1 * float(strike)
        assert float(wave.diff().abs()[23_900:24_100].max()) < 6 * level


def test_same_batch_same_samples_and_within_range() -> None:
    events = [[event(0.02 * i, material=m, gain=1.0) for i in range(60)] for m in MATERIALS]
    track = Track(events=events, ambience=[["rain"] * 10] * len(MATERIALS))
    first, second = render_audio(track), render_audio(track)
    assert torch.equal(first, second)
    assert float(first.abs().max()) <= 1 and math.isfinite(float(first.sum()))


@pytest.mark.parametrize(
    ("change", "named"),
    [({"kind": "bang"}, "kind: 'bang'"), ({"material": "cheese"}, "material: 'cheese'")],
)
def test_unknown_events_are_named(change: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        render_audio(Track(events=[[event(0.1, **change)]]))


def test_unknown_ambience_is_named() -> None:
    with pytest.raises(ValueError, match="ambience: 'opera'"):
        render_audio(Track(events=[[]], ambience=[["opera"] * 10]))
