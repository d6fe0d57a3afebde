"""When each picture was taken, encoded and sent: the sender's part of a frame's way.

Instants on the broadcast's clock. Bounded: what nobody asks for is forgotten. It counts nothing
(tally.py) and knows neither what came before the broadcast nor what the viewers see.
"""

from dataclasses import dataclass

MOST_PENDING = 512
SETTLED_AFTER = 0.25
"""Seconds after its encoding at which a frame is told of, though a viewer may still be sent to."""
LONGEST_SEND = 2.0
"""Seconds that one is waited for of which nothing has left: a sender that stalls is to be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTimes:
    """One picture that was sent. `number`: inside its chunk; `pts`: 90 kHz ticks of media time;
    `due`: its playout instant; `taken_at`: given to the encoders; `encoded_at`: the last encoder
    was done; `sent_at`: the slowest viewer's last packet left."""

    chunk: int
    number: int
    pts: int
    due: float
    taken_at: float
    encoded_at: float
    sent_at: float


@dataclass(slots=True, kw_only=True)
class _Pending:
    chunk: int
    number: int
    due: float
    taken_at: float
    encoded_at: float | None = None
    sent_at: float | None = None


class FrameLog:
    """The pictures under way, by time stamp."""

    def __init__(self) -> None:
        self._pending: dict[int, _Pending] = {}

    def taken(self, pts: int, *, chunk: int, number: int, due: float, now: float) -> None:
        while len(self._pending) >= MOST_PENDING:
            self._pending.pop(next(iter(self._pending)))
        self._pending[pts] = _Pending(chunk=chunk, number=number, due=due, taken_at=now)

    def encoded(self, pts: int, now: float) -> None:
        """An encoder's packet lies in the queues of its viewers."""
        if (frame := self._pending.get(pts)) is not None:
            frame.encoded_at = now

    def lost(self, pts: int) -> None:
        """It reached nobody."""
        self._pending.pop(pts, None)

    def sent(self, pts: int, now: float) -> None:
        """All of it has left for one viewer."""
        frame = self._pending.get(pts)
        if frame is not None and frame.encoded_at is not None:
            frame.sent_at = now

    def take(self, now: float, *, sending: bool = False) -> list[FrameTimes]:
        """Those that are over since the last call, oldest first. A frame that no connection has
        sent (a tap alone took it) is told of as sent when it was encoded. `sending`: there are
        connections."""
        over = {pts: f for pts, f in self._pending.items() if _settled(f, now, sending)}
        for pts in over:
            del self._pending[pts]
        return [_times(pts, frame) for pts, frame in over.items()]


def _settled(frame: _Pending, now: float, sending: bool) -> bool:
    unsent = sending and frame.sent_at is None
    wait = LONGEST_SEND if unsent else SETTLED_AFTER
    return frame.encoded_at is not None and now - frame.encoded_at >= wait


def _times(pts: int, frame: _Pending) -> FrameTimes:
    assert frame.encoded_at is not None
    return FrameTimes(
        chunk=frame.chunk,
        number=frame.number,
        pts=pts,
        due=frame.due,
        taken_at=frame.taken_at,
        encoded_at=frame.encoded_at,
        sent_at=frame.encoded_at if frame.sent_at is None else frame.sent_at,
    )
