"""What a job is: what was asked for, resolved once and for all, and how far it is. Plain data."""

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from onbeat.server.jobs.formats import Format

JobState = Literal["queued", "in_progress", "completed", "failed", "cancelled"]
EndState = Literal["completed", "failed", "cancelled"]
JobKind = Literal["create", "remix", "extension"]
ENDED: tuple[EndState, ...] = ("completed", "failed", "cancelled")
MAX_ATTEMPTS = 5
"""Attempts in a row that lost their engine before they had made one chunk more than those before:
the job is taken to be what kills it."""
MAX_LOSSES = 20
"""The same for attempts whose server ended: others ran there too, and servers end for many reasons.
"""
PRIORITIES = range(-10, 11)


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
    format: Format = "mp4"
    metadata: dict[str, str] = {}
    owner: str = ""
    """A hash of the API key, for fair shares of the device."""
    priority: int = 0
    """Of PRIORITIES; among the jobs of one key higher ones go first."""
    kind: JobKind = "create"
    parent: str | None = None
    """The job whose request, or whose end, it was made from."""
    input_digest: str = ""
    """SHA-256 of what it begins from (inputs.py); empty: from nothing."""
    webhook_url: str | None = None
    """Who is told of its end (webhooks.py)."""

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
    strikes: int
    """Attempts since the last one that got further."""
    progress: float
    """Share of the chunks that are done, 0 to 1."""
    checkpoint: int
    """Chunks that need not be made again."""
    recognised: list[str]
    error_code: str | None
    error_message: str | None
    created_at: float
    started_at: float | None
    completed_at: float | None
    peak_memory_mb: float | None
    run_seconds: float | None
    """How long the attempt that ended the job took, on a clock that never steps."""
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds by stage, of that attempt."""
    result: dict[str, Any] = field(default_factory=dict)
    """What the artifact store wrote down of the files; empty before the job is completed."""
    expires_at: float | None = None
    """When the files may go; None: never."""
    expired: bool = False
    """The files are gone."""
    waited: float = 0.0
    """Seconds that it was queued before this claim; of a job just claimed."""

    @property
    def ended(self) -> bool:
        return self.state in ENDED
