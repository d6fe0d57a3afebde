"""Random scenes of the toy world: who is where, looks how, and sounds when.

What it is: sampling of clips (labels, prompts, tracks, sound events), a pure function of its seed.
What it is not: pixels (render.py) or waveforms. Prompts may change at a chunk boundary; the world
then morphs within MORPH_SECONDS: colours, shapes, sizes, places and backgrounds fade over.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onbeat.models.toybox.concepts import (
    BACKGROUNDS,
    CHUNK_FRAMES,
    CHUNK_SECONDS,
    COLOURS,
    FPS,
    MAX_ACTORS,
    MOTIONS,
    SHAPES,
    SIZES,
    ActorLabel,
    Event,
    SceneLabel,
    is_held_out,
)
from onbeat.models.toybox.physics import Floats, Law, contacts, position
from onbeat.models.toybox.prompts import make_prompt

__all__ = ["ActorLabel", "Event", "SceneBatch", "SceneLabel", "Tracks", "sample_scenes"]

MORPH_SECONDS = 0.6
LOOP_FRAMES = 80
"""Backgrounds repeat after this many frames."""
TWO_ACTORS = 0.4
MOTION_ODDS = (0.36, 0.14, 0.14, 0.17, 0.19)
"""Of MOTIONS; about seven in ten make sounds."""
RADII = {"small": (0.155, 0.175), "big": (0.205, 0.235)}
CHUNKS_PER_CHANGE = 15
"""A long clip may change its prompt once in every so many chunks."""
RGB = {
    "red": (0.95, 0.10, 0.12),
    "orange": (1.00, 0.50, 0.05),
    "yellow": (1.00, 0.92, 0.15),
    "green": (0.15, 0.85, 0.20),
    "cyan": (0.15, 0.90, 0.95),
    "blue": (0.12, 0.25, 1.00),
    "purple": (0.80, 0.20, 0.95),
    "white": (1.00, 1.00, 1.00),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracks:
    """Per frame what the renderer draws, float32; b clips, f frames, a = MAX_ACTORS."""

    x: NDArray[np.float32]
    """[b, f, a] in frame sides, to the right; y down, radius alike."""
    y: NDArray[np.float32]
    radius: NDArray[np.float32]
    opacity: NDArray[np.float32]
    shape: NDArray[np.float32]
    """[b, f, a, 5] weights over SHAPES."""
    rgb: NDArray[np.float32]
    """[b, f, a, 3] in 0..1."""
    background: NDArray[np.float32]
    """[b, f, 8] weights over BACKGROUNDS."""
    phase: NDArray[np.int64]
    """[b] frame of the background's loop at which the clip starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneBatch:
    """`count` clips of the same length; lists are indexed [clip] or [clip][chunk]."""

    prompts: list[list[str]]
    attributes: list[list[SceneLabel]]
    tracks: Tracks
    events: list[list[Event]]
    """Per clip in order of time."""
    ambience: list[list[str]]
    seconds: float

    @property
    def count(self) -> int:
        return len(self.prompts)

    @property
    def chunks(self) -> int:
        return len(self.prompts[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """A stretch of a clip under one prompt; hidden actors keep their law and look."""

    start: float
    label: SceneLabel
    prompt: str
    looks: tuple[ActorLabel, ...]
    laws: tuple[Law, ...]

    @property
    def shown(self) -> int:
        return len(self.label.actors)


def _sample_look(rng: np.random.Generator, taken: Sequence[ActorLabel]) -> ActorLabel:
    colours = [c for c in COLOURS if all(c != a.colour for a in taken)]
    return ActorLabel(
        shape=str(rng.choice(SHAPES)),
        colour=str(rng.choice(colours)),
        motion=str(rng.choice(MOTIONS, p=MOTION_ODDS)),
        size=str(rng.choice(SIZES)),
    )


def _sample_looks(rng: np.random.Generator) -> tuple[ActorLabel, ...]:
    first = _sample_look(rng, ())
    return first, _sample_look(rng, (first,))


def _sample_laws(
    rng: np.random.Generator, looks: Sequence[ActorLabel], shown: int
) -> tuple[Law, ...]:
    """One law per actor; two that orbit face each other, two that rest stand apart."""
    homes = (0.5, 0.68) if shown == 1 else (0.32, 0.68)
    phase = float(rng.random()), float(rng.random())
    side = 1.0 if rng.random() < 0.5 else -1.0
    laws = []
    for i, look in enumerate(looks):
        laws.append(
            Law(
                motion=look.motion,
                size=look.size,
                radius=float(rng.uniform(*RADII[look.size])),
                phase=((phase[0] + 0.5 * i) % 1.0, (phase[1] + 0.37 * i) % 1.0),
                drift=side * float(rng.uniform(0.16, 0.24)),
                home=homes[i],
            )
        )
    return tuple(laws)


def _edit_look(rng: np.random.Generator, look: ActorLabel, other: ActorLabel) -> ActorLabel:
    """`look` with one attribute drawn anew."""
    fresh = _sample_look(rng, (look, other))
    field = str(rng.choice(["colour", "colour", "shape", "motion", "size"]))
    return replace(look, **{field: getattr(fresh, field)})


def _next_laws(
    rng: np.random.Generator, before: _Segment, looks: Sequence[ActorLabel], shown: int
) -> tuple[Law, ...]:
    """Laws after a change: an actor that moves as before keeps its law."""
    fresh = _sample_laws(rng, looks, shown)
    kept = []
    for i, look in enumerate(looks):
        same = look.motion == before.looks[i].motion and look.size == before.looks[i].size
        same = same and shown == before.shown
        kept.append(before.laws[i] if same else fresh[i])
    return tuple(kept)


def _change(rng: np.random.Generator, before: _Segment, start: float, one: bool) -> _Segment:
    """The segment that follows `before`: another background, another actor, or all anew."""
    kind = str(rng.choice(["background", "actor", "actor", "both", "count", "all"]))
    looks, shown, background = before.looks, before.shown, before.label.background
    if kind in ("background", "both", "all"):
        background = str(rng.choice([b for b in BACKGROUNDS if b != background]))
    if kind in ("actor", "both") or (kind == "count" and one):
        i = int(rng.integers(shown))
        edited = _edit_look(rng, looks[i], looks[1 - i])
        looks = (edited, looks[1]) if i == 0 else (looks[0], edited)
    elif kind == "count":
        shown = 3 - shown
    elif kind == "all":
        looks = _sample_looks(rng)
    return _segment(rng, start, background, looks, _next_laws(rng, before, looks, shown), shown)


def _segment(
    rng: np.random.Generator,
    start: float,
    background: str,
    looks: tuple[ActorLabel, ...],
    laws: tuple[Law, ...],
    shown: int,
) -> _Segment:
    label = SceneLabel(background=background, actors=looks[:shown])
    prompt = make_prompt(rng, label)
    return _Segment(start=start, label=label, prompt=prompt, looks=looks, laws=laws)


def _sample_segments(
    rng: np.random.Generator, chunks: int, odds: float, one: bool
) -> list[_Segment]:
    shown = 1 if one or rng.random() >= TWO_ACTORS else 2
    looks = _sample_looks(rng)
    laws = _sample_laws(rng, looks, shown)
    segments = [_segment(rng, 0.0, str(rng.choice(BACKGROUNDS)), looks, laws, shown)]
    for low in range(0, chunks, CHUNKS_PER_CHANGE):
        high = min(low + CHUNKS_PER_CHANGE, chunks)
        if high - max(low, 1) < 1 or rng.random() >= odds:
            continue
        start = int(rng.integers(max(low, 1), high)) * CHUNK_SECONDS
        segments.append(_change(rng, segments[-1], start, one))
    return segments


def _clip_segments(
    rng: np.random.Generator, chunks: int, odds: float, one: bool, held_out: bool
) -> list[_Segment]:
    """Segments of one clip; drawn again while they show what is held out, unless that is wanted."""
    while True:
        segments = _sample_segments(rng, chunks, odds, one)
        if held_out or not any(is_held_out(a) for s in segments for a in s.label.actors):
            return segments


def _morph(values: Sequence[Floats], segments: Sequence[_Segment], t: Floats) -> Floats:
    """One value per segment (broadcast over t, first axis) faded over at the segments' starts."""
    result = np.broadcast_to(values[0], (len(t), *np.shape(values[0])[1:]))
    for value, segment in zip(values[1:], segments[1:], strict=True):
        w = np.clip((t - segment.start + 1.0 / FPS) / MORPH_SECONDS, 0.0, 1.0)
        w = (w * w * (3.0 - 2.0 * w)).reshape(-1, *[1] * (result.ndim - 1))
        result = result + (value - result) * w
    return result


def _one_hot(index: int, length: int) -> Floats:
    row: Floats = np.eye(length)[index][None]
    return row


def _clip_events(segments: Sequence[_Segment], seconds: float) -> list[Event]:
    """Contacts of shown actors; none while an actor is carried from one law to the next."""
    events: list[Event] = []
    ends = [s.start for s in segments[1:]] + [seconds]
    for k, (segment, end) in enumerate(zip(segments, ends, strict=True)):
        for actor in range(segment.shown):
            start = segment.start
            before = segments[k - 1] if k else None
            if before and (before.laws[actor] != segment.laws[actor] or actor >= before.shown):
                start += MORPH_SECONDS
            material = segment.looks[actor].material
            events.extend(contacts(segment.laws[actor], start, end, actor, material))
    return sorted(events, key=lambda e: (e.time, e.actor))


def _clip_tracks(segments: Sequence[_Segment], frames: int) -> dict[str, Floats]:
    """The fields of Tracks for one clip, without its batch axis."""
    t = np.arange(frames) / FPS
    per_actor: dict[str, list[Floats]] = {}
    for actor in range(MAX_ACTORS):
        laws = [s.laws[actor] for s in segments]
        looks = [s.looks[actor] for s in segments]
        places = [position(law, t) for law in laws]
        values: dict[str, list[Floats]] = {
            "x": [p[0] for p in places],
            "y": [p[1] for p in places],
            "radius": [law.radius * p[2] for law, p in zip(laws, places, strict=True)],
            "opacity": [np.array([float(actor < s.shown)]) for s in segments],
            "shape": [_one_hot(SHAPES.index(a.shape), len(SHAPES)) for a in looks],
            "rgb": [np.array([RGB[a.colour]]) for a in looks],
        }
        for name, value in values.items():
            per_actor.setdefault(name, []).append(_morph(value, segments, t))
    tracks = {name: np.stack(value, axis=1) for name, value in per_actor.items()}
    views = [_one_hot(BACKGROUNDS.index(s.label.background), len(BACKGROUNDS)) for s in segments]
    tracks["background"] = _morph(views, segments, t)
    return tracks


def sample_scenes(
    seed: int,
    count: int,
    chunks: int,
    *,
    change_probability: float = 0.3,
    one_object: bool = False,
    held_out: bool = True,
) -> SceneBatch:
    """`count` clips of `chunks` chunks; the same numbers give the same scenes everywhere,
    and clip i starts alike whatever `count` and `chunks` are.

    `change_probability` is the chance of a prompt change in each CHUNKS_PER_CHANGE chunks;
    `held_out`: whether clips may show what training never sees (concepts.is_held_out).
    """
    frames, seconds = chunks * CHUNK_FRAMES, chunks * CHUNK_SECONDS
    rngs = [np.random.Generator(np.random.Philox(key=[seed, i])) for i in range(count)]
    phase = np.array([rng.integers(LOOP_FRAMES) for rng in rngs])
    clips = [_clip_segments(rng, chunks, change_probability, one_object, held_out) for rng in rngs]
    fields = [_clip_tracks(segments, frames) for segments in clips]
    stacked = {k: np.stack([f[k] for f in fields]).astype(np.float32) for k in fields[0]}
    per_chunk = [[_segment_at(s, c) for c in range(chunks)] for s in clips]
    return SceneBatch(
        prompts=[[s.prompt for s in row] for row in per_chunk],
        attributes=[[s.label for s in row] for row in per_chunk],
        tracks=Tracks(**stacked, phase=phase),
        events=[_clip_events(s, seconds) for s in clips],
        ambience=[[s.label.ambience for s in row] for row in per_chunk],
        seconds=seconds,
    )


def _segment_at(segments: Sequence[_Segment], chunk: int) -> _Segment:
    return [s for s in segments if s.start <= chunk * CHUNK_SECONDS + 1e-9][-1]
