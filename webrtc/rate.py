"""Small rules of a shared encode: when to make a keyframe, and at which bit rate to run.

Pure state machines over instants that the caller gives (seconds on one clock).
"""

from collections import deque

from onbeat.webrtc.encoders import MIN_BITRATE

FALL_LOSS, RISE_LOSS = 0.10, 0.02
"""Shares of packets lost above which a rate falls, and above which it does not rise."""
FALL_EVERY = 1.0
CLEAN_FOR = 3.0
TAKEN_BACK_WITHIN = 10.0
"""Seconds: between falls for losses; without losses before a rise; of a rise that was too much."""
FELL = 0.95
"""An estimate below this share of the one before has fallen."""
BACK_EVERY = 2.0
"""Seconds between rises towards a rate that the link carried until it began to lose packets."""


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

    def closed(self, now: float) -> bool:
        """Whether no keyframe may be made at `now`, because the last one is too fresh."""
        return now - self._last < self._interval

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


class LinkRate:
    """What one viewer's link is trusted with: followed down at once and up slowly.

    An estimate says little about the link while less is sent than the link carries: it starts near
    300 kbit/s, whatever arrives, rises by some percent a second for up to 20 s and is capped at 1.5
    times what arrives. It is a limit only once it has fallen, which is how a receiver tells of a
    queue, while it is below the rate really sent, twice running. Losses above a tenth lower the
    rate, and those above a fiftieth forbid to raise it (draft-ietf-rmcat-gcc-02, section 6).

    A rise is at most half of the rate, waits `up_after` seconds since the last move, and twice as
    long after each that had to be taken back, until one holds. A fall for losses does not measure
    the link as an estimate does: once they end the rate is back, in rises each `BACK_EVERY`
    seconds, where it was, unless one has to be taken back. Estimates of a viewer's first `settle`
    seconds count nothing, nor losses of the first third of those: joining is a burst.
    """

    def __init__(self, nominal: int, *, up_after: float = 6.0, settle: float = 6.5) -> None:
        self.nominal = nominal
        self.target = nominal
        self._first_wait = self._wait = up_after
        self._settle = settle
        self._low = self._carried = self._estimate = 0
        self._fell = False
        self._since: float | None = None
        self._moved_at = self._rose_at = self._lossy_at = float("-inf")

    def estimate(self, estimate: int, sent: float, now: float) -> int:
        """Take the receiver's estimate (REMB) and the rate sent lately, bits per second."""
        if self._age(now) >= self._settle:
            self._fell = estimate < sent and (self._fell or estimate < FELL * self._estimate)
            self._low = self._low + 1 if self._fell else 0
            if self._low != 1:
                self._move(estimate if self._low else self.nominal, now)
        self._estimate = estimate
        return self.target

    def lost(self, fraction: float, now: float) -> int:
        """Take the share of packets lost since the last report, 0 to 1 (RFC 3550, 6.4.1)."""
        if self._age(now) >= self._settle / 3:
            if fraction > RISE_LOSS:
                self._lossy_at = now
            if fraction > FALL_LOSS and now - self._moved_at >= FALL_EVERY:
                carried = max(self._carried, self.target)
                taken_back = self._fall(round(self.target * (1 - fraction / 2)), now)
                self._carried = 0 if taken_back else carried
        return self.target

    def _age(self, now: float) -> float:
        """Seconds since it first heard of its viewer."""
        self._since = now if self._since is None else self._since
        return now - self._since

    def _move(self, limit: int, now: float) -> None:
        wanted = min(self.nominal, max(MIN_BITRATE, limit))
        if wanted <= 0.75 * self.target:
            self._fall(wanted, now)
            self._carried = 0
        elif wanted > self.target and self._may_rise(now):
            self.target, self._moved_at = min(wanted, self.target * 3 // 2), now
            self._rose_at = now

    def _may_rise(self, now: float) -> bool:
        clean = now - self._lossy_at >= CLEAN_FOR
        if float("inf") > now - self._rose_at >= TAKEN_BACK_WITHIN:
            self._wait = self._first_wait
        back = self.target < self._carried
        return clean and now - self._moved_at >= (BACK_EVERY if back else self._wait)

    def _fall(self, wanted: int, now: float) -> bool:
        """Whether it takes back a rise."""
        taken_back = now - self._rose_at < TAKEN_BACK_WITHIN
        if taken_back:
            self._wait, self._rose_at = min(60.0, 2 * self._wait), float("-inf")
        elif now - self._moved_at >= TAKEN_BACK_WITHIN:
            self._wait = self._first_wait
        self.target, self._moved_at = max(MIN_BITRATE, wanted), now
        return taken_back
