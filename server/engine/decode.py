"""The decode lane: a thread beside the compute lane that turns latents into pictures and sound.

It batches finished chunks of several streams (one of each, live ones first), decodes, converts to
I420 and writes planes, sound and final latents into the slot that the job carries. Results come
back by `poll`. It emits nothing and knows no deadlines beyond their order.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from onbeat.kernels.rgb_to_i420 import rgb_to_i420
from onbeat.models.spec import CausalModel
from onbeat.server.engine.cost import CostModel, best_rows
from onbeat.server.engine.device import Decoded, DecodeJob, LaneTask, TaskDone
from onbeat.server.engine.settings import Clock


class TorchDecodeLane:
    """The lane on a model (see `DecodeLane` in device.py). With `threaded` False, `poll` does the
    work itself."""

    def __init__(
        self,
        model: CausalModel,
        *,
        clock: Clock,
        cost: CostModel,
        max_rows: int,
        threads: int,
        threaded: bool,
    ) -> None:
        self._model, self._clock, self._cost = model, clock, cost
        self._max_rows, self._threads, self._threaded = max_rows, threads, threaded
        self._wake: Callable[[], None] = _nobody
        self._waiting: list[DecodeJob] = []
        self._done: deque[Decoded] = deque()
        self._tasks: list[LaneTask] = []
        self._tasks_done: deque[TaskDone] = deque()
        self._seconds: deque[float] = deque()
        self._changed = threading.Condition()
        self._running = 0
        self._task_before = False
        self._closed = False
        self._broken: Exception | None = None
        self._thread: threading.Thread | None = None

    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        if self._threaded:
            self._thread = threading.Thread(target=self._loop, name="decode-lane", daemon=True)
            self._thread.start()

    @property
    def backlog(self) -> int:
        """Chunks waiting or being decoded."""
        with self._changed:
            return len(self._waiting) + self._running

    def submit(self, job: DecodeJob) -> None:
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()

    def submit_task(self, task: LaneTask) -> None:
        with self._changed:
            self._tasks.append(task)
            self._changed.notify()

    def poll_tasks(self) -> list[TaskDone]:
        """Tasks done since the last call."""
        with self._changed:
            results = list(self._tasks_done)
            self._tasks_done.clear()
        return results

    def poll(self) -> list[Decoded]:
        """Results since the last call, in order. Raises what ended the lane's thread."""
        if self._thread is None:
            while self._work_once():
                pass
        with self._changed:
            if self._broken is not None and not self._closed:
                raise self._broken
            results = list(self._done)
            self._done.clear()
        return results

    def take_seconds(self) -> list[float]:
        """Seconds of each batch since the last call."""
        with self._changed:
            seconds = list(self._seconds)
            self._seconds.clear()
        return seconds

    def close(self) -> None:
        """Finishes the batch under way and stops; what still waits is left in `abandoned`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def abandoned(self) -> list[DecodeJob]:
        with self._changed:
            jobs, self._waiting = self._waiting, []
        return jobs

    def _loop(self) -> None:
        """An error that is no single chunk's fault ends the lane; `poll` raises it in the tick."""
        torch.set_num_threads(self._threads)
        try:
            self._work()
        except Exception as error:
            with self._changed:
                self._broken = error
            self._wake()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._tasks or self._closed)
                if self._closed:
                    return
            self._work_once()
            self._wake()

    def _work_once(self) -> bool:
        """One task or one batch; False if there is neither."""
        task = self._next_task()
        batch = [] if task is not None else self._next_batch()
        self._task_before = task is not None
        if task is not None:
            self._run_task(task)
        elif batch:
            self._run(batch)
        return task is not None or bool(batch)

    def _next_task(self) -> LaneTask | None:
        """The first task whose turn it is. A turn always comes: what is in its way is decoded."""
        with self._changed:
            for task in self._tasks:
                if task.behind is None:
                    ahead = self._before(task)
                else:
                    mine = (j.chunk for j in self._waiting if j.stream == task.behind)
                    ahead = any(chunk <= task.after for chunk in mine)
                if not ahead:
                    self._tasks.remove(task)
                    return task
        return None

    def _before(self, task: LaneTask) -> bool:
        """Whether a chunk is to be decoded before it."""
        urgent = min((job.deadline for job in self._waiting), default=None)
        return urgent is not None and (self._task_before or urgent <= task.deadline)

    def _run_task(self, task: LaneTask) -> None:
        started, value, failure = self._clock.now(), None, None
        try:
            value = task.run()
        except (RuntimeError, ValueError, ArithmeticError) as error:
            failure = f"{type(error).__name__}: {error}"
        ended = self._clock.now()
        done = TaskDone(task=task, started=started, ended=ended, value=value, error=failure)
        with self._changed:
            self._tasks_done.append(done)

    def _next_batch(self) -> list[DecodeJob]:
        """The most urgent jobs, at most one of each stream, in the order they were made; no more
        than decoding together makes faster, so that nobody waits for others without a gain."""
        with self._changed:
            batch: dict[str, DecodeJob] = {}
            most = min(self._max_rows, len({job.stream for job in self._waiting}))
            rows = best_rows(self._cost, most) if most else 0
            for job in sorted(self._waiting, key=lambda j: j.deadline):
                if len(batch) < rows and job.stream not in batch:
                    batch[job.stream] = min(
                        (j for j in self._waiting if j.stream == job.stream), key=lambda j: j.chunk
                    )
            self._waiting = [j for j in self._waiting if batch.get(j.stream) is not j]
            self._running = len(batch)
        return list(batch.values())

    def _run(self, batch: list[DecodeJob]) -> None:
        started = self._clock.now()
        results = self._decode(batch)
        seconds = self._clock.now() - started
        with self._changed:
            self._cost.observe(len(batch), max(seconds, 1e-6))
            self._seconds.append(seconds)
            self._done.extend(results)
            self._running = 0

    def _decode(self, batch: list[DecodeJob]) -> list[Decoded]:
        """A chunk that raises or is not finite fails alone."""
        started = self._clock.now()
        try:
            with torch.inference_mode():
                latents = {n: torch.stack([j.latents[n] for j in batch]) for n in batch[0].latents}
                finite = torch.stack([x.isfinite().flatten(1).all(1) for x in latents.values()])
                good = finite.all(0).tolist()
                if not all(good):
                    return self._split(batch, good)
                chunks = self._model.decode(latents, [j.state for j in batch])
                decoded_at = self._clock.now()
                planes = rgb_to_i420(chunks.frames).cpu().numpy()
        except (RuntimeError, ValueError, ArithmeticError) as error:
            if len(batch) > 1:
                return [r for job in batch for r in self._decode([job])]
            return [self._failed(batch[0], f"{type(error).__name__}: {error}")]
        for i, job in enumerate(batch):
            if job.data is not None:
                write_chunk(job.data, planes[i], chunks.audio[i].numpy(), job.latents)
        ready_at = self._clock.now()
        return [
            Decoded(
                job=job,
                ready_at=ready_at,
                decode=decoded_at - started,
                convert=ready_at - decoded_at,
            )
            for job in batch
        ]

    def _split(self, batch: list[DecodeJob], good: Sequence[bool]) -> list[Decoded]:
        healthy = [job for job, ok in zip(batch, good, strict=True) if ok]
        failed = [
            self._failed(job, f"chunk {job.chunk} has latents that are not finite")
            for job, ok in zip(batch, good, strict=True)
            if not ok
        ]
        return failed + (self._decode(healthy) if healthy else [])

    def _failed(self, job: DecodeJob, error: str) -> Decoded:
        return Decoded(job=job, ready_at=self._clock.now(), decode=0.0, convert=0.0, error=error)


def _nobody() -> None:
    """Nobody waits for results yet."""


def write_chunk(
    data: memoryview,
    planes: np.ndarray[Any, np.dtype[np.uint8]],
    audio: np.ndarray[Any, np.dtype[np.int16]],
    latents: dict[str, Tensor],
) -> None:
    """The layout of a slot: I420 planes, int16 sound, float32 latents in the model's order."""
    at = 0
    arrays: list[np.ndarray[Any, Any]] = [
        planes,
        audio,
        *(x.cpu().numpy() for x in latents.values()),
    ]
    for array in arrays:
        raw = array.tobytes()
        data[at : at + len(raw)] = raw
        at += len(raw)
