"""A shared encode: one encoder in its lane, with its keyframe and rate rules. Knows no viewers."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from onbeat.webrtc.encoders import EncoderPool, OpusEncoder, Picture, shrunk, video_encoder
from onbeat.webrtc.lane import Hooks, Lane
from onbeat.webrtc.made import Made, Packet, restamped
from onbeat.webrtc.rate import KeyframeGate, RateMeter
from onbeat.webrtc.renditions import Rendition
from onbeat.webrtc.sound import DueSound
from onbeat.webrtc.tally import Ticket

SOUND_SLOTS = 12
"""As many sounds may wait as one late tick of the clock can bring."""
GROUP = 40
"""At most so many pictures, a keyframe first, are sent at once to one who joins."""
STALE = 1.0
"""Seconds after its last picture from which a group starts nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """A picture to encode: I420 [height * 3 // 2, width], `pts` in 90 kHz ticks; no ticket for a
    repeat, which counts nowhere."""

    picture: Picture
    pts: int
    fps: int
    revision: int
    ticket: Ticket | None


class SharedVideo:
    """`deliver(made, ticket)` on the loop for each picture. One may wait for the encoder."""

    def __init__(
        self,
        codec: str,
        rendition: Rendition,
        fps: int,
        pool: EncoderPool,
        deliver: Callable[[Made, Ticket | None], None],
        clock: Callable[[], float],
    ) -> None:
        self.codec, self.rendition = codec, rendition
        self.gate = KeyframeGate()
        self._encoder = video_encoder(codec, rendition.nominal, pool.h264)
        self._deliver, self._clock = deliver, clock
        self._sent = RateMeter()
        self._group: list[Made] = []
        self._group_at = float("-inf")
        hooks = Hooks(start=self._start, done=self._done, dropped=_dropped)
        self._lane: Lane[Shot, list[Packet]] = Lane(pool, 1, hooks)
        size = (rendition.width, rendition.height)
        self._lane.warm(lambda: self._encoder.prepare(*size, fps))

    def offer(self, shot: Shot) -> None:
        self._lane.offer(shot)

    @property
    def bitrate(self) -> int:
        """Bits per second that it is asked to make; set from the next picture on."""
        return self._encoder.bitrate

    @bitrate.setter
    def bitrate(self, bits_per_second: int) -> None:
        self._encoder.bitrate = bits_per_second

    def sent_rate(self) -> float:
        """Bits per second that came out lately."""
        return self._sent.rate(self._clock())

    def group(self) -> list[Made]:
        """The pictures since a keyframe too fresh for another one; else nothing.

        A joiner that gets them need not wait for a keyframe of its own. They are stamped a
        millisecond apart, so that a receiver shows the last one and does not take the others for a
        slow network.
        """
        now = self._clock()
        if not self._group or not self.gate.closed(now) or now - self._group_at > STALE:
            return []
        last = len(self._group) - 1
        newest = self._group[last].packet.pts or 0
        return [
            replace(made, packet=restamped(made.packet, newest - 90 * (last - number)))
            for number, made in enumerate(self._group)
        ]

    def close(self) -> None:
        self._lane.close()

    def _start(self, shot: Shot) -> Callable[[], list[Packet]]:
        keyframe = self.gate.take(self._clock())
        divisor = self.rendition.divisor
        return lambda: self._encoder.encode(
            shrunk(shot.picture, divisor), shot.pts, shot.fps, keyframe
        )

    def _done(self, shot: Shot, packets: list[Packet], seconds: float) -> None:
        if not packets:
            _dropped(shot)
            return
        assert len(packets) == 1, len(packets)
        made = Made(
            codec=self.codec,
            level=self.rendition.level,
            width=self.rendition.width,
            height=self.rendition.height,
            fps=shot.fps,
            revision=shot.revision,
            packet=packets[0],
            keyframe=packets[0].is_keyframe,
            seconds=seconds,
        )
        self._remember(made, self._clock())
        self._deliver(made, shot.ticket)

    def _remember(self, made: Made, now: float) -> None:
        self._sent.add(8 * made.packet.size, now)
        if made.keyframe:
            self.gate.made(now)
            self._group.clear()
        elif not 0 < len(self._group) < GROUP:
            self._group.clear()
            return
        self._group.append(made)
        self._group_at = now


def _dropped(shot: Shot) -> None:
    if shot.ticket is not None:
        shot.ticket.lost()


class SharedSound:
    """`deliver(packet)` on the loop for each 20 ms of sound."""

    def __init__(
        self, sample_rate: int, pool: EncoderPool, deliver: Callable[[Packet], None]
    ) -> None:
        encoder = OpusEncoder(sample_rate)

        def start(sound: DueSound) -> Callable[[], list[Packet]]:
            return lambda: encoder.encode(sound.samples, sound.pts)

        def done(_: DueSound, packets: list[Packet], __: float) -> None:
            for packet in packets:
                deliver(packet)

        hooks = Hooks(start=start, done=done, dropped=lambda _: None)
        self._lane: Lane[DueSound, list[Packet]] = Lane(pool, SOUND_SLOTS, hooks)

    def offer(self, sound: DueSound) -> None:
        self._lane.offer(sound)

    def close(self) -> None:
        self._lane.close()
