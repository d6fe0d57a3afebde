"""What holds inside an engine after every tick, and for every plan, whatever has happened.

Free functions that assert. What it is not: what an engine says over time (ledger.py).
"""

from collections.abc import Sequence

from onbeat.server.engine.engine import Engine
from onbeat.server.engine.scheduler import Candidate, Plan
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.simulate.world import Machine
from onbeat.server.engine.streams import Stream, history_chunks
from tests.server.engine.ledger import Ledger, Life

EPSILON = 1e-9


def check_plan(
    now: float, candidates: Sequence[Candidate], plan: Plan, settings: EngineSettings
) -> None:
    """Rows that may run, each once, no more than a batch; sleep until the next release at most."""
    by_id = {c.stream: c for c in candidates}
    assert len(by_id) == len(candidates), "a stream is a candidate twice"
    named = [*plan.rows, *plan.finish, *plan.drops]
    assert len(set(named)) == len(named) and set(named) <= set(by_id), plan
    rows = [by_id[s] for s in plan.rows]
    assert all(c.release <= now for c in rows), f"{plan} at {now}"
    width = sum(c.width for c in rows)
    assert width <= settings.max_rows or len(rows) == 1, f"{width} rows, {settings.max_rows} fit"
    for c in (by_id[s] for s in plan.finish):
        assert c.optional and c.kind == "live", f"{c} has no picture yet"
    for c in (by_id[s] for s in plan.drops):
        assert c.droppable and c.kind == "live" and c.release <= now, f"{c} may not be dropped"
    if named:
        return
    later = [c.release for c in candidates if c.release > now]
    assert now < plan.wake_at <= min(later, default=float("inf")), f"{plan} at {now}: {later}"
    ready = [c for c in candidates if c.release <= now]
    if any(c.kind == "live" for c in ready) or all(c.kind == "job" for c in candidates):
        assert not ready, f"nothing runs, but {ready} could"


def check_clocks(engine: Engine, now: float) -> None:
    """Whoever is far behind its clock has a new one before a tick is planned."""
    behind = engine.settings.max_behind_chunks * engine.spec.chunk_seconds + EPSILON
    for stream in engine.roster.streams.values():
        due = stream.playout_at(stream.chunk, engine.spec)
        if stream.is_live and not stream.paused and due is not None:
            assert now <= due + behind, f"{stream.id}: {now - due} s behind"


def check_sleep(engine: Engine, now: float) -> None:
    """A tick did nothing: no stream has work that may run now, or before `wake_at`."""
    for stream in engine.roster.streams.values():
        if not _could_work(engine, stream):
            continue
        release = stream.release_at(engine.spec)
        if stream.is_live and release > now:
            assert engine.wake_at <= release + EPSILON, f"{stream.id}: asleep past {release}"
        elif stream.is_live:
            raise AssertionError(f"{stream.id}: nothing runs, but its chunk {stream.chunk} could")


def _could_work(engine: Engine, stream: Stream) -> bool:
    """By the stream's own state, whatever the loop thinks of it."""
    if stream.complete or stream.place != "resident" or (stream.paused and stream.state is None):
        return False
    if stream.preparing and not stream.uncommitted:
        return False
    clockless = stream.anchor is None and stream.in_decode > 0
    return stream.state is not None or bool(stream.uncommitted) or not clockless


def check_engine(engine: Engine, ledger: Ledger) -> None:
    """Pages, reservations, copies; and each stream against what was said to it and of it."""
    engine.check_integrity()
    streams = engine.roster.streams
    assert set(streams) == set(ledger.lives), "open streams are not those that were said to be"
    for stream in streams.values():
        _check_stream(engine, stream, ledger)
    if not engine._commands:
        _check_answers(engine, ledger)


def _check_answers(engine: Engine, ledger: Ledger) -> None:
    """Everything that was asked has its answer, or a place in the waiting room."""
    room, lives = engine.roster.gate.room, ledger.lives
    waiting = {s for s in lives if s in room} | set(ledger.asked)
    assert set(room.ids()) == waiting, f"{room.ids()} wait, {sorted(waiting)} should"
    if room._look_at > engine._clock.now():  # nothing has changed since places were told
        places = sorted(
            ledger.asked[s].position if s in ledger.asked else lives[s].position for s in waiting
        )
        assert places == list(range(1, len(places) + 1)), f"places {places} were told"
    for stream in engine.roster.streams.values():
        life = lives[stream.id]
        coming = stream.pending is not None and stream.pending.transition == "recache"
        assert coming or not life.controls, f"{stream.id}: no answer to {life.controls}"
        assert stream.paused or not life.wants_pause, f"{stream.id} goes on against its viewer"
        assert stream.id in room or stream.paused == life.wants_pause, f"{stream.id} is not let in"


