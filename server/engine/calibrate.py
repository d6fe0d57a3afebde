"""Measures the cost tables of both lanes at start, on the real model with rows of noise.

Takes about two seconds. The compute lane is measured while the decode lane works, because that is
how it will run: on few cores the two share caches and memory. What it is not: the cost model.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from onbeat.models.spec import CausalModel
from onbeat.samplers.consistency import init_chunk
from onbeat.server.engine.cost import CostModel, sizes_to
from onbeat.server.engine.executor import TorchExecutor
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.ladder import FirmRecord, Ladder
from onbeat.server.engine.messages import OpenStream
from onbeat.server.engine.pool import KVPool, Window
from onbeat.server.engine.settings import Clock, EngineSettings
from onbeat.server.engine.streams import Conditions, Stream

COMPUTE_SECONDS = 1.4
DECODE_SECONDS = 0.4
MIN_ROUNDS, MAX_ROUNDS = 3, 60


MEASURE_AGAIN_SECONDS = 10.0


class MeasuredCosts:
    """The cost tables of both lanes: given, or measured now."""

    def __init__(
        self,
        model: CausalModel,
        pool: KVPool,
        store: KVStore,
        settings: EngineSettings,
        clock: Clock,
        compute: CostModel | None,
        decode: CostModel | None,
    ) -> None:
        self._model, self._pool, self._store = model, pool, store
        self._settings, self._clock = settings, clock
        known = compute is not None and decode is not None
        self._measured_at = -float("inf") if known else clock.now()
        self.decode = decode or self._measure_decode()
        self.compute = compute or self._measure_compute()

    def doubt(self) -> None:
        """Measures again, at most every 10 s. For an idle engine that would refuse its first
        stream: it was measured in a busy moment, and running nothing it would never learn."""
        if self._clock.now() - self._measured_at > MEASURE_AGAIN_SECONDS:
            self._measured_at = self._clock.now()
            self.decode.restart(self._measure_decode())
            self.compute.restart(self._measure_compute())

    def _measure_decode(self) -> CostModel:
        return measure_decode(self._model, self._settings.max_decode_rows)

    def _measure_compute(self) -> CostModel:
        beside = 1 if self._settings.decode_lane else 0
        rows = self._settings.max_rows
        return measure_compute(self._model, self._pool, self._store, rows, beside=beside)


def measure(sizes: list[int], seconds: float, run: Callable[[int], None]) -> CostModel:
    """A low quartile and the tail of `run(size)`. The sizes take turns, so that a busy moment of
    the machine falls on all alike. What other programs take only ever adds, and is not the model's
    cost; if it lasts, `CostModel.observe` learns of it."""
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for size in sizes:
        run(size)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < MIN_ROUNDS or (rounds < MAX_ROUNDS and time.perf_counter() < end):
        for size in sizes:
            started = time.perf_counter()
            run(size)
            times[size].append(time.perf_counter() - started)
        rounds += 1
    low = {size: sorted(t)[rounds // 4] for size, t in times.items()}
    tails = sorted(sorted(t)[int(0.9 * (rounds - 1))] / low[s] for s, t in times.items())
    return CostModel(low, margin=tails[len(tails) // 2])


def measure_decode(model: CausalModel, max_rows: int) -> CostModel:
    """Seconds of one decode of r chunks."""
    sizes = sizes_to(max_rows)
    return measure(sizes, DECODE_SECONDS, _decoding(model, max_rows))


def _decoding(model: CausalModel, max_rows: int) -> Callable[[int], None]:
    states = [model.new_decoder_state() for _ in range(max_rows)]
    latents = {m.name: torch.randn(max_rows, m.tokens, m.dim) for m in model.spec.modalities}

    def run(rows: int) -> None:
        with torch.inference_mode():
            model.decode({n: x[:rows] for n, x in latents.items()}, states[:rows])

    return run


def measure_compute(
    model: CausalModel, pool: KVPool, store: KVStore, max_rows: int, beside: int
) -> CostModel:
    """Seconds of one batch of r steps through the executor, with full windows, while another
    thread decodes `beside` chunks at a time (0: alone)."""
    sizes = sizes_to(max_rows)
    executor = TorchExecutor(model, store)
    pages = pool.take(min(pool.free, model.spec.window_chunks + 2))
    streams = [_noise_stream(model, pages, i) for i in range(max_rows)]
    noise = [init_chunk(model.spec.modalities, 0, 0, s.order, 2) for s in streams]

    def run(rows: int) -> None:
        for stream, state in zip(streams[:rows], noise, strict=False):
            stream.state = state
        outcome = executor.run(streams[:rows], [])
        assert not outcome.failed, outcome.failed[0][1]

    try:
        with torch.inference_mode(), _busy(_decoding(model, beside), beside):
            return measure(sizes, COMPUTE_SECONDS, run)
    finally:
        pool.give_back(*pages)


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


def _noise_stream(model: CausalModel, pages: list[int], order: int) -> Stream:
    window = Window(pages[1:])
    for _ in pages:
        window.advance()
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
