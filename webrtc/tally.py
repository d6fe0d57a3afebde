"""The running counts of a broadcast, and the ticket that follows one frame through its encoders."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from onbeat.webrtc.frames import FrameLog
from onbeat.webrtc.stats import BroadcastStats, Samples
from onbeat.webrtc.timeline import Taken
from onbeat.webrtc.viewer import Viewer


class Tally:
    """Counts frames and seconds; the meaning of each figure is in `BroadcastStats`."""

    def __init__(self) -> None:
        self.repeated = 0
        self.frames = FrameLog()
        self._due = self._sent = self._on_time = self._keyframes = 0
        self._dropped = {"late": 0, "skipped": 0, "encoder": 0}
        self._silent = self._sound_dropped = 0.0
        self._encode, self._send, self._lateness = Samples(), Samples(), Samples()
        self._recent: deque[float] = deque(maxlen=256)
        self._first: float | None = None

    def taken(self, taken: Taken) -> None:
        self._due += taken.due
        self._dropped["late"] += taken.late
        self._dropped["skipped"] += taken.skipped

    def sound(self, silent: float, dropped: float) -> None:
        self._silent += silent
        self._sound_dropped += dropped

    def encoded(self, seconds: float, keyframe: bool) -> None:
        self._encode.add(seconds)
        self._keyframes += keyframe

    def frame_sent(self, now: float, lateness: float, on_time: bool) -> None:
        self._sent += 1
        self._on_time += on_time
        self._lateness.add(lateness)
        self._recent.append(now)
        self._first = now if self._first is None else self._first

    def frame_lost(self) -> None:
        self._dropped["encoder"] += 1

    def left(self, viewer: Viewer) -> None:
        """Keep the send times of a viewer that goes."""
        if viewer.video is not None:
            self._send.extend(viewer.video.send_seconds)

    def stats(
        self,
        *,
        now: float,
        viewers: Sequence[Viewer],
        keyframe_requests: int,
        bitrate: dict[str, int],
        moved: int,
        reanchored: int,
        offset_s: float,
    ) -> BroadcastStats:
        send = Samples()
        for viewer in viewers:
            send.extend(viewer.video.send_seconds if viewer.video is not None else ())
        return BroadcastStats(
            frames_due=self._due,
            frames_sent=self._sent,
            frames_on_time=self._on_time,
            frames_dropped=dict(self._dropped),
            frames_repeated=self.repeated,
            audio_underrun_s=self._silent,
            audio_dropped_s=self._sound_dropped,
            encode_ms=self._encode.percentiles(),
            send_ms=(send if viewers else self._send).percentiles(),
            lateness_ms=self._lateness.percentiles(),
            keyframes=self._keyframes,
            keyframe_requests=keyframe_requests,
            bitrate=bitrate,
            moved=moved,
            viewers=len(viewers),
            fps_sent=float(sum(now - at <= 1.0 for at in self._recent)),
            first_frame_at=self._first,
            reanchored=reanchored,
            offset_s=offset_s,
        )


@dataclass(slots=True, kw_only=True)
class Ticket:
    """One due frame on its way through `lanes` encoders. It counts once, at the last of them.

    Sent when any encoder brought it to a viewer; on time when the slowest of those that did was.
    """

    pts: int
    due: float
    period: float
    lanes: int
    tally: Tally
    _last: float | None = None

    def __post_init__(self) -> None:
        if self.lanes == 0:
            self._lose()

    def sent(self, now: float) -> None:
        self._last = now
        self.tally.frames.encoded(self.pts, now)
        self._leave()

    def lost(self) -> None:
        self._leave()

    def _leave(self) -> None:
        self.lanes -= 1
        if self.lanes > 0:
            return
        if self._last is None:
            self._lose()
            return
        late = self._last - self.due
        self.tally.frame_sent(self._last, late, late <= self.period)

    def _lose(self) -> None:
        self.tally.frame_lost()
        self.tally.frames.lost(self.pts)
