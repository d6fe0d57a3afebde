"""A tap on a broadcast: its encoded packets for somebody who is no viewer, such as a recorder.

It takes the best rendition of one codec and the sound, as viewers get them, at no second encode.
It writes nothing and knows no container.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from onbeat.webrtc.made import Made, Packet


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedVideo:
    """One picture. `pts`: 90 kHz ticks of media time, rising. H264 is Annex B with SPS and PPS
    before each IDR; VP8 is one frame. `revision`: of the controls it was generated with."""

    codec: str
    data: bytes
    pts: int
    keyframe: bool
    width: int
    height: int
    fps: int
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSound:
    """20 ms of mono Opus. `pts`: 48 kHz ticks from the same origin as the pictures'."""

    data: bytes
    pts: int


class PacketSink(Protocol):
    """Called on the event loop; it must not block and must not raise."""

    def video(self, picture: EncodedVideo) -> None: ...

    def sound(self, sound: EncodedSound) -> None: ...

    def ended(self, reason: str) -> None:
        """The broadcast is over. Not called after `Tap.close`."""


class Tap:
    """Made by `Broadcast.tap`. The first picture is a keyframe; sound begins with it."""

    counts = False

    def __init__(
        self,
        sink: PacketSink,
        *,
        video_codec: str | None,
        audio: bool,
        on_keyframe_wanted: Callable[["Tap"], None],
        on_closed: Callable[["Tap"], None],
    ) -> None:
        self.id = secrets.token_hex(4)
        self.video_codec: str | None = video_codec
        self.listens = audio
        self.level = self.wanted = 0
        self._sink, self._on_closed = sink, on_closed
        self._on_keyframe_wanted = on_keyframe_wanted
        self._began = video_codec is None
        self._newest = -1
        self._open = True

    @property
    def connected(self) -> bool:
        return self._open

    def request_keyframe(self) -> None:
        """Have the next picture be a keyframe; at most one in half a second, viewers' included."""
        if self._open and self.video_codec is not None:
            self._on_keyframe_wanted(self)

    def close(self) -> None:
        """Take nothing more. Idempotent."""
        if self._open:
            self._open = False
            self._on_closed(self)

    def end(self) -> None:
        """The broadcast is over; it calls this."""
        if self._open:
            self._open = False
            self._sink.ended("broadcast ended")

    def offer_video(self, made: Made, now: float) -> bool:
        stamp = made.packet.pts or 0
        fresh = stamp > self._newest and (self._began or made.keyframe)
        if not self._open or made.level != self.level or not fresh:
            return False
        self._began, self._newest = True, stamp
        self._sink.video(
            EncodedVideo(
                codec=made.codec,
                data=bytes(made.packet),
                pts=stamp,
                keyframe=made.keyframe,
                width=made.width,
                height=made.height,
                fps=made.fps,
                revision=made.revision,
            )
        )
        return True

    def offer_audio(self, packet: Packet, now: float) -> bool:
        if not self._open or not self.listens or not self._began:
            return False
        self._sink.sound(EncodedSound(data=bytes(packet), pts=packet.pts or 0))
        return True
