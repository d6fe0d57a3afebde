"""Which renditions of a picture there are, and which of them a viewer's link carries.

Pure rules. A rendition is one shared encode; its rate moves within a band, and a viewer whose link
carries less than the band is moved to the next one, so that no link drags another below half.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onbeat.webrtc.encoders import MIN_BITRATE, nominal_bitrate

SHARES = ((1.0, 1), (0.5, 1), (0.2, 2))
"""Share of the nominal rate, and divisor of both sides, of each rendition."""
SMALLEST_HALVED = 256
"""Pictures are halved only if no side is shorter than this, pixels."""
MOVE_UP_AT = 1.2
"""A viewer moves up once its link is trusted with this many times the floor of the better one."""
LEAST_MOVE = 0.25
"""Moves of an encoder's rate smaller than this share are left out: one costs VP8 a keyframe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendition:
    """`level` 0 is the best. Rates in bits per second, sizes in pixels."""

    level: int
    divisor: int
    width: int
    height: int
    nominal: int
    floor: int


def renditions(width: int, height: int, fps: int, limit: int) -> tuple[Rendition, ...]:
    """At most `limit` renditions, best first; none but the first has a rate below the least."""
    nominal = nominal_bitrate(width, height, fps)
    fits = [(share, d) for share, d in SHARES[:limit] if nominal * share >= MIN_BITRATE]
    rates = [int(nominal * share) for share, _ in fits]
    floors = [*rates[1:], MIN_BITRATE]
    small = min(width, height) < SMALLEST_HALVED or width % 4 or height % 8
    divisors = [1 if small else divisor for _, divisor in fits]
    return tuple(
        Rendition(
            level=level,
            divisor=divisor,
            width=width // divisor,
            height=height // divisor,
            nominal=rates[level],
            floor=floors[level],
        )
        for level, divisor in enumerate(divisors)
    )


def level_for(ladder: Sequence[Rendition], target: int, level: int) -> int:
    """The rendition for a link trusted with `target` bits per second that now gets `level`."""
    while level > 0 and target >= MOVE_UP_AT * ladder[level - 1].floor:
        level -= 1
    while level < len(ladder) - 1 and target < ladder[level].floor:
        level += 1
    return level


def encode_rate(rendition: Rendition, targets: Iterable[int], now_at: int) -> int:
    """The lowest rate of its viewers within its band; small moves are left out."""
    wanted = min(rendition.nominal, max(rendition.floor, min(targets)))
    return now_at if abs(wanted - now_at) < LEAST_MOVE * now_at else wanted
