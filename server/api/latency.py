"""Frames of the last seconds of all sessions: what their latency is made of, and what is slow now.

Shapes are documented in docs/api.md. On the event loop. Instants on the monotonic clock.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from onbeat.server.api.frames import ALL_STAGES, VIEWER_STAGES, FrameRecord
from onbeat.server.api.measures import WINDOW_SECONDS, Quantiles, quantiles
from onbeat.server.api.tails import slowest, split, tail

MOST_FRAMES = 1024
NOW_SECONDS = 2.0
"""What is slow now is judged by the frames of so many seconds."""


class LatencyWindow:
    """The newest frames, at most MOST_FRAMES: those that left, and those that viewers saw."""

    def __init__(self) -> None:
        self._sent: deque[tuple[float, FrameRecord]] = deque(maxlen=MOST_FRAMES)
        self._seen: deque[tuple[float, FrameRecord]] = deque(maxlen=MOST_FRAMES)

    def sent(self, records: Iterable[FrameRecord], now: float) -> None:
        self._sent.extend((now, record) for record in records)

    def seen(self, records: Iterable[FrameRecord], now: float) -> None:
        self._seen.extend((now, record) for record in records)

    def view(self, now: float, *, late: bool) -> dict[str, Any]:
        """`sent`: to the last packet; `shown`: to the screen; `slowest`: the stage that costs most
        of late. `late`: frames leave late."""
        sent, seen = _since(self._sent, now), _since(self._seen, now)
        recent = [*_since(self._sent, now, NOW_SECONDS), *_since(self._seen, now, NOW_SECONDS)]
        row = tail(recent)
        stage = slowest(row, late=late)
        return {
            "frames": len(sent),
            "sent_ms": quantiles([record.total for record in sent], scale=1e3),
            "shown_ms": quantiles([record.total for record in seen], scale=1e3),
            "sent": split(sent),
            "shown": split(seen),
            "slowest": stage,
            "slowest_ms": row[stage] if row is not None and stage is not None else None,
        }

    def stages(self, now: float) -> dict[str, Quantiles]:
        """Each stage by itself."""
        sent, seen = _since(self._sent, now), _since(self._seen, now)
        return {
            name: quantiles(
                [r.stages[name] for r in (seen if name in VIEWER_STAGES else sent)], scale=1e3
            )
            for name in ALL_STAGES
        }


def _since(
    window: Iterable[tuple[float, FrameRecord]], now: float, seconds: float = WINDOW_SECONDS
) -> list[FrameRecord]:
    return [record for at, record in window if at >= now - seconds]
