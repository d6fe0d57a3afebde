"""One session's media to all its viewers: paced on one clock, encoded once, counted.

It takes finished chunks, runs on the event loop's thread without a task of its own (one timer), and
hands packets to viewers. It knows no SDP and no engine; chunks say when they are due.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from onbeat.webrtc.encoders import EncoderPool, Packet
from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.shared import Made, SharedSound, SharedVideo
from onbeat.webrtc.stats import BroadcastStats
from onbeat.webrtc.tally import Tally, Ticket
from onbeat.webrtc.timeline import DueFrame, Timeline
from onbeat.webrtc.viewer import Viewer

REPEAT_AFTER = 0.5
"""Seconds without a new picture after which the last one is encoded once more."""


class Broadcast:
    """One per session. All methods are called on the event loop's thread.

    width, height: of every picture, even, pixels; fps: nominal; sample_rate: of the chunks' sound,
    8, 12, 16, 24 or 48 kHz; encoders: shared by all broadcasts; clock: the one `playout_at` is on.
    """

    def __init__(
        self,
        *,
        width: int,
        height: int,
        fps: int,
        sample_rate: int,
        encoders: EncoderPool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, value in (("width", width), ("height", height)):
            if value < 2 or value % 2:
                raise ValueError(f"{name} {value} is not an even number of pixels")
        self.width, self.height, self.fps, self.sample_rate = width, height, fps, sample_rate
        self._encoders, self._clock = encoders, clock
        self._timeline = Timeline(sample_rate)
        self._tally = Tally()
        self._viewers: list[Viewer] = []
        self._video: dict[str, SharedVideo] = {}
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
        """End all viewers and the encoders. Idempotent; later pushes are ignored."""
        self.closed = True
        self._disarm()
        for viewer in list(self._viewers):
            viewer.end()
            self.remove_viewer(viewer)

    def stats(self) -> BroadcastStats:
        lanes = self._video.values()
        return self._tally.stats(
            now=self._clock(),
            viewers=[viewer for viewer in self._viewers if viewer.connected],
            keyframe_requests=sum(lane.gate.requests for lane in lanes),
            bitrate={codec: lane.rate.target for codec, lane in self._video.items()},
            reanchored=self._timeline.reanchored,
            offset_s=self._timeline.offset,
        )

    # ---- viewers (called by peers) -----------------------------------------------------------

    def add_viewer(self, *, video_codec: str | None, audio: bool) -> Viewer:
        """A new viewer; encoders that nobody needed so far are made. RuntimeError once closed."""
        if self.closed:
            raise RuntimeError("the broadcast is closed")
        viewer = Viewer(
            video_codec=video_codec,
            audio=audio,
            on_started=self._on_started,
            on_keyframe_wanted=self.request_keyframe,
        )
        self._viewers.append(viewer)
        if video_codec and video_codec not in self._video:
            size = (self.width, self.height)
            self._video[video_codec] = SharedVideo(
                video_codec, size, self.fps, self._encoders, self._deliver, self._clock
            )
        if audio and self._sound is None:
            self._sound = SharedSound(self.sample_rate, self._encoders, self._deliver_sound)
        return viewer

    def remove_viewer(self, viewer: Viewer) -> None:
        """Forget a viewer, and the encoders that it alone needed. Idempotent."""
        if viewer not in self._viewers:
            return
        self._viewers.remove(viewer)
        self._tally.left(viewer)
        codecs = {other.video_codec for other in self._viewers}
        for codec in [codec for codec in self._video if codec not in codecs]:
            self._video.pop(codec).close()
        if viewer.video_codec in self._video:
            self._video[viewer.video_codec].forget(viewer.id)
        if self._sound is not None and not any(other.audio for other in self._viewers):
            self._sound.close()
            self._sound = None
        if not self._watched:
            self._disarm()

    def request_keyframe(self, viewer: Viewer) -> None:
        """A viewer lost its picture (PLI, FIR, overflow) or has none yet."""
        if viewer.video_codec in self._video:
            self._video[viewer.video_codec].gate.request()

    def estimate(self, viewer: Viewer, bits_per_second: int) -> None:
        """A viewer's receiver estimates what its link carries (REMB)."""
        if viewer.video_codec in self._video:
            self._video[viewer.video_codec].estimate(viewer.id, bits_per_second)

    def media_time(self) -> float | None:
        """Seconds of media time now, the zero of all time stamps; None before the first chunk."""
        origin = self._timeline.origin
        return None if origin is None else self._clock() - origin

    @property
    def _watched(self) -> bool:
        return any(viewer.connected for viewer in self._viewers)

    def _on_started(self, viewer: Viewer) -> None:
        if sum(other.connected for other in self._viewers) == 1:
            self._forget_passed(self._clock())
        if not self._start_with_group(viewer):
            self.request_keyframe(viewer)
        self._arm()

    def _start_with_group(self, viewer: Viewer) -> bool:
        """Whether the newest keyframe was fresh enough to start the viewer with."""
        lane = self._video.get(viewer.video_codec or "")
        group = lane.group() if lane is not None else []
        for made in group:
            viewer.offer_video(made.packet, made.keyframe, self._clock())
        return bool(group)

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
        elif now - self._shown_at >= REPEAT_AFTER and self._last is not None:
            self._repeat(self._last, now)
        sounds, dropped = self._timeline.take_sound(now)
        if self._sound is not None:
            self._tally.sound(sum(sound.silent for sound in sounds), dropped)
            for sound in sounds:
                self._sound.offer(sound)

    def _show(self, frame: DueFrame, now: float) -> None:
        self._last, self._last_pts, self._shown_at = frame, frame.pts, now
        lanes = [lane for codec, lane in self._video.items() if self._has_viewer(codec)]
        ticket = Ticket(due=frame.due, period=frame.period, lanes=len(lanes), tally=self._tally)
        for lane in lanes:
            lane.offer(frame.picture, frame.pts, frame.fps, ticket)

    def _repeat(self, frame: DueFrame, now: float) -> None:
        self._last_pts, self._shown_at = self._timeline.pts(now), now
        self._tally.repeated += 1
        for codec, lane in self._video.items():
            if self._has_viewer(codec):
                lane.offer(frame.picture, self._last_pts, frame.fps, None)

    def _has_viewer(self, codec: str) -> bool:
        return any(viewer.connected and viewer.video_codec == codec for viewer in self._viewers)

    # ---- packets out -------------------------------------------------------------------------

    def _deliver(self, made: Made) -> None:
        now = self._clock()
        audience = [viewer for viewer in self._viewers if viewer.video_codec == made.codec]
        got = [viewer.offer_video(made.packet, made.keyframe, now) for viewer in audience]
        self._tally.encoded(made.seconds, made.keyframe)
        if made.ticket is not None and any(got):
            made.ticket.sent(now)
        elif made.ticket is not None:
            made.ticket.lost()

    def _deliver_sound(self, packet: Packet) -> None:
        now = self._clock()
        for viewer in self._viewers:
            viewer.offer_audio(packet, now)
