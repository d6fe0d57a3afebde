"""The virtual device: a clock, an executor and a decode lane that take time and compute nothing.

They implement the protocols of server/engine/device.py. Chunk states carry no latents. Faults make
single forwards or decodes slow or wrong. What it is not: the loop that drives them (world.py).
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from onbeat.models.spec import EncodedPrompt
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.cost import CostModel, best_rows
from onbeat.server.engine.device import Decoded, DecodeJob, LaneTask, Outcome, TaskDone
from onbeat.server.engine.input_track import Clip
from onbeat.server.engine.reference import Reference
from onbeat.server.engine.simulate.curves import Curve
from onbeat.server.engine.simulate.faults import Faults
from onbeat.server.engine.streams import Stream

NO_TENSOR: Any = None
SIMULATED = "RuntimeError: simulated"
LEAST_SECONDS = 1e-9
"""What a decode that takes no time is said to cost: a cost model has no zeros."""


class VirtualClock:
    """Moves only when told to."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def advance(self, seconds: float) -> None:
        assert seconds >= 0.0, seconds
        self.at += seconds


class VirtualCosts:
    """What the engine is told about the device: its curves without the noise, as if calibrated."""

    def __init__(self, compute: Curve, decode: Curve) -> None:
        self.compute = CostModel(compute.seconds, margin=1.0)
        decoding = {n: max(t, LEAST_SECONDS) for n, t in decode.seconds.items()}
        self.decode = CostModel(decoding, margin=1.0)

    @property
    def calibration(self) -> None:
        """Nothing was measured."""

    def doubt(self) -> None:
        """A simulated device is never measured in a busy moment."""


class Noise:
    """Factors around 1, uniform within +- `spread`."""

    def __init__(self, spread: float, seed: int) -> None:
        self._spread, self._random = spread, Random(seed).random

    def next(self) -> float:
        return 1.0 + self._spread * (2.0 * self._random() - 1.0)


class VirtualExecutor:
    """The compute lane. `batches`: rows of every forward; `busy`: their seconds."""

    def __init__(
        self, clock: VirtualClock, curve: Curve, noise: Noise, faults: Faults, most: int
    ) -> None:
        self._clock, self._noise, self._faults = clock, noise, faults
        self._seconds = curve.table(most)
        self.batches: list[int] = []
        self.busy = 0.0

    def start(self) -> None:
        """Any thread will do."""

    def encode_prompt(self, prompt: str) -> EncodedPrompt:
        """Raises ValueError for an empty prompt."""
        if not prompt:
            raise ValueError("prompt: ''; allowed: any text")
        return EncodedPrompt(pooled=NO_TENSOR, slots=NO_TENSOR, recognised=(), digest=prompt)

    def new_decoder_state(self) -> Any:
        return None

    def skip_chunks(self, state: Any, chunks: int) -> None:
        """There is no state."""

    def copy_decoder(self, state: Any) -> Any:
        return state

    def encode_reference(self, reference: Reference, index: int) -> ChunkState:
        """The content stands in for a seed."""
        return _state(int(reference.digest[:12], 16), index, step=1, steps=1)

    def encode_input(self, clip: Clip) -> dict[str, Any]:
        """Nothing is computed."""
        return {}

    def restore(self, seed: int, chunk: int, data: bytes) -> ChunkState:
        return _state(seed, chunk, step=1, steps=1)

    def save(self, state: ChunkState) -> bytes:
        return b""

    def start_chunks(self, streams: Sequence[Stream], steps: Sequence[int]) -> None:
        for stream, count in zip(streams, steps, strict=True):
            stream.state = _state(stream.now.seed, stream.chunk, step=0, steps=count)

    def end_chunk(self, state: ChunkState) -> ChunkState:
        return _state(state.seed, state.chunk, step=state.step, steps=state.step)

    def prefill(self, streams: Sequence[Stream]) -> list[tuple[Stream, str]]:
        """Takes no time. A prompt that fails is lost to all streams that share its page."""
        if not self._faults.take("prefill", self._clock.now()):
            return []
        return [(s, SIMULATED) for s in streams if s.sink == streams[0].sink]

    def launch(self, steps: Sequence[Stream], commits: Sequence[Stream]) -> Callable[[], Outcome]:
        return partial(self.run, steps, commits)

    def close(self) -> None:
        """Nothing to stop."""

    def run(self, steps: Sequence[Stream], commits: Sequence[Stream]) -> Outcome:
        rows = len(steps) + sum(s.piece for s in commits)
        seconds = self._seconds[rows] * self._noise.next()
        seconds += self._faults.slow(self._clock.now())
        self._clock.advance(seconds)
        self.batches.append(rows)
        self.busy += seconds
        outcome = Outcome(stepped=list(steps), committed=list(commits))
        if steps and self._faults.take("raise", self._clock.now()):
            outcome.failed.append((outcome.stepped.pop(0), SIMULATED))
        if commits and self._faults.take("commit", self._clock.now()):
            outcome.failed.append((outcome.committed.pop(0), SIMULATED))
        for stream in outcome.stepped:
            s = stream.state
            assert s is not None, f"{stream.id}: chunk {stream.chunk} has not begun"
            stream.state = _state(s.seed, s.chunk, step=s.step + 1, steps=s.steps)
        for stream in outcome.committed:
            stream.window.advance(stream.piece)
            for _ in range(stream.piece):
                stream.uncommitted.popleft()
        return outcome


