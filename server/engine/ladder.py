"""A stream's quality: the levels it may be given, and when it moves between them.

The levels are data (`levels_of`), so that a model with more than steps to give can name them. What
it is not: the decision that a chunk ends early or is dropped (policies), which moves the ladder.
"""

from collections import deque
from dataclasses import dataclass, field
from functools import cache

QUICKER = 2
"""After the first level back, further ones need this many times less calm: the way up has proved
itself, and full quality is to return within two seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One quality: its name for people, and the steps of a chunk at it."""

    name: str
    steps: int


@cache
def levels_of(steps: int) -> tuple[Level, ...]:
    """The levels of a stream that asked for `steps` steps a chunk, best first.

    Steps are all that toybox can give: its sound is made with every chunk, so that frames cannot be
    left out of one, and it has one size.
    """
    fewer = (Level(name=f"{n} of {steps} steps", steps=n) for n in range(steps - 1, 0, -1))
    return (Level(name="full", steps=steps), *fewer)


@dataclass(slots=True, kw_only=True)
class Ladder:
    """Where one stream stands. A level down if two chunks in short order ended early, or one was
    dropped; a level up after `calm_chunks` chunks without either, then sooner.

    `bends`: False keeps the stream at full quality whatever happens.
    """

    calm_chunks: int
    bends: bool = True
    level: int = 0
    floor: int = 0
    """The best level that is worth giving: the viewers' links carry no better picture."""
    _calm: int = 1 << 30
    """Chunks since the last one that ended early."""
    _rising: bool = False

    def current(self, steps: int) -> Level:
        """The level that a stream which asked for `steps` steps has now."""
        levels = levels_of(steps)
        return levels[min(self.level, len(levels) - 1)]

    def dropped(self, steps: int) -> None:
        self._down(steps)
        self._calm = 0

    def ended_early(self, steps: int) -> None:
        if self._calm < self.calm_chunks:
            self._down(steps)
        self._calm, self._rising = 0, False

    def ended(self) -> None:
        """A chunk had all its planned steps."""
        self._calm += 1
        wanted = max(1, self.calm_chunks // QUICKER) if self._rising else self.calm_chunks
        if self.level > self.floor and self._calm >= wanted:
            self.level -= 1
            self._calm, self._rising = 0, self.level > self.floor

    def hold(self, floor: int, steps: int) -> None:
        """No better than `floor` from now on; a lower one than now is reached by rising."""
        self.floor = min(floor, len(levels_of(steps)) - 1) if self.bends else 0
        self.level = max(self.level, self.floor)

    def _down(self, steps: int) -> None:
        if self.bends:
            self.level = min(self.level + 1, len(levels_of(steps)) - 1)
        self._rising = False


@dataclass(slots=True, kw_only=True)
class FirmRecord:
    """How a stream stands by (m,k): m of any k consecutive chunks should be on time.

    Hamdaoui and Ramanathan, "A dynamic priority assignment technique for streams with (m,k)-firm
    deadlines", IEEE Transactions on Computers 44(12), 1995.
    """

    m: int
    k: int
    broken: int = 0
    """Chunks after which fewer than m of the last k were on time."""
    _recent: deque[bool] = field(default_factory=deque)
    _missed: int = 0

    @property
    def credit(self) -> int:
        """Misses that the next chunks may still be, with what is remembered; below 0: too many."""
        return self.k - self.m - self._missed

    def note(self, on_time: bool) -> None:
        """The outcome of one chunk; k - 1 are remembered, the next one is the k-th."""
        missed = self._missed + (not on_time)
        self.broken += missed > self.k - self.m
        self._recent.append(on_time)
        self._missed = missed
        if len(self._recent) >= self.k:
            self._missed -= not self._recent.popleft()
