"""The engine's settings and its clock: plain values, resolved before the engine starts.

What it is not: the user's settings (server/config.py), which are turned into these once.
"""

import time
from dataclasses import dataclass
from typing import Protocol

HEADROOM = 0.75
PLAN_AHEAD = ("auto", "on", "off")
POLICIES = (
    "edf-s",
    "edf-greedy",
    "orca",
    "coalesced",
    "static",
    "time-slice",
    "fcfs-chunk",
    "process-per-stream",
)


class Clock(Protocol):
    """Where the engine reads the time; tests inject one that they move themselves."""

    def now(self) -> float:
        """Seconds on a monotonic clock."""


class MonotonicClock:
    """The system-wide monotonic clock, the same in every process of this machine."""

    def now(self) -> float:
        return time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an engine may use and how it decides. Raises ValueError naming field and value."""

    policy: str = "edf-s"
    admission: bool = True
    anytime: bool = True
    """edf-s: whether a chunk may stop before its planned steps."""
    headroom: float = HEADROOM
    """The share of each lane that admission may promise to live streams."""
    max_rows: int = 24
    max_streams: int = 64
    """Live streams open at once, paused ones too."""
    max_active: int = 0
    """Live streams that have pages at once; 0: as many as may be open."""
    max_jobs: int = 8
    pages: int = 0
    """KV pages; 0 sizes the pool for the active streams and `max_jobs`."""
    host_memory: int = 1 << 30
    """Bytes of host memory for the pages of paused streams; 0 keeps only their latents."""
    offload_after_seconds: float = 2.0
    """A stream that is paused this long gives its pages back; earlier if others need them."""
    compute_threads: int = 1
    decode_threads: int = 1
    max_decode_rows: int = 4
    decode_lane: bool = True
    """False decodes inside the tick, for tests on a clock that is not the system's."""
    playout_buffer_chunks: float = 1.0
    """Between a stream's first chunk being ready and it being due, at least."""
    delivery_seconds: float = 0.03
    """Kept free between a decoded chunk and its playout: hand-over, encoding, sending."""
    startup_seconds: float = 0.5
    """How urgent a stream's first chunk is; it has no playout time yet and is never dropped."""
    max_behind_chunks: int = 5
    """A stream further behind its clock than this starts a new clock instead of catching up."""
    recover_seconds: float = 1.0
    """Time without pressure before a degraded stream gets a level back."""
    firm_m: int = 29
    firm_k: int = 30
    """So many of any k consecutive chunks of a stream should be on time; if chunks must be given
    up, those of streams that are far from missing that come first."""
    job_ahead_chunks: int = 2
    """Chunks of a job that may wait to be decoded."""
    split_rows: int = 0
    """From so many rows on a batch runs as two halves beside each other, on two streams or two of
    the compute threads; 0: 8 on a CPU with two or more of them, otherwise never."""
    plan_ahead: str = "auto"
    """"on": a tick is planned while the forward before it runs, in a lane of its own; "auto": on
    where launches return at once (CUDA), off on a CPU, where it costs more than it hides."""
    stats_seconds: float = 0.25
    trace: bool = True
    """Whether the last seconds are kept for a trace file."""

    @property
    def active_streams(self) -> int:
        """Live streams that the pool is sized for."""
        return self.max_active or self.max_streams

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy: {self.policy!r}; allowed: {', '.join(POLICIES)}")
        if self.plan_ahead not in PLAN_AHEAD:
            raise ValueError(f"plan_ahead: {self.plan_ahead!r}; allowed: {', '.join(PLAN_AHEAD)}")
        if not 0.0 < self.headroom <= 1.0:
            raise ValueError(f"headroom: {self.headroom}; allowed: above 0, at most 1")
        for name in ("max_rows", "max_streams", "compute_threads", "decode_threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)}; allowed: 1 or more")
        for name in (
            "max_active",
            "pages",
            "max_jobs",
            "host_memory",
            "offload_after_seconds",
            "split_rows",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)}; allowed: 0 or more")
        if not 0 <= self.firm_m <= self.firm_k or self.firm_k < 1:
            raise ValueError(f"firm_m, firm_k: {self.firm_m}, {self.firm_k}; allowed: m at most k")
