"""A shared encode: one encoder in its lane, with its keyframe and rate rules. Knows no viewers."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import av

from onbeat.webrtc.encoders import (
    EncoderPool,
    OpusEncoder,
    Packet,
    Picture,
    nominal_bitrate,
    video_encoder,
)
from onbeat.webrtc.lane import Hooks, Lane
from onbeat.webrtc.rate import BitrateControl, KeyframeGate, RateMeter
from onbeat.webrtc.sound import DueSound
from onbeat.webrtc.tally import Ticket

SOUND_SLOTS = 12
"""As many sounds may wait as one late tick of the clock can bring."""
GROUP = 12
"""At most so many pictures, a keyframe first, are sent at once to one who joins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    picture: Picture
    pts: int
    fps: int
    ticket: Ticket | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One encoded picture; `ticket` is None for a repeat, which counts nowhere."""

    codec: str
    packet: Packet
    keyframe: bool
    seconds: float
    ticket: Ticket | None


class SharedVideo:
    """`deliver(made)` on the loop for each picture. One picture may wait for the encoder."""

    def __init__(
        self,
        codec: str,
        size: tuple[int, int],
        fps: int,
        pool: EncoderPool,
        deliver: Callable[[Made], None],
        clock: Callable[[], float],
    ) -> None:
        self.codec = codec
        self.gate = KeyframeGate()
        self.rate = BitrateControl(nominal_bitrate(*size, fps))
        self._encoder = video_encoder(codec, self.rate.nominal)
        self._deliver, self._clock = deliver, clock
        self._sent = RateMeter()
        self._group: list[Made] = []
        self._group_at = float("-inf")
        hooks = Hooks(start=self._start, done=self._done, dropped=self._dropped)
        self._lane: Lane[_Job, list[Packet]] = Lane(pool, 1, hooks)
        self._lane.warm(lambda: self._encoder.prepare(*size, fps))

    def offer(self, picture: Picture, pts: int, fps: int, ticket: Ticket | None) -> None:
        self._lane.offer(_Job(picture=picture, pts=pts, fps=fps, ticket=ticket))

    def estimate(self, viewer: Hashable, bits_per_second: int) -> None:
        now = self._clock()
        sent = self._sent.rate(now)
        self._encoder.bitrate = self.rate.estimate(viewer, bits_per_second, sent, now)

    def group(self) -> list[Made]:
        """The pictures since the last keyframe, while they are few and fresh; else nothing.

        A joiner that gets them needs no keyframe of its own. They are stamped a millisecond apart,
        so that a receiver shows the last one and does not take the others for a slow network.
        """
        if not self._group or self._clock() - self._group_at > 1.0:
            return []
        last = len(self._group) - 1
        newest = self._group[last].packet.pts or 0
        return [_restamped(made, newest - 90 * (last - n)) for n, made in enumerate(self._group)]

    def forget(self, viewer: Hashable) -> None:
        self._encoder.bitrate = self.rate.forget(viewer, self._clock())

    def close(self) -> None:
        self._lane.close()

    def _start(self, job: _Job) -> Callable[[], list[Packet]]:
        keyframe = self.gate.take(self._clock())
        return lambda: self._encoder.encode(job.picture, job.pts, job.fps, keyframe)

    def _done(self, job: _Job, packets: list[Packet], seconds: float) -> None:
        if not packets:
            self._dropped(job)
            return
        assert len(packets) == 1, len(packets)
        keyframe = packets[0].is_keyframe
        made = Made(
            codec=self.codec,
            packet=packets[0],
            keyframe=keyframe,
            seconds=seconds,
            ticket=job.ticket,
        )
        self._remember(made, self._clock())
        self._deliver(made)

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

    def _dropped(self, job: _Job) -> None:
        if job.ticket is not None:
            job.ticket.lost()


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


def _restamped(made: Made, pts: int) -> Made:
    packet: Packet = av.Packet(bytes(made.packet))
    packet.pts, packet.time_base = pts, made.packet.time_base
    return replace(made, packet=packet, ticket=None)