def _state(seed: int, chunk: int, *, step: int, steps: int) -> ChunkState:
    return ChunkState(
        seed=seed, stream=0, chunk=chunk, step=step, steps=steps, samplers={}, latents={}, x0={}
    )


class VirtualLane:
    """The decode lane: works by itself beside the compute lane, batch after batch, most urgent
    first. What it did is settled whenever somebody looks."""

    def __init__(
        self,
        clock: VirtualClock,
        curve: Curve,
        cost: CostModel,
        noise: Noise,
        faults: Faults,
        max_rows: int,
    ) -> None:
        self._clock, self._cost, self._noise, self._faults = clock, cost, noise, faults
        self._table = curve.table(max_rows)
        self._max_rows = max_rows
        self._waiting: list[tuple[float, DecodeJob]] = []
        self._done: deque[Decoded] = deque()
        self._tasks: list[TaskDone] = []
        self._seconds: list[float] = []
        self._free_at = 0.0
        self._closed = False

    def start(self, wake: Callable[[], None]) -> None:
        """The loop asks `next_at` instead of being woken."""

    @property
    def backlog(self) -> int:
        self._settle()
        now = self._clock.now()
        return len(self._waiting) + sum(d.ready_at > now for d in self._done)

    @property
    def next_at(self) -> float:
        """When there will be a result; infinite if nothing is under way."""
        if self._tasks:
            return self._clock.now()
        self._settle()
        return self._done[0].ready_at if self._done else float("inf")

    def submit_task(self, task: LaneTask) -> None:
        """Tasks are rare and short beside decodes: they take no time."""
        now = self._clock.now()
        self._tasks.append(TaskDone(task=task, started=now, ended=now, value=task.run()))

    def poll_tasks(self) -> list[TaskDone]:
        done, self._tasks = self._tasks, []
        return done

    def submit(self, job: DecodeJob) -> None:
        self._settle()
        self._waiting.append((self._clock.now(), job))

    def poll(self) -> list[Decoded]:
        self._settle()
        now, results = self._clock.now(), []
        while self._done and (self._closed or self._done[0].ready_at <= now):
            results.append(self._done.popleft())
        return results

    def take_seconds(self) -> list[float]:
        seconds, self._seconds = self._seconds, []
        return seconds

    def close(self) -> None:
        self._settle()
        self._closed = True

    def abandoned(self) -> list[DecodeJob]:
        jobs = [job for _, job in self._waiting]
        self._waiting = []
        return jobs

    def _settle(self) -> None:
        """Starts every batch that could have started by now."""
        while self._waiting:
            begin = max(self._free_at, min(at for at, _ in self._waiting))
            if begin > self._clock.now():
                return
            self._decode(begin, self._next_batch(begin))

    def _next_batch(self, begin: float) -> list[DecodeJob]:
        """At most one job of each stream, the oldest, by deadline."""
        oldest: dict[str, DecodeJob] = {}
        for at, job in self._waiting:
            if at <= begin and job.stream not in oldest:
                oldest[job.stream] = job
        rows = best_rows(self._cost, min(self._max_rows, len(oldest)))
        batch = sorted(oldest.values(), key=lambda job: job.deadline)[:rows]
        chosen = {id(job) for job in batch}
        self._waiting = [(at, job) for at, job in self._waiting if id(job) not in chosen]
        return batch

    def _decode(self, begin: float, batch: list[DecodeJob]) -> None:
        seconds = self._table[len(batch)] * self._noise.next()
        self._free_at = begin + seconds
        if seconds > 0.0:
            self._cost.observe(len(batch), seconds)
            self._seconds.append(seconds)
        for job in batch:
            error = self._faults.decode_error(begin)
            self._done.append(
                Decoded(job=job, ready_at=self._free_at, decode=seconds, convert=0.0, error=error)
            )
