"""Who comes when: sessions from random arrivals and lengths. The same seed, the same list.

Arrivals are the one open-loop axis: what a session's chunks ask for follows from its class and its
clock. What it is not: traces from files (traces.py).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from onbeat.server.vocabulary import StreamKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamClass:
    """A kind of session. `share`: of all sessions, against the other classes' shares; `ahead`:
    chunk lengths between a chunk's release and its playout; `steps`: denoise steps per chunk."""

    name: str = "live"
    share: float = 1.0
    steps: int = 4
    ahead: int = 2
    kind: StreamKind = "live"

    def __post_init__(self) -> None:
        if self.share < 0.0 or self.steps < 1 or self.ahead < 1:
            raise ValueError(f"{self}; allowed: share >= 0, steps >= 1, ahead >= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One stream that wants to be served. Seconds on the simulation's clock, which starts at 0."""

    name: str
    start: float
    seconds: float
    kind: StreamClass
    prompt: str = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Sessions per second. `burstiness` is the shape of the gamma distribution of the gaps: 1 is
    Poisson, below 1 bursty, above 1 regular (the meaning it has in vLLM's benchmark)."""

    rate: float
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if self.rate <= 0.0 or self.burstiness <= 0.0:
            raise ValueError(f"{self}; allowed: rate > 0, burstiness > 0")

    def times(self, rng: Random, until: float) -> Iterator[float]:
        """Arrival instants from 0 to `until`."""
        scale = 1.0 / (self.rate * self.burstiness)
        at = rng.gammavariate(self.burstiness, scale)
        while at < until:
            yield at
            at += rng.gammavariate(self.burstiness, scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Session lengths in seconds: `mean`, and lognormal around it if `sigma` (of the logarithm) is
    above 0; never below `least`."""

    mean: float
    sigma: float = 0.0
    least: float = 1.0

    def __post_init__(self) -> None:
        if self.mean <= 0.0 or self.sigma < 0.0:
            raise ValueError(f"{self}; allowed: mean > 0, sigma >= 0")

    def draw(self, rng: Random) -> float:
        if self.sigma == 0.0:
            return max(self.least, self.mean)
        middle = math.log(self.mean) - 0.5 * self.sigma**2
        return max(self.least, rng.lognormvariate(middle, self.sigma))


def arriving(
    arrivals: Arrivals,
    lengths: Lengths,
    *,
    until: float,
    classes: Sequence[StreamClass] = (StreamClass(),),
    seed: int = 0,
) -> list[Session]:
    """Sessions that arrive from 0 to `until`, in order."""
    rng = Random(seed)
    kinds = chooser(rng, classes)
    return [
        Session(name=f"s{i}", start=at, seconds=lengths.draw(rng), kind=next(kinds))
        for i, at in enumerate(arrivals.times(rng, until))
    ]


def together(
    count: int,
    seconds: float,
    *,
    within: float,
    classes: Sequence[StreamClass] = (StreamClass(),),
    seed: int = 0,
) -> list[Session]:
    """`count` sessions of `seconds` that join at random instants from 0 to `within`; the classes'
    shares are met exactly, up to rounding, in random order."""
    rng = Random(seed)
    starts = sorted(rng.uniform(0.0, within) for _ in range(count))
    total = sum(c.share for c in classes)
    bounds = [sum(c.share for c in classes[: i + 1]) / total for i in range(len(classes))]
    kinds = [
        next(c for c, bound in zip(classes, bounds, strict=True) if (i + 0.5) / count <= bound)
        for i in range(count)
    ]
    rng.shuffle(kinds)
    return [
        Session(name=f"s{i}", start=start, seconds=seconds, kind=kind)
        for i, (start, kind) in enumerate(zip(starts, kinds, strict=True))
    ]


def chooser(rng: Random, classes: Sequence[StreamClass]) -> Iterator[StreamClass]:
    """Classes for ever, drawn by their shares."""
    weights = [c.share for c in classes]
    if not classes or sum(weights) <= 0.0:
        raise ValueError("classes: none with a share above 0; allowed: at least one")
    while True:
        yield rng.choices(classes, weights)[0]


def mean_active(sessions: Sequence[Session]) -> float:
    """Sessions that are open at once, on average from the first start to the last end."""
    if not sessions:
        return 0.0
    first = min(s.start for s in sessions)
    last = max(s.start + s.seconds for s in sessions)
    return sum(s.seconds for s in sessions) / max(last - first, 1e-9)
