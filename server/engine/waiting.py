"""Live streams that wait for room: in which order they come in, and for about how long they wait.

Fair between owners: who holds the fewest streams is next, then who came first. What it is not: the
decision that there is room (admission.py), or the opening (roster.py).
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from onbeat.server.engine.messages import Event, OpenStream, StreamQueued
from onbeat.server.engine.streams import Stream

LOOK_SECONDS = 0.5
"""The room is looked at when something changed, and this often because costs are learnt."""
TELL_SECONDS = 2.0
CHANGED = 0.2
"""An estimate is told again if it changed by this share."""
REMEMBERED = 64


@dataclass(slots=True, kw_only=True)
class Waiting:
    """One place in the queue: a stream to be opened, or a paused one that is wanted again."""

    opening: OpenStream
    stream: Stream | None = None
    told: tuple[int, float | None] = (0, None)
    told_at: float = 0.0

    @property
    def id(self) -> str:
        return self.opening.stream_id

    @property
    def rests(self) -> bool:
        """It is to be opened paused."""
        return self.stream is None and self.opening.paused

    @property
    def owner(self) -> str:
        return self.opening.owner


class Lifetimes:
    """How long streams keep their share of time, from those that ended and those that run.

    For lifetimes without memory (exponential) the likeliest mean is all time served, by ended and
    by running streams, divided by the number of ended ones; with n running, one ends every mean/n
    seconds. None before the first has ended.
    """

    def __init__(self) -> None:
        self._ended: deque[float] = deque(maxlen=REMEMBERED)

    def ended(self, seconds: float) -> None:
        self._ended.append(max(0.0, seconds))

    def mean(self, running: Iterable[float]) -> float | None:
        """Of the share of time of one stream; `running`: ages of those that hold one now."""
        if not self._ended:
            return None
        return (sum(self._ended) + sum(running)) / len(self._ended)

    def until(self, place: int, running: Iterable[float]) -> float | None:
        """Seconds until `place` streams have ended."""
        ages = list(running)
        mean = self.mean(ages)
        return None if mean is None else place * mean / max(1, len(ages))


class WaitingRoom:
    """Streams by id, in order of arrival. The tick thread owns it."""

    def __init__(self) -> None:
        self._places: dict[str, Waiting] = {}
        self._look_at = -float("inf")

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._places

    def ids(self) -> list[str]:
        return list(self._places)

    def get(self, stream_id: str) -> Waiting | None:
        return self._places.get(stream_id)

    def add(self, place: Waiting) -> None:
        self._places[place.id] = place
        self.changed()

    def remove(self, stream_id: str) -> Waiting | None:
        self.changed()
        return self._places.pop(stream_id, None)

    def changed(self) -> None:
        """Something happened that may have made room."""
        self._look_at = -float("inf")

    def due(self, now: float) -> bool:
        """Whether to look for room now; at most twice a second if nothing changed."""
        if not self._places or now < self._look_at:
            return False
        self._look_at = now + LOOK_SECONDS
        return True

    def in_order(self, held: Mapping[str, int]) -> list[Waiting]:
        """Who is next; `held`: streams with a share of time by owner. Who was paused while it
        waited to be opened asks for no share, and is opened before all others."""
        counts = Counter(held)
        ranked = []
        for at, place in enumerate(self._places.values()):
            ranked.append((-1 if place.rests else counts[place.owner], at, place))
            counts[place.owner] += not place.rests
        return [place for *_, place in sorted(ranked, key=lambda entry: entry[:2])]

    def place_of(self, owner: str, held: Mapping[str, int]) -> int:
        """The place that a newcomer of `owner` would have; 1 is next."""
        mine = held.get(owner, 0) + sum(p.owner == owner for p in self._places.values())
        ahead = 0
        counts = Counter(held)
        for place in self._places.values():
            ahead += counts[place.owner] <= mine
            counts[place.owner] += 1
        return ahead + 1

    def tell(
        self,
        now: float,
        held: Mapping[str, int],
        until: Callable[[int], float | None],
        emit: Callable[[Event], None],
    ) -> None:
        """Says each stream's place, and the estimate of `until(place)`, where they have changed."""
        for at, place in enumerate(self.in_order(held), 1):
            seconds = until(at)
            if _differs(place, at, seconds, now):
                place.told, place.told_at = (at, seconds), now
                emit(StreamQueued(stream_id=place.id, position=at, estimated_seconds=seconds))


def _differs(place: Waiting, at: int, seconds: float | None, now: float) -> bool:
    told_place, told = place.told
    if at != told_place or (seconds is None) != (told is None):
        return True
    if seconds is None or told is None or now - place.told_at < TELL_SECONDS:
        return False
    return abs(seconds - told) > CHANGED * told
