"""One session's media to all its viewers: paced on one clock, encoded once, counted.

It takes finished chunks, runs on the event loop's thread without a task of its own (one timer), and
hands packets to viewers. It knows no SDP and no engine; chunks say when they are due.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from onbeat.webrtc.codec_video import CodecVideo
from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.frames import FrameTimes
from onbeat.webrtc.made import Made, Member, Packet
from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.renditions import renditions
from onbeat.webrtc.shared import SharedSound, Shot
from onbeat.webrtc.stats import BroadcastStats
from onbeat.webrtc.tally import Tally, Ticket
from onbeat.webrtc.tap import PacketSink, Tap
from onbeat.webrtc.timeline import DueFrame, Timeline
from onbeat.webrtc.viewer import Viewer

REPEAT_AFTER = 0.5
"""Seconds without a new picture after which the last one is encoded once more."""
KEYFRAME_WAIT = 0.1
"""Seconds that one who joins waits for a new picture; then the last one is sent as a keyframe."""


class Broadcast:
    """One per session. All methods are called on the event loop's thread.

    width, height: of every picture, even, pixels; fps: nominal; sample_rate: of the chunks' sound,
    8, 12, 16, 24 or 48 kHz; encoders: shared by all broadcasts; max_renditions: of each codec, 1 to
    3, for viewers whose links differ; clock: the one `playout_at` is on.
    """

    def __init__(
        self,
        *,
        width: int,
        height: int,
        fps: int,
        sample_rate: int,
        encoders: EncoderPool,
        max_renditions: int = 3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, value in (("width", width), ("height", height)):
            if value < 2 or value % 2:
                raise ValueError(f"{name} {value} is not an even number of pixels")
        self.width, self.height, self.fps, self.sample_rate = width, height, fps, sample_rate
        self._encoders, self._clock = encoders, clock
        self._timeline = Timeline(sample_rate)
        self._tally = Tally()
        self._ladder = renditions(width, height, fps, max_renditions)
        self._members: list[Member] = []
        self._video: dict[str, CodecVideo] = {}
        self._sound: SharedSound | None = None
        self._last: DueFrame | None = None
        self._last_pts, self._shown_at = -1, float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    # ---- media in --------------------------------------------------------------------------

    def push(self, chunk: MediaChunk) -> None:
        """Take the next chunk of the session. Raises ValueError when its shape does not fit."""
        shape = (self.height * 3 // 2, self.width)
        if chunk.frames.ndim != 3 or chunk.frames.shape[1:] != shape:
            raise ValueError(f"frames {chunk.frames.shape} are not [frames, *{shape}]")
        if chunk.sample_rate != self.sample_rate:
            raise ValueError(f"sample_rate {chunk.sample_rate} is not {self.sample_rate}")
        if self.closed:
            return
        now = self._clock()
        if not self._watched:
            self._forget_passed(now)
        self._timeline.push(chunk, now)
        self._arm()

    def close(self) -> None:
        """End all viewers, taps and the encoders. Idempotent; later pushes are ignored."""
        self.closed = True
        self._disarm()
        for member in list(self._members):
            member.end()
            self._remove(member)

    def stats(self) -> BroadcastStats:
        videos = self._video.values()
        return self._tally.stats(
            now=self._clock(),
            viewers=[m for m in self._members if isinstance(m, Viewer) and m.connected],
            keyframe_requests=sum(video.keyframe_requests for video in videos),
            bitrate={name: rate for video in videos for name, rate in video.bitrates().items()},
            moved=sum(video.moved for video in videos),
            reanchored=self._timeline.reanchored,
            offset_s=self._timeline.offset,
        )

    def frames(self) -> list[FrameTimes]:
        """The pictures that were sent since the last call, oldest first."""
        sending = any(isinstance(m, Viewer) and m.connected for m in self._members)
        return self._tally.frames.take(self._clock(), sending=sending)

    # ---- viewers (called by peers) and taps --------------------------------------------------

    def add_viewer(self, *, video_codec: str | None, audio: bool) -> Viewer:
        """A new viewer; encoders that nobody needed so far are made. RuntimeError once closed."""
        viewer = Viewer(
            video_codec=video_codec,
            audio=audio,
            on_started=self._on_started,
            on_keyframe_wanted=self.request_keyframe,
        )
        if viewer.video is not None:
            viewer.video.on_sent.append(lambda pts: self._tally.frames.sent(pts, self._clock()))
        self._add(viewer)
        return viewer

    def tap(self, sink: PacketSink, *, video_codec: str | None, audio: bool = True) -> Tap:
        """Give `sink` all encoded packets from the next keyframe on. RuntimeError once closed.

        video_codec: "VP8" or "H264"; None takes the one that most viewers have. Media flow for a
        tap as for a viewer, but it is not counted as one.
        """
        tap = Tap(
            sink,
            video_codec=video_codec or self._usual_codec(),
            audio=audio,
            on_keyframe_wanted=self.request_keyframe,
            on_closed=self._remove,
        )
        self._add(tap)
        self._on_started(tap)
        return tap

    def _usual_codec(self) -> str:
        codecs = [member.video_codec for member in self._members if member.video_codec]
        return max(codecs, key=codecs.count, default="VP8")

    def _add(self, member: Member) -> None:
        if self.closed:
            raise RuntimeError("the broadcast is closed")
        self._members.append(member)
        codec = member.video_codec
        if codec is not None:
            if codec not in self._video:
                self._video[codec] = CodecVideo(
                    codec, self._ladder, self.fps, self._encoders, self._delivered, self._clock
                )
            self._video[codec].add(member)
        if member.listens and self._sound is None:
            self._sound = SharedSound(self.sample_rate, self._encoders, self._deliver_sound)

    def remove_viewer(self, viewer: Viewer) -> None:
        """Forget a viewer, and the encoders that it alone needed. Idempotent."""
        if viewer in self._members:
            self._tally.left(viewer)
            self._remove(viewer)

    def _remove(self, member: Member) -> None:
        if member not in self._members:
            return
        self._members.remove(member)
        codec = member.video_codec
        if codec is not None:
            self._video[codec].remove(member)
            if not any(other.video_codec == codec for other in self._members):
                self._video.pop(codec).close()
        if self._sound is not None and not any(other.listens for other in self._members):
            self._sound.close()
            self._sound = None
        if not self._watched:
            self._disarm()

    def request_keyframe(self, member: Member) -> None:
        """A member lost its picture (PLI, FIR, overflow) or has none yet."""
        video = self._video_of(member)
        if video is not None:
            video.request_keyframe(member)

    def refresh(self) -> None:
        """Have the next picture be a keyframe for everybody: the scene starts anew."""
        for member in self._members:
            self.request_keyframe(member)

    def estimate(self, viewer: Viewer, bits_per_second: int) -> None:
        """A viewer's receiver estimates what its link carries (REMB)."""
        video = self._video_of(viewer)
        if video is not None:
            video.estimate(viewer, bits_per_second)

    def lost(self, viewer: Viewer, fraction: float) -> None:
        """A viewer's receiver missed this share of the video packets since it last reported."""
        video = self._video_of(viewer)
        if video is not None:
            video.lost(viewer, fraction)

    def _video_of(self, member: Member) -> CodecVideo | None:
        if member not in self._members or member.video_codec is None:
            return None
        return self._video[member.video_codec]

    def media_time(self) -> float | None:
        """Seconds of media time now, the zero of all time stamps; None before the first chunk."""
        origin = self._timeline.origin
        return None if origin is None else self._clock() - origin

    @property
    def last_rendition(self) -> int:
        """The level of the least of them."""
        return len(self._ladder) - 1

    @property
    def _watched(self) -> bool:
        return any(member.connected for member in self._members)

    def _on_started(self, member: Member) -> None:
        if sum(other.connected for other in self._members) == 1:
            self._forget_passed(self._clock())
        video = self._video_of(member)
        if video is not None:
            video.start(member)
        self._arm()

    def _forget_passed(self, now: float) -> None:
        """Nobody watched: keep only the newest picture, for the first who comes."""
        self._last = self._timeline.discard(now) or self._last

    # ---- the clock ---------------------------------------------------------------------------

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._disarm()
        due = self._timeline.next_due()
        if due is not None and self._watched and not self.closed:
            delay = max(0.0, due - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self.advance()
        self._arm()

    def advance(self) -> None:
        """Send what is due now. The timer calls it; a test with its own clock may too."""
        now = self._clock()
        taken = self._timeline.take(now)
        if taken.frame is not None and taken.frame.pts <= self._last_pts:
            taken = replace(taken, frame=None, late=taken.late + 1)  # a repeat took its instant
        self._tally.taken(taken)
        if taken.frame is not None:
            self._show(taken.frame, now)
        elif self._last is not None and now - self._shown_at >= self._patience:
            self._repeat(self._last, now)
        sounds, dropped = self._timeline.take_sound(now)
        if self._sound is not None:
            self._tally.sound(sum(sound.silent for sound in sounds), dropped)
            for sound in sounds:
                self._sound.offer(sound)

    @property
    def _patience(self) -> float:
        """Seconds after the last picture at which it is sent once more."""
        asked = any(video.keyframe_due for video in self._video.values())
        return KEYFRAME_WAIT if asked else REPEAT_AFTER

    def _show(self, frame: DueFrame, now: float) -> None:
        self._last, self._last_pts, self._shown_at = frame, frame.pts, now
        lanes = [lane for video in self._video.values() for lane in video.lanes()]
        self._tally.frames.taken(
            frame.pts, chunk=frame.chunk, number=frame.number, due=frame.due, now=now
        )
        ticket = Ticket(
            pts=frame.pts,
            due=frame.due,
            period=frame.period,
            lanes=len(lanes),
            tally=self._tally,
        )
        for lane in lanes:
            lane.offer(_shot(frame, frame.pts, ticket))

    def _repeat(self, frame: DueFrame, now: float) -> None:
        self._last_pts, self._shown_at = self._timeline.pts(now), now
        self._tally.repeated += 1
        for video in self._video.values():
            for lane in video.lanes():
                lane.offer(_shot(frame, self._last_pts, None))

    # ---- packets out -------------------------------------------------------------------------

    def _delivered(self, made: Made, ticket: Ticket | None, reached: bool) -> None:
        self._tally.encoded(made.seconds, made.keyframe)
        if ticket is not None and reached:
            ticket.sent(self._clock())
        elif ticket is not None:
            ticket.lost()

    def _deliver_sound(self, packet: Packet) -> None:
        now = self._clock()
        for member in self._members:
            member.offer_audio(packet, now)


def _shot(frame: DueFrame, pts: int, ticket: Ticket | None) -> Shot:
    return Shot(
        picture=frame.picture, pts=pts, fps=frame.fps, revision=frame.revision, ticket=ticket
    )
