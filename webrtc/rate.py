"""Small rules of a shared encode: when to make a keyframe, and at which bit rate to run.

Pure state machines over instants that the caller gives (seconds on one clock).
"""

from collections import deque
from collections.abc import Hashable

from onbeat.webrtc.encoders import MIN_BITRATE

UNLIMITED = 1.3
"""An estimate this many times the rate sent says only that more would pass."""


class KeyframeGate:
    """Merges keyframe requests: however many come, at most one keyframe per `interval` seconds."""

    def __init__(self, interval: float = 0.5) -> None:
        self._interval = interval
        self._wanted = False
        self._last = float("-inf")
        self.requests = 0

    def request(self) -> None:
        self._wanted = True
        self.requests += 1

    @property
    def wanted(self) -> bool:
        return self._wanted

    def take(self, now: float) -> bool:
        """Whether the picture encoded at `now` must be a keyframe; if so the requests are met."""
        if not self._wanted or now - self._last < self._interval:
            return False
        self._wanted, self._last = False, now
        return True

    def made(self, now: float) -> None:
        """The encoder made a keyframe of its own accord: all requests so far are met."""
        self._wanted, self._last = False, now


class RateMeter:
    """Bits per second over the last second."""

    def __init__(self) -> None:
        self._sent: deque[tuple[float, int]] = deque()

    def add(self, bits: int, now: float) -> None:
        self._sent.append((now, bits))
        self._forget(now)

    def rate(self, now: float) -> float:
        self._forget(now)
        return float(sum(bits for _, bits in self._sent))

    def _forget(self, now: float) -> None:
        while self._sent and now - self._sent[0][0] > 1.0:
            self._sent.popleft()


class BitrateControl:
    """The lowest estimate among the viewers, followed down at once and up slowly.

    An estimate is bounded by what arrives (libwebrtc caps it at 1.5 times that), so one well above
    the rate that is really sent is no limit at all. Moves smaller than a quarter are ignored,
    because a move costs VP8 a keyframe; a rise waits `up_after` seconds since the last move and is
    at most half of the rate. A viewer's first `settle` seconds of estimates start low and say
    nothing yet.
    """

    def __init__(self, nominal: int, *, up_after: float = 6.0, settle: float = 2.0) -> None:
        self.nominal = nominal
        self.target = nominal
        self._up_after, self._settle = up_after, settle
        self._limits: dict[Hashable, int] = {}
        self._since: dict[Hashable, float] = {}
        self._moved_at = float("-inf")

    def estimate(self, viewer: Hashable, estimate: int, sent: float, now: float) -> int:
        """Take a viewer's estimate (REMB) and the rate sent to it lately, bits per second.

        The answer is the rate to encode at.
        """
        if now - self._since.setdefault(viewer, now) >= self._settle:
            self._limits[viewer] = estimate if estimate < UNLIMITED * sent else self.nominal
            self._move(now)
        return self.target

    def forget(self, viewer: Hashable, now: float) -> int:
        self._since.pop(viewer, None)
        self._limits.pop(viewer, None)
        self._move(now)
        return self.target

    def _move(self, now: float) -> None:
        lowest = min(self._limits.values(), default=self.nominal)
        wanted = min(self.nominal, max(MIN_BITRATE, lowest))
        if wanted <= 0.75 * self.target:
            self.target, self._moved_at = wanted, now
        elif wanted >= 1.25 * self.target and now - self._moved_at >= self._up_after:
            self.target, self._moved_at = min(wanted, self.target * 3 // 2), now
