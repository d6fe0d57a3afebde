"""What the server tells, as typed records. Fields that this version does not know are left out."""

from typing import Any, Generic, Literal, TypeVar

import msgspec

from onbeat.client.errors import VideoFailed

T = TypeVar("T")
ENDED = ("completed", "failed", "cancelled")


class VideoError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job failed."""

    code: str
    message: str


class Video(msgspec.Struct, frozen=True, kw_only=True):
    """A job. `status`: queued, in_progress, completed, failed, cancelled. `progress`: percent.
    Instants are Unix seconds, durations seconds."""

    id: str
    status: str
    model: str
    prompt: str | None = None
    progress: int = 0
    created_at: int = 0
    started_at: int | None = None
    completed_at: int | None = None
    expires_at: int | None = None
    seconds: float = 0.0
    size: str = ""
    seed: int | None = None
    num_inference_steps: int | None = None
    num_frames: int | None = None
    fps: float | None = None
    generate_audio: bool = True
    recognised: list[str] | None = None
    """Words that the model understood; None until that is known."""
    metadata: dict[str, str] = {}
    attempt: int = 0
    queue_position: int | None = None
    inference_time_s: float | None = None
    peak_memory_mb: float | None = None
    url: str | None = None
    media_type: str | None = None
    """Of its file, where the server says so."""
    error: VideoError | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def raise_for_failure(self) -> "Video":
        """Itself if it is completed. Raises VideoFailed."""
        if self.status == "completed":
            return self
        code = self.error.code if self.error else self.status
        message = self.error.message if self.error else f"The job is {self.status}."
        raise VideoFailed(self.id, code, message)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A live session. `status`: starting, queued, live, paused, restarting, failed, closed."""

    id: str
    status: str
    model: str
    prompt: str
    seed: int
    num_inference_steps: int
    fps: float
    width: int
    height: int
    whep_url: str
    duplex_url: str
    events_url: str
    whip_url: str | None = None
    mode: str = "text-to-video"
    audio: bool = True
    strength: float | None = None
    recognised: list[str] | None = None
    """As of a video; of the prompt that stands beside it."""
    viewers: int = 0
    revision: int = 0
    quality: str | None = None
    queue_position: int | None = None
    estimated_wait_s: float | None = None
    error: dict[str, Any] | None = None


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """Where a change takes effect: the first chunk made under it, and its place in the stream in
    seconds. Both None (and `applied` False) while nothing is generated."""

    revision: int
    applied: bool = True
    chunk: int | None = None
    media_time: float | None = None


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A recording of a session. `status`: recording, finishing, completed, failed, expired."""

    id: str
    session_id: str
    status: str
    format: str
    reason: str | None = None
    frames: int = 0
    seconds: float = 0.0
    bytes: int = 0
    created_at: int = 0
    prompt: str | None = None
    """The session's words when it began."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A server-sent event; `data` is its JSON."""

    type: str
    data: Any
    id: str | None = None


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Some of a list of jobs or recordings."""

    data: list[T]
    last_id: str | None = None
    has_more: bool = False


Order = Literal["asc", "desc"]
"""Of lists: oldest first, newest first."""
Variant = Literal["video", "thumbnail", "spritesheet"]
