"""A link and a receiver in simulated time, for the rules of the rate. No sockets, no codecs.

The receiver estimates as draft-ietf-rmcat-gcc-02 describes, section 5.5: while the queue grows its
estimate is 0.85 of what arrives, else it rises by 8 % a second, up to 1.5 of what arrives. As
browsers do it tells a constant for its first seconds, and then begins with what arrives, or goes on
from there if `slow_start`. It reports its losses at odd times, as often as after two packets.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from onbeat.webrtc.losses import LossMeter
from onbeat.webrtc.rate import LinkRate

TICK = 0.05
"""Seconds of one step."""
PACKET = 8 * 1100
"""Bits of one."""
FIRST_SECONDS = 5.0
OVERUSE = 0.012
"""Growth of the queue in a step, seconds, from which it is overuse."""


@dataclass(kw_only=True)
class SimulatedLink:
    """`capacity(t)` in bits per second, `loss(t)` a share; `longest_queue` in seconds.

    A lost packet is sent once more.
    """

    rate: LinkRate
    capacity: Callable[[float], float]
    loss: Callable[[float], float]
    seed: int = 1
    slow_start: bool = False
    now: float = 0.0
    estimate: float = 300_000.0
    longest_queue: float = 0.0
    history: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._queue = self._bits = self._first = 0.0
        self._arrived: list[float] = []
        self._meter = LossMeter()
        self._highest = self._lost = self._step = 0

    def run(self, until: float) -> None:
        while self.now < until:
            self._advance()

    def at(self, instant: float) -> int:
        """The target then."""
        return [target for when, target in self.history if when <= instant][-1]

    def lowest(self, begin: float, end: float) -> int:
        return min(target for when, target in self.history if begin <= when <= end)

    def _advance(self) -> None:
        self._step += 1
        self.now = self._step * TICK
        sent = self._send()
        capacity = self.capacity(self.now) * TICK
        before = self._queue
        arrived = min(self._queue + sent, capacity)
        self._queue = max(0.0, self._queue + sent - capacity)
        self._arrived = [*self._arrived[-19:], arrived]
        grown = (self._queue - before) / max(1.0, capacity / TICK)
        self.longest_queue = max(self.longest_queue, self._queue / max(1.0, capacity / TICK))
        self._estimate(grown)
        if self._step % 8 == 0:
            self.rate.estimate(int(self.estimate), self._incoming(), self.now)
        share = self._meter.hear(self._highest, self._lost, self.now) if self._reports() else None
        if share is not None:
            self.rate.lost(share, self.now)
        self.history.append((self.now, self.rate.target))

    def _reports(self) -> bool:
        return self._random.random() < 0.4

    def _send(self) -> float:
        """Bits of this step, repairs included."""
        self._bits += self.rate.target * TICK
        packets, self._bits = divmod(self._bits, PACKET)
        lost = sum(self._random.random() < self.loss(self.now) for _ in range(int(packets)))
        self._highest += int(packets)
        self._lost += lost
        return (packets + lost) * PACKET

    def _incoming(self) -> float:
        return sum(self._arrived) / (len(self._arrived) * TICK)

    def _estimate(self, grown: float) -> None:
        incoming = self._incoming()
        if self.now <= FIRST_SECONDS:
            self._first = 0.0 if self.slow_start else incoming
            return
        self.estimate, self._first = max(self.estimate, self._first), 0.0
        if grown > OVERUSE:
            self.estimate = min(self.estimate, 0.85 * incoming)
        else:
            risen = min(self.estimate * 1.08**TICK, 1.5 * incoming + 10_000)
            self.estimate = max(self.estimate, risen)
