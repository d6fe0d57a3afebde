"""Makes the engine of an engine process from its launch arguments. Heavy imports happen here."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from onbeat.models.registry import load_model
from onbeat.server.engine.assemble import make_engine
from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.engine import Engine
from onbeat.server.engine.launch import EngineLaunch
from onbeat.server.engine.messages import Event
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.slots import SlotWriter, slot_bytes

Slots = TypeVar("Slots", bound=SlotWriter)


def build_engine(
    launch: EngineLaunch, make_slots: Callable[[int], Slots], emit: Callable[[Event], None]
) -> tuple[Engine, Slots]:
    """The warm engine and the slots it writes to; `make_slots` is told the size of one."""
    model = load_model(launch.model, weights=Path(launch.weights) if launch.weights else None)
    slots = make_slots(slot_bytes(model.spec))
    compute, decode = _known(launch.step_ms), _known(launch.decode_ms)
    settings = engine_settings(launch)
    engine = make_engine(model, settings, slots, emit, compute=compute, decode=decode)
    gc.collect()
    gc.freeze()  # the model's objects live as long as the process; collections skip them
    return engine, slots


def _known(milliseconds: dict[int, float]) -> CostModel | None:
    """A cost table that was measured before, None if there is none."""
    if not milliseconds:
        return None
    return CostModel({rows: ms / 1e3 for rows, ms in milliseconds.items()})


def engine_settings(launch: EngineLaunch) -> EngineSettings:
    """Raises ValueError for values that an engine cannot run with."""
    return EngineSettings(
        policy=launch.policy,
        headroom=launch.headroom,
        max_rows=launch.max_rows,
        max_streams=launch.max_streams,
        pages=launch.pages,
        compute_threads=launch.compute_threads,
        decode_threads=launch.decode_threads,
    )
