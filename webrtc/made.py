"""One encoded picture on its way to whoever watches, and what a member of the audience can do.

Plain data and a protocol; it knows no encoder and no connection.
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import av

Packet: TypeAlias = "av.Packet[Any]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """`packet.pts` in 90 kHz ticks. `level`: the rendition, 0 is the best; `seconds`: encoding."""

    codec: str
    level: int
    width: int
    height: int
    fps: int
    revision: int
    packet: Packet
    keyframe: bool
    seconds: float


class Member(Protocol):
    """A viewer or a tap of one broadcast. `level` is the rendition it gets, `wanted` the next."""

    id: str
    level: int
    wanted: int

    @property
    def video_codec(self) -> str | None: ...

    @property
    def connected(self) -> bool:
        """Whether packets may be offered."""

    @property
    def counts(self) -> bool:
        """Whether somebody looks at it: a viewer does, a tap does not."""

    @property
    def listens(self) -> bool:
        """Whether it takes sound."""

    def offer_video(self, made: Made, now: float) -> bool:
        """Whether it got the picture."""

    def offer_audio(self, packet: Packet, now: float) -> bool:
        """Whether it got the 20 ms of sound."""

    def end(self) -> None:
        """The broadcast is over. Idempotent."""


def restamped(packet: Packet, pts: int) -> Packet:
    """A copy of `packet` with another time stamp."""
    copy: Packet = av.Packet(bytes(packet))
    copy.pts, copy.time_base = pts, packet.time_base
    copy.is_keyframe = packet.is_keyframe
    return copy
