"""What a job is: what was asked for, resolved once and for all, and how far it is. Plain data."""

from dataclasses import dataclass
from typing import Literal

import msgspec

JobState = Literal["queued", "in_progress", "completed", "failed", "cancelled"]
ENDED: tuple[JobState, ...] = ("completed", "failed", "cancelled")
MAX_ATTEMPTS = 5


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides the result, with the seed drawn and defaults filled in.

    frames: pictures of the result; sample_rate: of the model's sound in Hz.
    """

    model: str
    prompt: str
    seed: int
    steps: int
    frames: int
    fps: int
    width: int
    height: int
    audio: bool = True
    metadata: dict[str, str] = {}
    owner: str = ""
    """A hash of the API key, for fair shares of the device."""

    @property
    def seconds(self) -> float:
        return self.frames / self.fps


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A row of the store. Instants are Unix seconds. `fence` rises with every claim."""

    number: int
    id: str
    state: JobState
    request: JobRequest
    attempt: int
    fence: int
    progress: float
    """Share of the chunks that are done, 0 to 1."""
    recognised: list[str]
    error_code: str | None
    error_message: str | None
    created_at: float
    started_at: float | None
    completed_at: float | None
    peak_memory_mb: float | None

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def run_seconds(self) -> float | None:
        """How long the attempt that ended the job took."""
        if self.started_at is None or self.completed_at is None:
            return None
        return self.completed_at - self.started_at
