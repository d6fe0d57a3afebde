"""What the front and the engine process say to each other: typed, versionless, msgpack over ZMQ.

Pictures and sound do not travel here: a `ChunkReady` names a slot of the shared-memory ring.
All instants are seconds on the system-wide monotonic clock.
"""

import msgspec

from onbeat.server.engine.calibration import Calibration
from onbeat.server.engine.records import AnyRecord
from onbeat.server.engine.track import BucketCost
from onbeat.server.vocabulary import DropCause, EndReason, Prompt, StreamKind, Transition

AHEAD_CHUNKS = 2
INPUT_AHEAD_CHUNKS = 0.7
DEFAULT_STRENGTH = 0.6


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all messages; the tag is the class name."""


# ---- front to engine ---------------------------------------------------------------------------


class VideoInput(msgspec.Struct, frozen=True, kw_only=True):
    """A live stream works on pictures that come in. `strength` None = the model's."""

    strength: float | None = None
    motion_aware: bool = False
    """The strength falls while the pictures move."""
    ahead_chunks: float = INPUT_AHEAD_CHUNKS
    """How long before its playout a chunk takes its pictures: a shorter lead is a fresher one."""


class OpenStream(Message, frozen=True, kw_only=True):
    """Start (or, with a snapshot, go on with) a stream. `steps` None = the model's default."""

    stream_id: str
    kind: StreamKind
    prompt: Prompt
    seed: int
    steps: int | None = None
    total_chunks: int | None = None
    ahead_chunks: int = AHEAD_CHUNKS
    """Live: how many chunks may be finished ahead of their playout."""
    paused: bool = False
    revision: int = 0
    snapshot: bytes | None = None
    reference: bytes | None = None
    """Packed frames and sound that it goes on from (reference.py)."""
    fork_of: str | None = None
    """A stream whose history, prompt and chunk counter it begins with."""
    transition: Transition | None = None
    """Fork: how a prompt that differs from the parent's is taken up; None = the model's way."""
    owner: str = ""
    """Whose it is, for fair shares: a hash of the API key, "" for all without one."""
    wait: bool = False
    """Live: if there is no room, wait for it instead of being refused."""
    promised: bool = False
    """It ran in an engine that is gone: the time it needs was promised then."""
    video_input: VideoInput | None = None
    """It is made from what `InputPicture` and `InputSound` bring, while they do."""


class ControlStream(Message, frozen=True, kw_only=True):
    """Change a running stream from its next unstarted chunk on. None = leave as it is."""

    stream_id: str
    revision: int
    prompt: Prompt | None = None
    transition: Transition | None = None
    """How a new prompt is taken up; None = the model's way."""
    blend_chunks: int | None = None
    """Of the transition "blend": chunks until the new prompt is reached."""
    reset: bool = False
    """The next chunk begins a new scene, whatever came before."""
    seed: int | None = None
    steps: int | None = None
    paused: bool | None = None
    strength: float | None = None
    """Of a stream with an input."""
    floor_level: int | None = None
    """The ladder's best level that it may have: its viewers' links carry no better one."""


class CloseStream(Message, frozen=True, kw_only=True):
    stream_id: str


class ReleaseSlot(Message, frozen=True, kw_only=True):
    slot: int


class InputPicture(Message, frozen=True, kw_only=True):
    """An RGB picture at the model's size lies in a slot of the front's ring, for these streams; it
    was taken at `at`. Answered by `InputRead`, after which the slot is the front's again."""

    streams: list[str]
    slot: int
    at: float


class InputSound(Message, frozen=True, kw_only=True):
    """A piece of mono int16 sound at the model's rate, whose first sample was taken at `at`."""

    streams: list[str]
    at: float
    samples: bytes


class TraceRequest(Message, frozen=True, kw_only=True):
    """Asks for the records of the last seconds; `request` comes back in the reply."""

    request: str
    seconds: float


class Shutdown(Message, frozen=True, kw_only=True):
    pass


class ExportStream(Message, frozen=True, kw_only=True):
    """Ask for what another engine needs to go on with a stream; answered by `StreamExported`."""

    stream_id: str


Command = (
    OpenStream
    | ControlStream
    | CloseStream
    | ReleaseSlot
    | InputPicture
    | InputSound
    | TraceRequest
    | ExportStream
    | Shutdown
)

# ---- engine to front ---------------------------------------------------------------------------


class EngineReady(Message, frozen=True, kw_only=True):
    """The engine is warm. `step_ms` and `decode_ms` map rows of a batch to the time of one forward
    and one decode, as calibrated."""

    pid: int
    model: str
    width: int
    height: int
    fps: int
    chunk_frames: int
    sample_rate: int
    default_steps: int
    max_steps: int
    window_chunks: int
    weights: str = ""
    """A hash of the model's weights; empty if it has none."""
    replay_chunks: int = 0
    """Newest chunks of latents from which a job goes on with the same bits."""
    takes_reference: bool = False
    default_strength: float = DEFAULT_STRENGTH
    """Of a stream with an input, if nobody says."""
    prompt_transition: Transition = "cut"
    """What a new prompt does if nobody says how it is taken up."""
    capacity_streams: int
    step_ms: dict[int, float]
    decode_ms: dict[int, float]
    ring_slots: int
    ring_slot_bytes: int
    calibration: Calibration | None = None
    """The measured tables whole, and where they come from."""


class StreamOpened(Message, frozen=True, kw_only=True):
    stream_id: str
    recognised: list[str]


