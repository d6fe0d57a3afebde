"""What left on time: the figures of one broadcast. No clock of its own, no metrics library."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Of the last few hundred samples; milliseconds. All zero while there is none."""

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastStats:
    """Since the start of the broadcast, unless said otherwise.

    frames_due: frames whose playout instant passed while a viewer was connected, those of missing
    chunks included. frames_on_time: handed to the viewers within one frame period of that instant.
    frames_dropped: by "late" (instant passed before it could be sent), "skipped" (missing chunk)
    and "encoder" (replaced while the previous frame was encoded). audio_underrun_s: silence sent
    for want of sound. encode_ms: one picture in the encoder; send_ms: packing, protecting and
    sending one picture to one viewer; lateness_ms: from playout instant to the viewers' queues.
    bitrate: asked of each encoder, by codec, further renditions as "VP8/1"; moved: how often
    viewers took another rendition.
    first_frame_at: on the broadcast's clock, None before. reanchored: how often the clock was
    moved because chunks came too late, offset_s: by how much it stands behind now.
    """

    frames_due: int = 0
    frames_sent: int = 0
    frames_on_time: int = 0
    frames_dropped: dict[str, int] = field(default_factory=dict)
    frames_repeated: int = 0
    audio_underrun_s: float = 0.0
    audio_dropped_s: float = 0.0
    encode_ms: Percentiles = Percentiles()
    send_ms: Percentiles = Percentiles()
    lateness_ms: Percentiles = Percentiles()
    keyframes: int = 0
    keyframe_requests: int = 0
    bitrate: dict[str, int] = field(default_factory=dict)
    moved: int = 0
    viewers: int = 0
    fps_sent: float = 0.0
    first_frame_at: float | None = None
    reanchored: int = 0
    offset_s: float = 0.0

    @property
    def on_time_ratio(self) -> float:
        """1.0 while nothing was due."""
        return self.frames_on_time / self.frames_due if self.frames_due else 1.0


class Samples:
    """The last durations of one kind (seconds in, milliseconds out)."""

    def __init__(self, size: int = 512) -> None:
        self._seconds: deque[float] = deque(maxlen=size)

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def extend(self, seconds: Iterable[float]) -> None:
        self._seconds.extend(seconds)

    def percentiles(self) -> Percentiles:
        ordered = sorted(self._seconds)
        if not ordered:
            return Percentiles()
        p50, p95, p99 = (1e3 * ordered[int(q * (len(ordered) - 1))] for q in (0.5, 0.95, 0.99))
        return Percentiles(p50=p50, p95=p95, p99=p99, count=len(ordered))
