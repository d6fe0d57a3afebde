"""The seam between what decides (engine.py) and what computes: executor, decode lane, costs.

Implementations on a model: executor.py, decode.py, calibrate.py, put together by assemble.py. The
simulator has its own on a virtual clock. Plain data and protocols; nothing here computes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from onbeat.models.spec import EncodedPrompt
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.calibration import Calibration
from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.input_track import Clip
from onbeat.server.engine.reference import Reference

if TYPE_CHECKING:
    from torch import Tensor

    from onbeat.server.engine.streams import Stream


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Streams whose rows ran, by kind of work, and what went wrong with others."""

    stepped: list["Stream"] = field(default_factory=list)
    committed: list["Stream"] = field(default_factory=list)
    failed: list[tuple["Stream", str]] = field(default_factory=list)


class Executor(Protocol):
    """The compute lane. One thread only: the one that called `start`."""

    def start(self) -> None:
        """Called once by the thread that makes all other calls."""

    def encode_prompt(self, prompt: str) -> EncodedPrompt:
        """Raises ValueError for a prompt that the model cannot encode."""

    def new_decoder_state(self) -> Any: ...

    def skip_chunks(self, state: Any, chunks: int) -> None:
        """Moves a decoder state that nobody decodes with on by so many chunks."""

    def copy_decoder(self, state: Any) -> Any:
        """A decoder state that goes on by itself from where `state` is. Any thread, one that does
        not decode with it meanwhile."""

    def encode_reference(self, reference: Reference, index: int) -> ChunkState:
        """A finished chunk from one of a reference. Any thread."""

    def encode_input(self, clip: Clip) -> "dict[str, Tensor]":
        """What a chunk starts from, by modality; one that was not seen or heard is missing. Any
        thread."""

    def restore(self, seed: int, chunk: int, data: bytes) -> ChunkState:
        """A finished chunk from its latents as they lie in a slot (float32, model's order)."""

    def save(self, state: ChunkState) -> bytes:
        """The latents of a finished chunk, as `restore` reads them."""

    def start_chunks(self, streams: Sequence["Stream"], steps: Sequence[int]) -> None:
        """Gives each stream the noise of its next chunk, over what its input has settled."""

    def end_chunk(self, state: ChunkState) -> ChunkState:
        """The chunk as it is, its last prediction final; at least one step must be done."""

    def prefill(self, streams: Sequence["Stream"]) -> list[tuple["Stream", str]]:
        """Fills the prompts' pages, each page once. Returns the streams that failed."""

    def run(self, steps: Sequence["Stream"], commits: Sequence["Stream"]) -> Outcome:
        """`launch`, and its outcome."""

    def launch(
        self, steps: Sequence["Stream"], commits: Sequence["Stream"]
    ) -> "Callable[[], Outcome]":
        """Starts one forward of `steps` (their chunk's next step) and `commits` (their oldest
        uncommitted chunks, `piece` of each as consecutive rows); no stream may be in both.
        The answer waits for it and moves the streams on; until then they stay as they are."""

    def close(self) -> None:
        """No more calls. Idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeJob:
    """One finished chunk. `latents`: per modality float32 [n, d]; `state` is the stream's decoder
    state, which moves on; `data`: the slot's bytes, None to only move the state on."""

    stream: str
    chunk: int
    latents: "dict[str, Tensor]"
    state: Any
    slot: int
    data: memoryview | None
    deadline: float
    queued_at: float
    """When the lane was given it: it had a slot then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What became of a job. `error` is None if the chunk lies in its slot. Seconds."""

    job: DecodeJob
    ready_at: float
    decode: float
    convert: float
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaneTask:
    """Other work of the decode lane, done on its thread. `behind` None: between decodes, when no
    chunk waits. Otherwise as soon as no chunk of that stream up to `after` is waiting, and before
    any later one. `deadline`: a task behind nobody may also go before chunks that are due later,
    if no such task ran since the last decode."""

    run: Callable[[], Any]
    name: str = "task"
    behind: str | None = None
    after: int = -1
    deadline: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDone:
    """`value`: what the task's function gave; `error`: None, or why there is no value."""

    task: LaneTask
    started: float
    ended: float
    value: Any = None
    error: str | None = None


class DecodeLane(Protocol):
    """Turns latents into pictures and sound beside the compute lane: jobs in, results out."""

    @property
    def backlog(self) -> int:
        """Chunks waiting or being decoded."""

    def start(self, wake: Callable[[], None]) -> None:
        """Begins; `wake` is called when there are new results."""

    def submit(self, job: DecodeJob) -> None: ...

    def submit_task(self, task: LaneTask) -> None: ...

    def poll_tasks(self) -> list[TaskDone]:
        """Tasks done since the last call; call after `poll`."""

    def poll(self) -> list[Decoded]:
        """Results since the last call, in order. Raises what ended the lane."""

    def take_seconds(self) -> list[float]:
        """Seconds of each batch since the last call."""

    def close(self) -> None:
        """Finishes the batch under way and stops; what still waits is left in `abandoned`."""

    def abandoned(self) -> list[DecodeJob]: ...


class Costs(Protocol):
    """What forwards and decodes take, by rows."""

    @property
    def compute(self) -> CostModel: ...

    @property
    def decode(self) -> CostModel: ...

    @property
    def calibration(self) -> Calibration | None:
        """What was measured at start; None for costs that never were."""

    def doubt(self) -> None:
        """An idle engine would refuse its first stream: the costs may come from a busy moment."""
