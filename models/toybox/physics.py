"""How actors move and when they touch: closed-form laws of motion of the toy world.

What it is: for each motion a position at any time and the exact times of its contacts, in units of
the frame's side (x to the right, y down) and seconds. The motions are elastic and never run down,
so a clip can be cut anywhere and a picture says nearly all about the next one. What it is not:
drawing, or the choice of who moves how.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onbeat.models.toybox.concepts import Event

Floats = NDArray[np.float64]

FLOOR = 0.96
GRAVITY = 3.0
"""Frame sides per s^2."""
APEX = {"small": 0.50, "big": 0.38}
"""Height of a bounce by size."""
ROLL_SPEED = 0.5
ORBIT_SPEED = 2.2
PULSE_RATE = 1.0
PULSE_DEPTH = 0.16


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """One actor's motion. `phase` two numbers in [0, 1), `drift` speed to the side (signed),
    `home` the x of its resting place."""

    motion: str
    size: str
    radius: float
    phase: tuple[float, float]
    drift: float
    home: float

    @property
    def period(self) -> float:
        """Seconds between floor contacts of a bounce."""
        return 2.0 * math.sqrt(2.0 * APEX[self.size] / GRAVITY)


def _between_walls(law: Law, speed: float, t: Floats) -> Floats:
    """x of something that runs to and fro between the walls at constant speed."""
    span = 1.0 - 2.0 * law.radius
    turn = np.mod(law.phase[1] * 2.0 + speed * t / span, 2.0)
    return law.radius + span * (1.0 - np.abs(1.0 - turn))


def position(law: Law, t: Floats) -> tuple[Floats, Floats, Floats]:
    """x, y and radius factor at times t (seconds), each of the shape of t."""
    one = np.ones_like(t)
    rest = FLOOR - law.radius
    if law.motion == "bounce":
        u = np.mod(t / law.period + law.phase[0], 1.0)
        return _between_walls(law, law.drift, t), rest - APEX[law.size] * 4 * u * (1 - u), one
    if law.motion == "roll":
        return _between_walls(law, math.copysign(ROLL_SPEED, law.drift), t), rest * one, one
    a, b = (2.0 * math.pi * p for p in law.phase)
    if law.motion == "orbit":
        angle = math.copysign(ORBIT_SPEED, law.drift) * t + a
        return 0.5 + 0.25 * np.cos(angle), 0.48 + 0.22 * np.sin(angle), one
    if law.motion == "float":
        return law.home + 0.10 * np.sin(0.9 * t + a), 0.45 + 0.14 * np.sin(1.3 * t + b), one
    assert law.motion == "pulse", law.motion
    beat = 1.0 + PULSE_DEPTH * np.cos(2 * math.pi * PULSE_RATE * t + a)
    return law.home * one, 0.5 + 0.03 * np.sin(0.7 * t + b), beat


def _crossings(offset: float, rate: float, start: float, end: float) -> list[float]:
    """Times in [start, end) at which offset + rate * t is a whole number."""
    low, high = sorted((offset + rate * start, offset + rate * end))
    times = ((k - offset) / rate for k in range(math.ceil(low), math.floor(high) + 1))
    return [t for t in sorted(times) if start <= t < end]


def semitone_of(radius: float) -> float:
    """Pitch by size: radius 0.15 -> 76, 0.25 -> 58."""
    return 76.0 - 180.0 * (radius - 0.15)


def contacts(law: Law, start: float, end: float, actor: int, material: str) -> Iterator[Event]:
    """The sounds of an actor under `law` in [start, end), in seconds, in no order."""
    pitch = semitone_of(law.radius)
    wall_rate = 1.0 / (1.0 - 2.0 * law.radius)

    def strikes(offset: float, rate: float, gain: float) -> Iterator[Event]:
        for t in _crossings(offset, rate, start, end):
            yield Event(
                time=t, actor=actor, kind="strike", material=material, semitone=pitch, gain=gain
            )

    if law.motion == "bounce":
        yield from strikes(law.phase[0], 1.0 / law.period, 0.9)
        yield from strikes(law.phase[1] * 2.0, law.drift * wall_rate, 0.4)
    elif law.motion == "roll":
        rate = math.copysign(ROLL_SPEED, law.drift) * wall_rate
        yield from strikes(law.phase[1] * 2.0, rate, 0.8)
    elif law.motion == "pulse":
        for t in _crossings(law.phase[0], PULSE_RATE, start, end):
            yield Event(
                time=t, actor=actor, kind="beep", material=material, semitone=pitch, gain=0.6
            )
