"""The concepts of the toy world: names and the labels of a scene.

What it is: the closed lists that prompts, scenes, renderer and detector share, and the labels that
say what a clip shows. What it is not: wording (prompts.py), motion (physics.py) or pixels.
"""

from dataclasses import dataclass
from typing import Literal

FPS = 20
CHUNK_FRAMES = 4
CHUNK_SECONDS = CHUNK_FRAMES / FPS
SIZE = 128
"""Pixels of a frame's side."""
MAX_ACTORS = 2

SHAPES = ("ball", "ring", "star", "square", "heart")
COLOURS = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "white")
BACKGROUNDS = ("stars", "sunset", "sea", "meadow", "desert", "snow", "city", "rain")
MOTIONS = ("bounce", "float", "orbit", "roll", "pulse")
SIZES = ("small", "big")
MATERIALS = ("rubber", "metal", "glass", "wood", "drum")
"""By shape: what an actor sounds like follows from how it looks."""
AMBIENCES = ("silence", "sea", "wind", "rain")
AMBIENCE_OF = {
    "stars": "silence",
    "sunset": "silence",
    "sea": "sea",
    "meadow": "wind",
    "desert": "wind",
    "snow": "wind",
    "city": "silence",
    "rain": "rain",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One sound. `time` in seconds from the clip's start (exact, between frames), `semitone` on the
    MIDI scale (lower for larger actors), `gain` 0..1."""

    time: float
    actor: int
    kind: Literal["strike", "beep"]
    material: str
    semitone: float
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorLabel:
    """What one actor looks like and does."""

    shape: str
    colour: str
    motion: str
    size: str

    @property
    def material(self) -> str:
        return MATERIALS[SHAPES.index(self.shape)]


HELD_OUT_EVERY = 10


def is_held_out(actor: ActorLabel) -> bool:
    """Whether no training clip shows this shape in this colour with this motion: 22 of the 200
    triples, spread so that every two attributes are still seen together."""
    place = (
        SHAPES.index(actor.shape)
        + 3 * COLOURS.index(actor.colour)
        + 2 * len(SHAPES) * MOTIONS.index(actor.motion)
        + 7 * MOTIONS.index(actor.motion)
    )
    return place % HELD_OUT_EVERY == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneLabel:
    """What a chunk shows: a background and one or two actors."""

    background: str
    actors: tuple[ActorLabel, ...]

    @property
    def ambience(self) -> str:
        return AMBIENCE_OF[self.background]
