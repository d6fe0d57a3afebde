"""What goes wrong in a simulation, and when: plain data, and the book of what is still to come."""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

FaultKind = Literal["slow", "raise", "commit", "prefill", "decode", "nan", "jump", "restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """From `at` seconds on, once. slow: the next forward takes `seconds` longer. raise,
    commit: the first step or commit of the next forward with one fails. prefill: so does the first
    prompt to be filled. decode, nan: the next decoded chunk fails, or is not finite. jump: the
    clock goes on by `seconds` with nothing done, as after a suspended process. restart: the engine
    dies; a new one is there `seconds` later and streams go on from their snapshots."""

    at: float
    kind: FaultKind
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise ValueError(f"kind: {self.kind!r}; allowed: {', '.join(get_args(FaultKind))}")
        if self.at < 0.0 or self.seconds < 0.0:
            raise ValueError(f"{self}; allowed: at >= 0, seconds >= 0")


class Faults:
    """Each fault happens once, at the first occasion from its instant on."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self._left = sorted(faults, key=lambda f: f.at)

    def add(self, fault: Fault) -> None:
        """One more."""
        insort(self._left, fault, key=lambda f: f.at)

    def clear(self) -> None:
        """No more."""
        self._left.clear()

    def left(self, *kinds: FaultKind) -> int:
        """How many faults of these kinds are still to come."""
        return sum(f.kind in kinds for f in self._left)

    def next_at(self, *kinds: FaultKind) -> float:
        """When the next fault of these kinds is due."""
        return min((f.at for f in self._left if f.kind in kinds), default=float("inf"))

    def take(self, kind: FaultKind, now: float) -> Fault | None:
        """A fault of this kind that is due; it will not come again."""
        if not self._left or self._left[0].at > now:
            return None
        due = next((f for f in self._left if f.kind == kind and f.at <= now), None)
        if due is not None:
            self._left.remove(due)
        return due

    def slow(self, now: float) -> float:
        """Seconds by which a forward that starts now takes longer."""
        fault = self.take("slow", now)
        return fault.seconds if fault is not None else 0.0

    def decode_error(self, now: float) -> str | None:
        """Why a chunk decoded now fails, None if it does not."""
        if self.take("decode", now):
            return "RuntimeError: simulated"
        if self.take("nan", now):
            return "latents that are not finite"
        return None
