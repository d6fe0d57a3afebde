"""Puts an engine together on a model: pages, executor, decode lane, measured or given costs.

What it is not: the loading of a model from launch arguments (build.py).
"""

from collections.abc import Callable

import torch

from onbeat.models.spec import CausalModel
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
) -> Engine:
    """The warm engine. Its cost tables are `known`, or in `cache`, or measured on the model now.
    `transfers`: what copies pages, if not threads of this process."""
    torch.set_num_threads(settings.compute_threads)
    clock = clock or MonotonicClock()
    streams = settings.active_streams + settings.max_jobs
    pages = settings.pages or streams * pages_per_stream(model.spec)
    pool, store = KVPool(pages), KVStore(model.spec, pages)
    bench = Bench(model, pool, store, settings)
    costs = MeasuredCosts(bench, model.spec, settings, clock, known=known, cache=cache)
    threads = settings.compute_threads
    compute = ThreadLane(threads) if settings.plan_ahead == "on" else InlineLane()
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
        executor=TorchExecutor(model, store, settings.compute_threads, compute),
        lane=lane,
        costs=costs,
        slots=slots,
        emit=emit,
        clock=clock,
        transfers=(transfers or _copy_lanes(model, settings, clock))(store),
    )


def _copy_lanes(
    model: CausalModel, settings: EngineSettings, clock: Clock
) -> Callable[[KVStore], Transfers]:
    pages, threaded = model.spec.window_chunks, settings.decode_lane
    return lambda store: CopyLanes(HostCopier(store, pages), clock, threaded=threaded)
