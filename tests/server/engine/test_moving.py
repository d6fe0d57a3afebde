"""A stream that moves to another engine: what has the same bits, what goes on, what is refused."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from onbeat.server.engine.local import LocalEngine
from onbeat.server.engine.messages import (
    ChunkReady,
    CloseStream,
    ControlStream,
    ExportStream,
    OpenStream,
    StreamExported,
)
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.snapshot import Snapshot, pack, unpack_snapshot
from tests.server.engine.drive import Rig
from tests.server.engine.fake import SPEC, FakeModel

PLAIN: dict[str, Any] = {"admission": False, "anytime": False, "max_active": 2, "max_jobs": 0}


def rig_of(**more: Any) -> Rig:
    return Rig(EngineSettings(decode_lane=False, **PLAIN | more))


def paused_at(rig: Rig, chunks: int) -> None:
    """Stream "a", paused between two chunks after it has made so many."""
    rig.open("a", seed=5)
    while len(rig.ready("a")) < chunks:
        rig.run(0.002)
    rig.engine.submit(ControlStream(stream_id="a", revision=1, paused=True))
    rig.run(0.3)


def exported(rig: Rig, stream_id: str = "a") -> StreamExported:
    rig.engine.submit(ExportStream(stream_id=stream_id))
    rig.run(0.001)
    event = rig.of(StreamExported)[-1]
    assert isinstance(event, StreamExported)
    return event


def go_on(rig: Rig, stream_id: str = "a", seconds: float = 2.0) -> dict[int, bytes]:
    """All chunks of the stream's that this engine has made after a resume."""
    rig.engine.submit(ControlStream(stream_id=stream_id, revision=20, paused=False))
    rig.run(seconds)
    return {chunk: data for (name, chunk), data in rig.latents.items() if name == stream_id}


def moved(first: Rig) -> Rig:
    opening = exported(first).opening
    assert opening is not None
    second = rig_of()
    second.engine.submit(opening)
    return second


def test_a_young_stream_goes_on_with_the_bits_that_it_would_have_had() -> None:
    """All of its chunks are still in the window, so the new cache is the old one."""
    first = rig_of()
    paused_at(first, 2)
    second = moved(first)
    there, here = go_on(second), go_on(first)
    both = sorted(set(there) & set(here))
    assert len(both) >= 6 and both[0] == min(there)
    assert all(there[chunk] == here[chunk] for chunk in both)
    first.check()
    second.check()


def test_an_older_stream_has_the_bits_of_one_that_was_left_with_its_latents() -> None:
    first = rig_of(host_memory=0)
    paused_at(first, 9)
    second = moved(first)
    for name in ("guest", "other"):
        first.open(name)
    first.run(0.5)
    assert first.engine.roster.streams["a"].place == "latents"
    first.engine.submit(CloseStream(stream_id="guest"))
    there, here = go_on(second), go_on(first)
    both = sorted(set(there) & set(here))
    assert len(both) >= 6 and all(there[chunk] == here[chunk] for chunk in both)
    unmoved = rig_of()
    paused_at(unmoved, 9)
    kept = go_on(unmoved)
    assert any(there[chunk] != kept[chunk] for chunk in both)
    for rig in (first, second, unmoved):
        rig.check()


def test_counters_level_and_prompt_go_on() -> None:
    first = rig_of()
    paused_at(first, 4)
    stream = first.engine.roster.streams["a"]
    change = ControlStream(stream_id="a", revision=9, prompt="blue ball", steps=3)
    first.engine.submit(change)
    first.run(0.01)
    event = exported(first)
    assert event.opening is not None and event.pending is not None
    assert (event.opening.prompt, event.pending.prompt) == ("red ball", "blue ball")
    second = rig_of()
    second.engine.submit(event.opening)
    second.engine.submit(event.pending)
    second.run(0.01)
    there = second.engine.roster.streams["a"]
    assert there.counters == stream.counters and there.counters.made >= 4
    assert there.chunk == stream.chunk and there.paused and there.now.seed == 5
    made = go_on(second)
    assert {e.steps for e in second.ready("a")} == {SPEC.first_chunk_steps, 3}
    assert second.ready("a")[-1].revision == 20
    assert there.counters.made == stream.counters.made + len(made)
    first.check()
    second.check()


