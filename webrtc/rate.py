"""Small rules of a shared encode: when to make a keyframe, and at which bit rate to run.

Pure state machines over instants that the caller gives (seconds on one clock).
"""

from collections import deque
from collections.abc import Hashable

from onbeat.webrtc.encoders import MIN_BITRATE


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
    """Bits per second over the last `window` seconds."""

    def __init__(self, window: float = 2.0) -> None:
        self._window = window
        self._sent: deque[tuple[float, int]] = deque()

    def add(self, bits: int, now: float) -> None:
        self._sent.append((now, bits))
        self._forget(now)

    def rate(self, now: float) -> float:
        self._forget(now)
        return sum(bits for _, bits in self._sent) / self._window

    def _forget(self, now: float) -> None:
        while self._sent and now - self._sent[0][0] > self._window:
            self._sent.popleft()


class BitrateControl:
    """The lowest limit among the viewers, followed down at once and up slowly.

    An estimate says little about the link while less is sent than the link carries: it starts near
    what arrives, rises by some percent a second and is capped at 1.5 times what arrives. Only one
    below the rate really sent, twice running, is a limit. Moves smaller than a quarter are ignored,
    because a move costs VP8 a keyframe. A rise is at most half of the rate, waits `up_after`
    seconds since the last move, and twice as long after each rise that had to be taken back.
    """

    def __init__(self, nominal: int, *, up_after: float = 6.0, settle: float = 2.0) -> None:
        self.nominal = nominal
        self.target = nominal
        self._first_wait = self._wait = up_after
        self._settle = settle
        self._limits: dict[Hashable, int] = {}
        self._low: dict[Hashable, int] = {}
        self._since: dict[Hashable, float] = {}
        self._moved_at = self._rose_at = float("-inf")

    def estimate(self, viewer: Hashable, estimate: int, sent: float, now: float) -> int:
        """Take a viewer's estimate (REMB) and the rate sent to it lately, bits per second.

        The answer is the rate to encode at. A viewer's first `settle` seconds count nothing.
        """
        if now - self._since.setdefault(viewer, now) >= self._settle:
            low = self._low.get(viewer, 0) + 1 if estimate < sent else 0
            self._low[viewer] = low
            if low != 1:
                self._limits[viewer] = estimate if low else self.nominal
            self._move(now)
        return self.target

    def forget(self, viewer: Hashable, now: float) -> int:
        for known in (self._since, self._low, self._limits):
            known.pop(viewer, None)
        self._move(now)
        return self.target

    def _move(self, now: float) -> None:
        lowest = min(self._limits.values(), default=self.nominal)
        wanted = min(self.nominal, max(MIN_BITRATE, lowest))
        if wanted <= 0.75 * self.target:
            taken_back = now - self._rose_at < 10.0
            self._wait = min(60.0, 2 * self._wait) if taken_back else self._first_wait
            self.target, self._moved_at = wanted, now
        elif wanted >= 1.25 * self.target and now - self._moved_at >= self._wait:
            self.target, self._moved_at = min(wanted, self.target * 3 // 2), now
            self._rose_at = now
