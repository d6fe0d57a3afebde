"""How well the viewers' links carry a session, and how far down the ladder that lets it go.

Renditions come first: they are the transport's, and each viewer's own. Only when every viewer is at
the last one and still badly off does the session itself make less. Pure state; no clock of its own.
"""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["good", "fair", "poor"]

WORST_LOSS, BAD_LOSS = 0.10, 0.02
WORST_SHOWN, BAD_SHOWN = 0.6, 0.85
"""Shares: packets that were lost, frames that were shown of those that were sent."""
SLOW_TRIP_MS = 400.0
"""A round trip so long tells of a queue on the way."""
FRESH_SECONDS = 5.0
"""A report that is older says nothing any more."""
DOWN_AFTER, UP_AFTER = 4.0, 12.0
"""Seconds of poor links before a step down, of links that are not poor before a step up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a viewer's side last said. `freezes`: since the report before."""

    at: float
    fps_shown: float | None
    loss: float
    freezes: float
    round_trip_ms: float


class ViewerLink:
    """One viewer's reports."""

    def __init__(self) -> None:
        self.last: Report | None = None
        self._freezes = 0.0

    def report(self, numbers: dict[str, float], now: float) -> None:
        """Read: `fps_shown`, `lost_ratio` (0 to 1), `freeze_count` (a total), `rtt_ms`; if any."""
        freezes = numbers.get("freeze_count", 0.0)
        self.last = Report(
            at=now,
            fps_shown=numbers.get("fps_shown"),
            loss=numbers.get("lost_ratio", 0.0),
            freezes=max(0.0, freezes - self._freezes),
            round_trip_ms=numbers.get("rtt_ms", 0.0),
        )
        self._freezes = freezes

    def verdict(self, fps_sent: float, now: float, loss: float = 0.0) -> Verdict | None:
        """None without a fresh report. `loss`: as RTCP tells it. Frames that are not shown are the
        link's doing only if it loses or holds up packets; else the viewer's machine is slow."""
        if self.last is None or now - self.last.at > FRESH_SECONDS:
            return None
        loss = max(loss, self.last.loss)
        shown = self.last.fps_shown
        share = 1.0 if shown is None or fps_sent <= 1 else shown / fps_sent
        strained = loss > BAD_LOSS or self.last.round_trip_ms > SLOW_TRIP_MS
        stalls = share < WORST_SHOWN or self.last.freezes > 0
        if loss > WORST_LOSS or (strained and stalls):
            return "poor"
        return "fair" if strained or stalls or share < BAD_SHOWN else "good"


class LinkLadder:
    """One session's floor: the best ladder level that its links are worth. 0: any."""

    def __init__(self) -> None:
        self.level = 0
        self.verdict: Verdict | None = None
        self._poor_since: float | None = None
        self._calm_since: float | None = None

    def update(
        self, verdicts: list[Verdict], *, at_last_rendition: bool, most: int, now: float
    ) -> bool:
        """`verdicts`: of the viewers that look; `most`: the last level. Whether it moved."""
        order: tuple[Verdict, ...] = ("good", "fair", "poor")
        self.verdict = min(verdicts, key=order.index) if verdicts else None
        poor = self.verdict == "poor" and at_last_rendition
        self._poor_since = (self._poor_since or now) if poor else None
        calm = bool(verdicts) and self.verdict != "poor"
        self._calm_since = (self._calm_since or now) if calm or not verdicts else None
        before = self.level
        if self._poor_since is not None and now - self._poor_since >= DOWN_AFTER:
            self.level, self._poor_since = min(most, self.level + 1), now
        elif self.level and self._calm_since is not None and now - self._calm_since >= UP_AFTER:
            self.level, self._calm_since = self.level - 1, now
        return self.level != before
