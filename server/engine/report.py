"""What the engine tells about itself: the event when it is warm, and its regular picture."""

import os
from collections.abc import Sequence

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.admission import Admission
from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.device import Costs
from onbeat.server.engine.figures import Figures
from onbeat.server.engine.forward import Demand
from onbeat.server.engine.messages import AHEAD_CHUNKS, EngineReady, EngineStats
from onbeat.server.engine.pool import KVPool, pages_per_stream
from onbeat.server.engine.residency import Residency
from onbeat.server.engine.roster import Roster
from onbeat.server.engine.scheduler import Candidate
from onbeat.server.engine.slots import SlotWriter, slot_bytes
from onbeat.server.engine.stats import Interval


def ready_event(
    spec: ModelSpec,
    admission: Admission,
    costs: Costs,
    slots: SlotWriter,
    pool: KVPool,
) -> EngineReady:
    period = spec.chunk_seconds
    demand = Demand(rows=1 + spec.default_steps, period=period, window=AHEAD_CHUNKS * period)
    pages = pages_per_stream(spec)
    return EngineReady(
        pid=os.getpid(),
        model=spec.name,
        width=spec.width,
        height=spec.height,
        fps=spec.fps,
        chunk_frames=spec.chunk_frames,
        sample_rate=spec.sample_rate,
        default_steps=spec.default_steps,
        max_steps=spec.max_steps,
        window_chunks=spec.window_chunks,
        weights=spec.weights,
        replay_chunks=spec.replay_chunks,
        takes_reference=spec.takes_reference,
        default_strength=spec.default_strength,
        prompt_transition=spec.prompt_transition,
        capacity_streams=admission.capacity(demand, pages=pages, total_pages=pool.total),
        step_ms={rows: 1e3 * seconds for rows, seconds in costs.compute.table().items()},
        decode_ms={rows: 1e3 * seconds for rows, seconds in costs.decode.table().items()},
        ring_slots=slots.total,
        ring_slot_bytes=slot_bytes(spec),
        calibration=costs.calibration,
    )


def stats_event(
    now: float,
    *,
    interval: Interval,
    candidates: Sequence[Candidate],
    roster: Roster,
    pool: KVPool,
    slots: SlotWriter,
    decode_seconds: list[float],
    utilisation: float,
    figures: Figures,
    residency: Residency,
    cost: CostModel,
) -> EngineStats:
    """`cost`: of forwards; each stream's slack goes by its p99 of one row."""
    row_seconds = cost.predict(1)
    slack = {c.stream: c.deadline - now - c.rows_left * row_seconds for c in candidates}
    return EngineStats(
        at=now,
        streams=[
            s.stats(slack[s.id] if s.is_live else 0.0, roster.spec) for s in roster.streams.values()
        ],
        pages_used=pool.used,
        pages_total=pool.total,
        slots_used=slots.used,
        slots_total=slots.total,
        busy_ratio=interval.busy(now),
        batch_rows=list(interval.rows),
        step_seconds=list(interval.steps),
        plan_seconds=list(interval.plans),
        decode_seconds=decode_seconds,
        waiting=len(roster.gate.room),
        row_seconds=cost.median(1),
        utilisation=utilisation,
        capacity_streams=figures.capacity_streams,
        costs=figures.costs,
        transfer=residency.report(),
    )
