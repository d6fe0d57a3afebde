"""The books of paused streams: where each one is, which host buffer it has, what copies have done.

Plain data without decisions (residency.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from onbeat.server.engine.streams import Stream
from onbeat.server.engine.transfer import Ticket

FIRST_BYTES_PER_SECOND = 1e9
"""Believed of a lane until a copy has been measured."""
SMOOTHING = 0.2


@dataclass(slots=True, kw_only=True, eq=False)
class Stay:
    """A stream that is paused, or not back yet."""

    stream: Stream
    since: float
    chunks: int = 0
    """In the buffer."""
    buffer: int | None = None
    ticket: Ticket | None = None

    @property
    def may_leave(self) -> bool:
        """Its pages may go: it is between two chunks, and no copy uses them."""
        stream = self.stream
        return stream.paused and stream.state is None and stream.place == "resident"

    def check(self) -> None:
        stream, place = self.stream, self.stream.place
        assert (self.ticket is not None) == (place in ("offloading", "restoring")), stream.id
        kept = place in ("offloading", "host", "restoring")
        assert kept == (self.buffer is not None), f"{stream.id} is {place}"


class HostBooks:
    """Numbers of host buffers, each of which holds one stream's window."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free: list[int] = []
        self.made = 0

    @property
    def used(self) -> int:
        return self.made - len(self._free)

    def take(self) -> int | None:
        """The buffer used last, so that no more memory is touched than needed; None if all are."""
        if self._free:
            return self._free.pop()
        if self.made == self.limit:
            return None
        self.made += 1
        return self.made - 1

    def give_back(self, buffer: int) -> None:
        assert buffer not in self._free, f"buffer {buffer} given back twice"
        self._free.append(buffer)


@dataclass(kw_only=True)
class Copied:
    """What the copy lanes did since the start, bytes and seconds.

    `exposed`: seconds in which the compute lane had nothing to run while a stream that was admitted
    waited for its restore, queued or under way. The rest of the copying was hidden: behind the rows
    of other streams, or behind a pause. `waited`: seconds between a stream being promised its pages
    and having them, exposed or hidden, added up over streams.
    """

    bytes: int = 0
    seconds: float = 0.0
    exposed: float = 0.0
    waited: float = 0.0
    offloads: int = 0
    restores: int = 0
    dropped: int = 0
    """Streams that were left with their latents."""
    failed: int = 0

    def __post_init__(self) -> None:
        self.speed = {"copy-in": FIRST_BYTES_PER_SECOND, "copy-out": FIRST_BYTES_PER_SECOND}
        self._restores: list[Ticket] = []
        self._idle_since: float | None = None

    def since(self, before: "Copied") -> "Copied":
        """What was done after `before`."""
        return Copied(
            **{f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields(self)}
        )

    def seconds_for(self, data: int) -> float:
        """Predicted, of `data` bytes out and in again."""
        return sum(data / speed for speed in self.speed.values())

    def began(self, restore: Ticket) -> None:
        self._restores.append(restore)

    def ended(self, ticket: Ticket) -> None:
        if ticket.lane == "copy-in" and ticket.ended_at is not None:
            self.waited += ticket.ended_at - ticket.queued_at
        self.bytes += ticket.bytes_done
        self.seconds += ticket.seconds
        if ticket.state == "done" and ticket.seconds > 0.0:
            new = ticket.bytes / ticket.seconds
            self.speed[ticket.lane] += SMOOTHING * (new - self.speed[ticket.lane])

    def planned(self, now: float, *, idle: bool) -> None:
        """Told once a tick whether the compute lane has nothing to run until the next one."""
        if self._idle_since is not None and self._restores:
            self.exposed += _overlap(self._restores, self._idle_since, now)
        self._restores = [t for t in self._restores if not t.ended]
        self._idle_since = now if idle else None


def _overlap(tickets: Sequence[Ticket], since: float, now: float) -> float:
    """Seconds of [since, now] in which any of one lane's tickets was queued or under way."""
    begun = max(since, min(t.queued_at for t in tickets))
    ends = (now if t.ended_at is None else t.ended_at for t in tickets)
    return max(0.0, min(now, max(ends)) - begun)
