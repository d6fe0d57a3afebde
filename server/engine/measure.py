"""Times the work of an engine on its real model, with rows of noise: steps, decodes, prompts.

The compute lane is timed while the decode lane works, because that is how it will run: on few cores
the two share caches and memory. What it is not: the use of the times (calibrate.py, cost.py).
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch

from onbeat.models.spec import CausalModel
from onbeat.samplers.consistency import start_rows
from onbeat.samplers.serving import served_samplers
from onbeat.server.engine.calibration import CostTable, Kind
from onbeat.server.engine.executor import TorchExecutor
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.ladder import FirmRecord, Ladder
from onbeat.server.engine.messages import OpenStream
from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.streams import Conditions, Stream
from onbeat.server.engine.window import Window

MOST_ROUNDS = 60
PROMPT = "a red ball bouncing over the sea at night"

Samples = dict[int, list[float]]
"""Seconds by rows."""


def measure(
    sizes: Sequence[int],
    run: Callable[[int], None],
    *,
    seconds: float,
    rounds: int,
    now: Callable[[], float] = time.perf_counter,
) -> Samples:
    """`run(size)` for about `seconds`, at least `rounds` times each. The sizes take turns, so that
    a busy moment of the machine falls on all alike."""
    times: Samples = {size: [] for size in sizes}
    end = now() + seconds
    done = 0
    while done < rounds or (done < MOST_ROUNDS and now() < end):
        for size in sizes:
            started = now()
            run(size)
            times[size].append(now() - started)
        done += 1
    return times


def cost_table(kind: Kind, samples: Samples, *, tokens: int, window: int) -> CostTable:
    """The low quartile and the tail of each size. What other programs take only ever adds, and is
    not the model's cost; if it lasts, `CostModel.observe` learns of it."""
    ordered = {size: sorted(times) for size, times in samples.items()}
    low = {size: times[len(times) // 4] for size, times in ordered.items()}
    tails = sorted(t[int(0.9 * (len(t) - 1))] / low[size] for size, t in ordered.items())
    return CostTable(
        kind=kind,
        tokens=tokens,
        window=window,
        p50_ms={size: 1e3 * seconds for size, seconds in low.items()},
        p99_ms={size: 1e3 * t[int(0.99 * (len(t) - 1))] for size, t in ordered.items()},
        margin=tails[len(tails) // 2],
    )


class Bench:
    """Runs each kind of work on an engine's model and memory. Takes pages only while it runs."""

    def __init__(
        self,
        model: CausalModel,
        pool: KVPool,
        store: KVStore,
        settings: EngineSettings,
        executor: TorchExecutor | None = None,
    ) -> None:
        """`executor`: the one that is to be timed, if not one on this thread."""
        self._model, self._pool, self._store, self._settings = model, pool, store, settings
        self._executor = executor or TorchExecutor(model, store)

    @contextmanager
    def ready(self, kind: Kind) -> Iterator[Callable[[int], None]]:
        """A function that does this work once for a number of rows."""
        match kind:
            case "step":
                beside = 1 if self._settings.decode_lane else 0
                with self.forwards() as run, _busy(self._decoding(beside), beside):
                    yield lambda rows: run(rows, 0)
            case "decode":
                yield self._decoding(self._settings.max_decode_rows)
            case "prefill":
                with self._prefills() as run:
                    yield run
            case "encode":
                yield self._encode
            case "reference":
                yield self._reference()

    @contextmanager
    def forwards(self) -> Iterator[Callable[[int, int], None]]:
        """A function that runs one forward of so many steps and so many commits, of streams with
        full windows, each in pages of its own as far as the pool has them."""
        executor, device = self._executor, self._store.k.device
        executor.start()
        each = min(self._pool.free, self._model.spec.window_chunks + 1)
        count = min(self._settings.max_rows, self._pool.free // each)
        streams = [
            noise_stream(self._model, self._pool, self._pool.take(each), i) for i in range(count)
        ]
        streams += [_beside(streams[i % count], i) for i in range(count, self._settings.max_rows)]
        modalities = self._model.spec.modalities
        noise = start_rows(
            modalities,
            [0] * len(streams),
            [0] * len(streams),
            [s.order for s in streams],
            [served_samplers(modalities, min(2, self._model.spec.max_steps))] * len(streams),
            device=device,
        )
        streams[0].state = noise[0]

        def run(steps: int, commits: int) -> None:
            for stream, state in zip(streams, noise, strict=True):
                stream.state = state
            stepping, committing = streams[:steps], streams[steps : steps + commits]
            for stream in committing:
                stream.uncommitted.append(finished)
            outcome = executor.run(stepping, committing)
            assert not outcome.failed, outcome.failed[0][1]

        try:
            with torch.inference_mode():
                executor.run(streams[:1], [])
                assert streams[0].state is not None
                finished = executor.end_chunk(streams[0].state)
                yield run
        finally:
            for stream in streams:
                stream.window.close()
            self._pool.give_back(*(stream.sink for stream in streams[:count]))

    def _decoding(self, most: int) -> Callable[[int], None]:
        model = self._model
        states = [model.new_decoder_state() for _ in range(most)]
        latents = {m.name: torch.randn(most, m.tokens, m.dim) for m in model.spec.modalities}

        def run(rows: int) -> None:
            with torch.inference_mode():
                model.decode({n: x[:rows] for n, x in latents.items()}, states[:rows])

        return run

    @contextmanager
    def _prefills(self) -> Iterator[Callable[[int], None]]:
        page, width = self._pool.take(1), self._model.spec.window_chunks
        prompt = self._model.encode_prompt(PROMPT)

        def run(rows: int) -> None:
            kv = self._store.view([[*page, *[-1] * width]] * rows, page * rows)
            self._model.prefill_prompt([prompt] * rows, kv)

        try:
            with torch.inference_mode():
                yield run
        finally:
            self._pool.give_back(*page)

    def _reference(self) -> Callable[[int], None]:
        spec = self._model.spec
        shape = (spec.chunk_frames, spec.height, spec.width, 3)
        frames = torch.zeros(shape, dtype=torch.uint8)
        sound = torch.zeros(spec.chunk_samples, dtype=torch.int16)

        def run(rows: int) -> None:
            with torch.inference_mode():
                for _ in range(rows):
                    self._model.encode_media(frames, sound)

        return run

    def _encode(self, rows: int) -> None:
        with torch.inference_mode():
            for _ in range(rows):
                self._model.encode_prompt(PROMPT)


@contextmanager
def _busy(run: Callable[[int], None], rows: int) -> Iterator[None]:
    """Another thread that works two thirds of the time, as a decode lane does near capacity."""
    stop = threading.Event()

    def loop() -> None:
        torch.set_num_threads(1)
        while not stop.is_set():
            started = time.perf_counter()
            run(rows)
            stop.wait((time.perf_counter() - started) / 2)

    thread = threading.Thread(target=loop, daemon=True)
    if rows:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if rows:
            thread.join()


def _beside(stream: Stream, order: int) -> Stream:
    """Another stream on the same pages."""
    return replace(stream, order=order, window=stream.window.fork(), uncommitted=deque())


def noise_stream(model: CausalModel, pool: KVPool, pages: list[int], order: int) -> Stream:
    window = Window(pool, model.spec.window_chunks, pages[1:])
    prompt = model.encode_prompt("")
    return Stream(
        opened=OpenStream(stream_id=f"noise {order}", kind="live", prompt="", seed=0),
        order=order,
        wanted_at=0.0,
        now=Conditions(prompt="", encoded=prompt, seed=0, steps=None, revision=0),
        sink=pages[0],
        window=window,
        decoder=None,
        ladder=Ladder(calm_chunks=1, bends=False),
        firm=FirmRecord(m=0, k=1),
    )