def _check_stream(engine: Engine, stream: Stream, ledger: Ledger) -> None:
    life, c = ledger.lives[stream.id], stream.counters
    total = life.opened.total_chunks
    known = f"{stream.id}, chunk {stream.chunk}"
    pending = stream.chunk - life.first - life.accounted
    assert stream.in_decode == pending, f"{known}: {stream.in_decode} to be decoded, not {pending}"
    under_way = [n for n in (*life.ready, *life.dropped) if n >= stream.chunk]
    assert not under_way, f"{known}: {under_way} were published"
    assert total is None or stream.chunk <= total, known
    said = (c.made, c.on_time, c.late, c.dropped)
    real = (len(life.ready), life.on_time, len(life.ready) - life.on_time, len(life.dropped))
    assert said == real, f"{known}: counted {said}, events {real}"
    finished = sum(c.by_steps.values()) - c.made - stream.in_decode
    assert 0 <= finished <= c.dropped, f"{known}: {finished} chunks were finished and then dropped"
    _check_window(engine, stream)
    _check_pause(stream, ledger)


def _check_window(engine: Engine, stream: Stream) -> None:
    """Pages hold the newest chunks that are not still to be committed; both together are what the
    next chunk sees."""
    history, waiting = list(stream.history), list(stream.uncommitted)
    known = f"{stream.id}: {len(history)} chunks, {len(waiting)} uncommitted, {stream.place}"
    assert len(history) <= history_chunks(stream.opened.kind, engine.spec), known
    assert all(a is b for a, b in zip(waiting[::-1], history[::-1], strict=False)), known
    assert len(waiting) <= len(history), known
    if stream.place in ("host", "latents"):
        assert not stream.window.pages, known
    elif stream.place == "resident":
        committed = len(stream.window)
        full = min(engine.spec.window_chunks, committed + len(waiting))
        assert len(history) >= full, f"{known}, {committed} committed"
        assert len(history) == full or not stream.is_live, f"{known}, {committed} committed"


def _check_pause(stream: Stream, ledger: Ledger) -> None:
    life = ledger.lives[stream.id]
    if not stream.paused:
        life.pause_limit = None
    elif life.pause_limit is None:
        life.pause_limit = stream.chunk + (stream.state is not None)
    else:
        assert stream.chunk <= life.pause_limit, f"{stream.id}: goes on while it is paused"


def is_light(engine: Engine, machine: Machine) -> bool:
    """Whether all chunks fit with ease even if every forward and decode has one row, and nobody
    waits for room."""
    spec, streams = engine.spec, list(engine.roster.streams.values())
    row, decode = machine.compute.at(1), machine.decode.at(1)
    live = [s for s in streams if s.is_live and not s.paused]
    work = sum((1 + s.asked_steps(spec)) * row for s in live)
    lead = decode * (len(streams) + 1)
    window = min((s.opened.ahead_chunks for s in live), default=1) * spec.chunk_seconds
    busy = max(work + 2 * row, decode * len(streams)) > 0.4 * spec.chunk_seconds
    return not busy and work + lead + 2 * row <= 0.6 * window and not engine.roster.gate.room.ids()


def check_flow(stream: Stream, life: Life | None, since: float) -> None:
    """6 chunk lengths of a light load have passed without anything that disturbs."""
    if life is None:  # it has ended
        return
    new = [e for e in life.ready.values() if e.ready_at > since]
    known = f"{stream.id} since {since}: {[(e.chunk, e.on_time) for e in new]}"
    if not stream.is_live:
        assert new, f"{known}: the job stands still"
        return
    assert len(new) >= 5 and all(e.on_time for e in new), known
    lost = [n for n in life.dropped if n > new[0].chunk]
    assert not lost, f"{known}, dropped {lost}"