class StreamRefused(Message, frozen=True, kw_only=True):
    """Not admitted. `code` is "capacity" or "invalid"; `reason` is a sentence with the numbers.

    `queue_position`: the place that it would have if it waited, 0 if it cannot; `retry_after`:
    estimated seconds until there is room."""

    stream_id: str
    code: str
    reason: str
    queue_position: int = 0
    retry_after: float = 1.0


class StreamQueued(Message, frozen=True, kw_only=True):
    """It waits for room: a new stream that asked to, or a paused one that is wanted again. Said
    again when it changes; `StreamOpened` follows when it comes in.

    `position`: 1 is next. `estimated_seconds`: None while nothing is known of how long streams
    stay."""

    stream_id: str
    position: int
    estimated_seconds: float | None


class StageTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds a chunk spent waiting and in each stage, and the instant it could start. They sum to
    the time from there to its being told of. `commit`: commits that it waited for."""

    released_at: float
    queue: float
    denoise: float
    commit: float = 0.0
    decode: float
    convert: float

    @property
    def told_at(self) -> float:
        """The instant at which the engine told of it."""
        waited = self.queue + self.commit
        return self.released_at + waited + self.denoise + self.decode + self.convert


class ChunkReady(Message, frozen=True, kw_only=True):
    """A chunk lies in a slot: I420 frames, int16 audio, then the chunk's final latents (bytes)."""

    stream_id: str
    chunk: int
    revision: int
    slot: int
    frames: int
    frame_bytes: int
    samples: int
    latent_bytes: int
    steps: int
    playout_at: float
    """When the first frame is due; jobs: 0."""
    ready_at: float
    on_time: bool
    cause: DropCause | None = None
    """Why it is late."""
    stages: StageTimes
    last: bool


class ChunkDropped(Message, frozen=True, kw_only=True):
    stream_id: str
    chunk: int
    cause: DropCause
    playout_at: float


class ControlApplied(Message, frozen=True, kw_only=True):
    """The first chunk generated under `revision`, and when it is due on the monotonic clock."""

    stream_id: str
    revision: int
    chunk: int
    playout_at: float
    recognised: list[str]


class StreamEnded(Message, frozen=True, kw_only=True):
    stream_id: str
    reason: EndReason
    error: str | None = None


class StreamExported(Message, frozen=True, kw_only=True):
    """The commands that open a stream in another engine where it stands in this one. `opening` is
    None if there is no such stream; `pending` is a control that has not taken effect yet."""

    stream_id: str
    opening: OpenStream | None = None
    pending: ControlStream | None = None


class InputRead(Message, frozen=True, kw_only=True):
    slot: int


class Beat(Message, frozen=True, kw_only=True):
    """The engine's process lives, whatever its loop does. `cpu`: seconds it has computed so far."""

    cpu: float


class InputStats(msgspec.Struct, frozen=True, kw_only=True):
    """Of the last chunk made from pictures that came in. `age`: seconds from a picture being taken
    to when the one made from it is due; `strength`: as moved by motion, None if it is not."""

    age: float
    strength: float | None = None


class StreamStats(msgspec.Struct, frozen=True, kw_only=True):
    stream_id: str
    kind: StreamKind
    chunks: int
    chunks_on_time: int
    chunks_late: int
    chunks_dropped: int
    steps_now: int
    slack: float
    paused: bool
    level: int = 0
    """Of the quality ladder; 0 is full."""
    level_name: str = "full"
    chunks_by_steps: dict[int, int] = {}
    """Finished chunks by the steps they had."""
    firm_credit: int = 0
    """Misses that the stream may still have among its last k chunks."""
    firm_broken: int = 0
    """Chunks after which more than that were missed."""
    input: InputStats | None = None
    """None while it is made from its prompt alone."""


class TransferStats(msgspec.Struct, frozen=True, kw_only=True):
    """Paused streams and the copies of their pages. `places`: streams that are paused or on their
    way, by place. Bytes and seconds: since the last report (`Copied` in stays.py)."""

    places: dict[str, int]
    host_bytes: int
    host_bytes_total: int
    copied_bytes: int
    copied_seconds: float
    exposed_seconds: float
    waited_seconds: float


class EngineStats(Message, frozen=True, kw_only=True):
    """A picture of the engine, a few times a second. Lists: per forward since the last."""

    at: float
    streams: list[StreamStats]
    pages_used: int
    pages_total: int
    slots_used: int
    slots_total: int
    busy_ratio: float
    batch_rows: list[int]
    step_seconds: list[float]
    plan_seconds: list[float]
    decode_seconds: list[float]
    waiting: int = 0
    """Streams that wait for room."""
    row_seconds: float = 0.0
    """What a forward of one row usually takes now; 0: not known."""
    utilisation: float
    """Predicted share of the compute lane that admitted streams need (admission's figure)."""
    capacity_streams: int = 0
    """Live streams that would be open if as many were asked for now; once a second."""
    costs: list[BucketCost] = []
    """Predicted and real times by kind and rows; once a second."""
    transfer: TransferStats | None = None


class TraceReply(Message, frozen=True, kw_only=True):
    """What ran between `start` and `end`."""

    request: str
    start: float
    end: float
    records: list[AnyRecord]


class EngineDown(Message, frozen=True, kw_only=True):
    """Made by the client when the process is gone; `restarting` tells whether it comes back."""

    reason: str
    restarting: bool


Event = (
    EngineReady
    | StreamOpened
    | StreamRefused
    | StreamQueued
    | ChunkReady
    | ChunkDropped
    | ControlApplied
    | StreamEnded
    | StreamExported
    | EngineStats
    | TraceReply
    | InputRead
    | Beat
    | EngineDown
)
