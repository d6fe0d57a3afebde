"""Puts an engine together on a model: pages, executor, decode lane, measured or given costs.

What it is not: the loading of a model from launch arguments (build.py).
"""

import logging
from collections.abc import Callable
from dataclasses import replace

import torch

from onbeat.models.spec import CausalModel
from onbeat.samplers.serving import check_served
from onbeat.server.engine.calibrate import MeasuredCosts
from onbeat.server.engine.calibration import Calibration, CalibrationCache
from onbeat.server.engine.decode import TorchDecodeLane
from onbeat.server.engine.engine import Engine
from onbeat.server.engine.executor import TorchExecutor
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.lanes import InlineLane, ThreadLane
from onbeat.server.engine.measure import Bench
from onbeat.server.engine.messages import Event
from onbeat.server.engine.page_copy import HostCopier
from onbeat.server.engine.pool import KVPool, pages_per_stream
from onbeat.server.engine.settings import Clock, EngineSettings, MonotonicClock
from onbeat.server.engine.slots import SlotWriter
from onbeat.server.engine.transfer import CopyLanes, Transfers

log = logging.getLogger(__name__)
SPLIT_ROWS = 8
"""On a CPU two halves on two threads are faster than one batch from so many rows on."""


def make_engine(
    model: CausalModel,
    settings: EngineSettings,
    slots: SlotWriter,
    emit: Callable[[Event], None],
    clock: Clock | None = None,
    *,
    known: Calibration | None = None,
    cache: CalibrationCache | None = None,
    transfers: Callable[[KVStore], Transfers] | None = None,
    device: str = "cpu",
) -> Engine:
    """The warm engine. Its cost tables are `known`, or in `cache`, or measured on the model now.
    `transfers`: what copies pages, if not threads of this process; `device`: the model's.

    Raises ValueError for so few pages that no stream could ever run, and for a model whose family
    has not its steps or its level of commits."""
    check_served(model.spec.modalities, model.spec.max_steps, model.spec.context_noise)
    torch.set_num_threads(settings.compute_threads)
    settings = resolved(settings, device)
    clock = clock or MonotonicClock()
    streams = settings.active_streams + settings.max_jobs
    least = pages_per_stream(model.spec)
    pages = settings.pages or streams * least
    if pages < least:
        raise ValueError(f"pages: {pages}; allowed: from {least}, what one stream needs, or 0")
    pool, store = KVPool(pages), KVStore(model.spec, pages, device=device)
    executor = make_executor(model, store, settings)
    bench = Bench(model, pool, store, settings, executor)
    costs = MeasuredCosts(bench, model.spec, settings, clock, known=known, cache=cache)
    lane = TorchDecodeLane(
        model,
        clock=clock,
        cost=costs.decode,
        max_rows=settings.max_decode_rows,
        threads=settings.decode_threads,
        threaded=settings.decode_lane,
    )
    return Engine(
        model.spec,
        settings,
        pool=pool,
        executor=executor,
        lane=lane,
        costs=costs,
        slots=slots,
        emit=emit,
        clock=clock,
        transfers=(transfers or _copy_lanes(model, settings, clock))(store),
    )


def resolved(settings: EngineSettings, device: str) -> EngineSettings:
    """Settings without "auto", as they are for good; logged."""
    plan_ahead = settings.plan_ahead
    if plan_ahead == "auto":
        plan_ahead = "on" if device.startswith("cuda") else "off"
    split_rows = settings.split_rows
    if split_rows == 0:
        pays = not device.startswith("cuda") and settings.compute_threads > 1
        split_rows = SPLIT_ROWS if pays else settings.max_rows + 1
    log.info("device %s, plan_ahead %s (asked: %s)", device, plan_ahead, settings.plan_ahead)
    log.info("halves from %d rows on (asked: %d)", split_rows, settings.split_rows)
    return replace(settings, plan_ahead=plan_ahead, split_rows=split_rows)


def make_executor(model: CausalModel, store: KVStore, settings: EngineSettings) -> TorchExecutor:
    """The compute lane of the device that the pages are on."""
    if store.k.is_cuda:
        from onbeat.server.engine.cuda import CudaExecutor

        most, split = settings.max_rows, settings.split_rows
        return CudaExecutor(model, store, max_rows=most, split_rows=split)
    threads = settings.compute_threads
    lane = ThreadLane(threads) if settings.plan_ahead == "on" else InlineLane()
    split = settings.split_rows if threads > 1 else 0
    return TorchExecutor(model, store, threads, lane, split)


def _copy_lanes(
    model: CausalModel, settings: EngineSettings, clock: Clock
) -> Callable[[KVStore], Transfers]:
    pages, threaded = model.spec.window_chunks, settings.decode_lane
    return lambda store: CopyLanes(_copier(store, pages), clock, threaded=threaded)


def _copier(store: KVStore, pages: int) -> HostCopier:
    if store.k.is_cuda:
        from onbeat.server.engine.cuda import CudaCopier

        return CudaCopier(store, pages)
    return HostCopier(store, pages)
