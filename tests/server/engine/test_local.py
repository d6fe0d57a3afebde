"""The engine on a thread: real clock, real decode lane, real slots."""

import gc
import time
from collections.abc import Iterator, Sequence

import pytest

from onbeat.models.spec import DecodedChunks, Latents
from onbeat.server.engine.local import LocalEngine
from onbeat.server.engine.messages import (
    ChunkReady,
    CloseStream,
    EngineDown,
    EngineReady,
    Event,
    OpenStream,
    StreamEnded,
    StreamOpened,
)
from onbeat.server.engine.settings import EngineSettings
from tests.server.engine.fake import SPEC, FakeModel


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    engine = LocalEngine(FakeModel(), EngineSettings(admission=False, max_rows=4), slots=16)
    engine.start()
    yield engine
    engine.close()
    assert engine.engine is not None
    engine.engine.check_integrity()
    assert engine.engine.pool.used == 0


def until(engine: LocalEngine, kind: type[Event], count: int = 1) -> list[Event]:
    """All events up to the `count`th of `kind`; chunks are taken as they come."""
    seen: list[Event] = []
    deadline = time.monotonic() + 30
    while sum(isinstance(e, kind) for e in seen) < count:
        assert time.monotonic() < deadline, seen[-5:]
        event = engine.receive(0.1)
        if event is not None:
            seen.append(event)
        if isinstance(event, ChunkReady):
            payload = engine.take(event)
            assert payload.frames.shape == (4, 24, 16) and payload.audio.shape == (9600,)
    return seen


def test_commands_sent_before_it_is_warm_are_kept(engine: LocalEngine) -> None:
    engine.send(OpenStream(stream_id="a", kind="live", prompt="red ball", seed=1))
    events = until(engine, ChunkReady, 3)
    assert isinstance(events[0], EngineReady) and events[0].step_ms
    assert any(isinstance(e, StreamOpened) and e.recognised == ["red", "ball"] for e in events)
    assert [e.chunk for e in events if isinstance(e, ChunkReady)] == [0, 1, 2]


def test_full_collections_skip_what_was_there_at_the_start(engine: LocalEngine) -> None:
    until(engine, EngineReady)
    assert gc.get_freeze_count() > 0
    engine.close()
    assert gc.get_freeze_count() == 0


def test_a_job_and_live_streams_side_by_side(engine: LocalEngine) -> None:
    for i in range(3):
        engine.send(OpenStream(stream_id=f"s{i}", kind="live", prompt="red", seed=i))
    engine.send(OpenStream(stream_id="j", kind="job", prompt="blue", seed=1, total_chunks=4))
    events = until(engine, StreamEnded)
    chunks = [e for e in events if isinstance(e, ChunkReady) and e.stream_id == "j"]
    assert [e.chunk for e in chunks] == [0, 1, 2, 3]
    assert all(e.latent_bytes == 4 * (2 * 3 + 4 * 5) for e in chunks)
    assert all(e.stages.decode > 0 and e.stages.queue >= 0 for e in chunks)


def test_closing_a_stream_frees_it(engine: LocalEngine) -> None:
    engine.send(OpenStream(stream_id="a", kind="live", prompt="red", seed=1))
    until(engine, ChunkReady)
    engine.send(CloseStream(stream_id="a"))
    (ended,) = [e for e in until(engine, StreamEnded) if isinstance(e, StreamEnded)]
    assert ended.reason == "closed"


def test_closing_twice_and_before_starting_is_fine() -> None:
    engine = LocalEngine(FakeModel())
    engine.close()
    engine.close()
    assert SPEC.name == "fake"


class Breakable(FakeModel):
    broken = False

    def decode(self, latents: Latents, states: Sequence[object]) -> DecodedChunks:
        if self.broken:
            raise KeyError("a fault in the decoder itself")
        return super().decode(latents, states)


def test_a_broken_decode_lane_ends_the_engine_with_its_reason() -> None:
    model = Breakable()
    engine = LocalEngine(model, EngineSettings(admission=False, max_rows=1))
    engine.start()
    until(engine, EngineReady)
    model.broken = True
    engine.send(OpenStream(stream_id="a", kind="live", prompt="red", seed=1))
    down = until(engine, EngineDown)[-1]
    assert isinstance(down, EngineDown) and "a fault in the decoder itself" in down.reason
    engine.close()
