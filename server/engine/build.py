"""Makes the engine of an engine process from its launch arguments. Heavy imports happen here."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from onbeat.models.registry import load_model
from onbeat.models.spec import ModelSpec
from onbeat.server.engine.assemble import make_engine
from onbeat.server.engine.calibration import CalibrationCache
from onbeat.server.engine.engine import Engine
from onbeat.server.engine.fingerprint import calibration_key
from onbeat.server.engine.launch import EngineLaunch
from onbeat.server.engine.messages import Event
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.slots import SlotWriter, slot_bytes

Slots = TypeVar("Slots", bound=SlotWriter)


def build_engine(
    launch: EngineLaunch, make_slots: Callable[[int], Slots], emit: Callable[[Event], None]
) -> tuple[Engine, Slots]:
    """The warm engine and the slots it writes to; `make_slots` is told the size of one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(launch.model, weights=_weights(launch), device=device)
    settings = engine_settings(launch)
    slots = make_slots(slot_bytes(model.spec))
    cache = calibration_cache(launch, model.spec)
    engine = make_engine(
        model, settings, slots, emit, known=launch.known, cache=cache, device=device
    )
    gc.collect()
    gc.freeze()  # the model's objects live as long as the process; collections skip them
    return engine, slots


def _weights(launch: EngineLaunch) -> Path | None:
    return Path(launch.weights) if launch.weights else None


def calibration_cache(launch: EngineLaunch, spec: ModelSpec) -> CalibrationCache | None:
    """Where this engine's cost tables are kept, None if it has no folder for them."""
    if launch.calibration_folder is None:
        return None
    key = calibration_key(spec, engine_settings(launch), _weights(launch))
    return CalibrationCache(
        folder=Path(launch.calibration_folder), key=key, recalibrate=launch.recalibrate
    )


def engine_settings(launch: EngineLaunch) -> EngineSettings:
    """Raises ValueError for values that an engine cannot run with."""
    return EngineSettings(
        policy=launch.policy,
        headroom=launch.headroom,
        max_rows=launch.max_rows,
        max_streams=launch.max_streams,
        max_active=launch.max_active,
        plan_ahead=launch.plan_ahead,
        split_rows=launch.split_rows,
        pages=launch.pages,
        host_memory=launch.host_memory,
        offload_after_seconds=launch.offload_after_seconds,
        compute_threads=launch.compute_threads,
        decode_threads=launch.decode_threads,
    )