def test_a_ladder_level_is_only_taken_where_quality_may_bend() -> None:
    opening = OpenStream(
        stream_id="a",
        kind="live",
        prompt="red",
        seed=1,
        snapshot=pack(Snapshot(next_chunk=0, latents=[], level=1)),
    )
    for anytime, level in ((True, 1), (False, 0)):
        rig = rig_of(anytime=anytime)
        rig.engine.submit(opening)
        rig.run(0.001)
        assert rig.engine.roster.streams["a"].ladder.level == level
        rig.check()


def test_gaps_and_seeds_of_a_history_are_kept() -> None:
    first = rig_of()
    paused_at(first, 3)
    first.engine.roster.streams["a"].chunk += 4
    first.engine.submit(ControlStream(stream_id="a", revision=2, seed=77))
    go_on(first, seconds=0.05)
    first.engine.submit(ControlStream(stream_id="a", revision=3, paused=True))
    first.run(0.3)
    history = first.engine.roster.streams["a"].history
    assert len({state.seed for state in history}) == 2
    second = moved(first)
    second.run(0.001)
    there = second.engine.roster.streams["a"].history
    assert [(s.chunk, s.seed) for s in there] == [(s.chunk, s.seed) for s in history]
    first.check()
    second.check()


def test_an_unknown_stream_is_answered() -> None:
    rig = rig_of()
    assert exported(rig, "nobody").opening is None
    rig.check()


@pytest.mark.parametrize("field", ["chunks", "seeds"])
def test_a_snapshot_whose_lists_do_not_match_is_refused(field: str) -> None:
    wrong = msgspec.structs.replace(Snapshot(next_chunk=3, latents=[bytes(8)] * 3), **{field: [1]})
    with pytest.raises(ValueError, match=f"snapshot: 1 {field}; allowed: 3, or none"):
        unpack_snapshot(pack(wrong), chunk_bytes=8, keep=3)


def until(engine: LocalEngine, found: Callable[[Any], bool], latents: dict[int, bytes]) -> Any:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        event = engine.receive(0.1)
        if isinstance(event, ChunkReady):
            latents[event.chunk] = engine.latents(event)
            engine.take(event)
        if event is not None and found(event):
            return event
    raise AssertionError("it did not come")


def test_a_stream_moves_between_two_engines_on_threads() -> None:
    """Paused, exported, its last chunk awaited, opened there, closed here: no chunk twice."""
    settings = EngineSettings(max_rows=2, **PLAIN)
    first, second = LocalEngine(FakeModel(), settings), LocalEngine(FakeModel(), settings)
    here: dict[int, bytes] = {}
    there: dict[int, bytes] = {}
    try:
        first.start()
        second.start()
        first.send(OpenStream(stream_id="a", kind="live", prompt="red ball", seed=5))
        until(first, lambda e: isinstance(e, ChunkReady) and e.chunk == 1, here)
        first.send(ControlStream(stream_id="a", revision=1, paused=True))
        first.send(ExportStream(stream_id="a"))
        opening = until(first, lambda e: isinstance(e, StreamExported), here).opening
        first.send(CloseStream(stream_id="a"))
        second.send(msgspec.structs.replace(opening, paused=False))
        until(second, lambda e: isinstance(e, ChunkReady) and len(there) >= 3, there)
    finally:
        first.close()
        second.close()
    reference = rig_of()
    reference.open("a", seed=5)
    reference.run(2.5)
    expected = {chunk: data for (_, chunk), data in reference.latents.items()}
    reference.check()
    assert all(expected[chunk] == data for chunk, data in (here | there).items())
    assert (
        min(there)
        == unpack_snapshot(
            opening.snapshot, chunk_bytes=len(expected[0]), keep=SPEC.window_chunks
        ).next_chunk
    )
