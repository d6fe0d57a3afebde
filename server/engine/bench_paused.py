"""Many open sessions, few of them active, with pauses and resumes all the while: who is paused and
resumed when, and how long a resume takes. Drives any engine by commands and events.

What it is not: an engine, a clock, or a report (benchmarks/engine/paused.py).
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    Command,
    ControlStream,
    Event,
    OpenStream,
    StreamEnded,
    StreamRefused,
)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What came out. Latencies: seconds from a resume's command to its first chunk being ready."""

    latencies: list[float] = field(default_factory=list)
    on_time: int = 0
    late: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    steps: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def on_time_ratio(self) -> float:
        missed = self.late + sum(self.dropped.values())
        return self.on_time / max(1, self.on_time + missed)


class Swaps:
    """`sessions` streams of which `active` run; a swap pauses the one that has run longest and
    resumes the one that has been paused longest."""

    def __init__(
        self, send: Callable[[Command], None], *, sessions: int, active: int, prompts: Sequence[str]
    ) -> None:
        self._send, self._wanted = send, active
        self._prompts = prompts
        self._paused = deque(f"stream_{i}" for i in range(sessions))
        self._active: deque[str] = deque()
        self._resumed: dict[str, float] = {}
        self._revision = 0
        self.tally = Tally()

    def open(self) -> None:
        """All of them, paused."""
        for i, stream_id in enumerate(self._paused):
            prompt = self._prompts[i % len(self._prompts)]
            self._send(
                OpenStream(stream_id=stream_id, kind="live", prompt=prompt, seed=i, paused=True)
            )

    @property
    def waiting(self) -> int:
        """Resumed streams that have not made a chunk yet."""
        return len(self._resumed)

    def resume(self, now: float) -> None:
        stream_id = self._paused.popleft()
        self._active.append(stream_id)
        self._resumed[stream_id] = now
        self._control(stream_id, paused=False)

    def pause(self) -> None:
        stream_id = self._active.popleft()
        self._paused.append(stream_id)
        self._resumed.pop(stream_id, None)
        self._control(stream_id, paused=True)

    def swap(self, now: float) -> None:
        if len(self._active) >= self._wanted:
            self.pause()
        self.resume(now)

    def _control(self, stream_id: str, *, paused: bool) -> None:
        self._revision += 1
        self._send(ControlStream(stream_id=stream_id, revision=self._revision, paused=paused))

    def see(self, event: Event) -> None:
        """Counts an event. The caller takes chunks out of their slots."""
        tally = self.tally
        match event:
            case ChunkReady():
                tally.on_time += event.on_time
                tally.late += not event.on_time
                tally.steps[event.steps] += 1
                asked = self._resumed.get(event.stream_id)
                if asked is not None and event.stages.released_at >= asked:
                    tally.latencies.append(event.ready_at - asked)
                    del self._resumed[event.stream_id]
            case ChunkDropped(cause=cause):
                tally.dropped[cause] += 1
            case StreamRefused(reason=reason):
                tally.failures.append(reason)
            case StreamEnded(stream_id=stream_id, reason=reason, error=error):
                tally.failures.append(f"{stream_id}: {error or reason}")
            case _:
                pass
