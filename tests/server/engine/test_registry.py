"""What the front remembers of a stream, so that a new engine process can go on with it."""

from onbeat.server.engine.messages import (
    ChunkReady,
    CloseStream,
    ControlStream,
    OpenStream,
    StageTimes,
    StreamEnded,
    StreamRefused,
)
from onbeat.server.engine.registry import MAX_LOSSES, StreamRegistry
from onbeat.server.engine.snapshot import unpack_snapshot
from onbeat.server.vocabulary import StreamKind, Transition


def _open(stream_id: str = "a", kind: StreamKind = "live") -> OpenStream:
    return OpenStream(stream_id=stream_id, kind=kind, prompt="red ball", seed=1)


def _ready(chunk: int, revision: int = 0) -> ChunkReady:
    stages = StageTimes(released_at=0, queue=0, denoise=0, decode=0, convert=0)
    return ChunkReady(
        stream_id="a", chunk=chunk, revision=revision, slot=0, frames=4, frame_bytes=6, samples=8,
        latent_bytes=4, steps=2, playout_at=0, ready_at=0, on_time=True, stages=stages, last=False,
    )  # fmt: skip


def test_a_stream_comes_back_with_its_window_and_its_controls() -> None:
    registry = StreamRegistry(window_chunks=2)
    registry.note(_open())
    registry.note(ControlStream(stream_id="a", revision=3, prompt="blue ring", steps=1))
    for chunk in range(4):
        registry.delivered(_ready(chunk, revision=3), bytes([chunk] * 4))
    assert registry.engine_lost(hopeless=False) == []
    (command,) = registry.reopen()
    assert (command.prompt, command.seed, command.steps, command.revision) == ("blue ring", 1, 1, 3)
    assert command.snapshot is not None
    snapshot = unpack_snapshot(command.snapshot, chunk_bytes=4, keep=2)
    assert snapshot.next_chunk == 4
    assert snapshot.latents == [b"\2\2\2\2", b"\3\3\3\3"]


def test_a_stream_without_chunks_starts_anew() -> None:
    registry = StreamRegistry()
    registry.note(_open())
    assert registry.reopen() == [_open()]


def test_jobs_end_with_the_engine_and_live_streams_do_not() -> None:
    registry = StreamRegistry()
    registry.note(_open("a"))
    registry.note(_open("b", kind="job"))
    assert registry.engine_lost(hopeless=False) == [
        StreamEnded(stream_id="b", reason="engine_lost")
    ]
    assert "a" in registry and "b" not in registry


def test_a_hopeless_engine_ends_all() -> None:
    registry = StreamRegistry()
    registry.note(_open())
    (ended,) = registry.engine_lost(hopeless=True)
    assert ended.reason == "engine_lost" and len(registry) == 0


def test_a_stream_that_kills_engines_is_given_up() -> None:
    registry = StreamRegistry()
    registry.note(_open())
    for _ in range(MAX_LOSSES - 1):
        assert registry.engine_lost(hopeless=False) == []
    registry.delivered(_ready(0), bytes(4))
    for _ in range(MAX_LOSSES - 1):
        assert registry.engine_lost(hopeless=False) == []
    (ended,) = registry.engine_lost(hopeless=False)
    assert ended.reason == "failed" and ended.error is not None


def test_paused_streams_outlive_any_number_of_engines() -> None:
    registry = StreamRegistry()
    registry.note(_open())
    registry.note(ControlStream(stream_id="a", revision=1, paused=True))
    for _ in range(3 * MAX_LOSSES):
        assert registry.engine_lost(hopeless=False) == []
    registry.note(ControlStream(stream_id="a", revision=2, paused=False))
    for _ in range(MAX_LOSSES - 1):
        assert registry.engine_lost(hopeless=False) == []
    assert registry.engine_lost(hopeless=False)


def test_closed_refused_and_ended_streams_are_forgotten() -> None:
    registry = StreamRegistry()
    for command_or_event in (
        CloseStream(stream_id="a"),
        StreamRefused(stream_id="a", code="capacity", reason="full"),
        StreamEnded(stream_id="a", reason="finished"),
    ):
        registry.note(_open())
        if isinstance(command_or_event, CloseStream):
            registry.note(command_or_event)
        else:
            registry.observe(command_or_event)
        assert len(registry) == 0


def test_chunks_of_an_old_prompt_are_no_history() -> None:
    registry = StreamRegistry(window_chunks=4)
    registry.note(_open())
    registry.delivered(_ready(0), b"old0")
    registry.note(ControlStream(stream_id="a", revision=1, prompt="blue ring"))
    registry.note(ControlStream(stream_id="a", revision=2, steps=1))
    registry.delivered(_ready(1), b"old1")
    registry.delivered(_ready(2, revision=2), b"new2")
    registry.delivered(_ready(3, revision=2), b"new3")
    (command,) = registry.reopen()
    assert command.snapshot is not None
    snapshot = unpack_snapshot(command.snapshot, chunk_bytes=4, keep=4)
    assert (snapshot.next_chunk, snapshot.latents) == (4, [b"new2", b"new3"])


def test_an_engine_lost_between_a_cut_and_its_first_chunk_does_not_bring_the_old_scene_back() -> (
    None
):
    registry = StreamRegistry(window_chunks=4)
    registry.note(_open())
    registry.delivered(_ready(0), b"old0")
    registry.note(ControlStream(stream_id="a", revision=1, prompt="blue ring"))
    (command,) = registry.reopen()
    assert command.snapshot is not None and command.prompt == "blue ring"
    snapshot = unpack_snapshot(command.snapshot, chunk_bytes=4, keep=4)
    assert (snapshot.next_chunk, snapshot.latents) == (1, [])


def test_a_recache_keeps_the_history_that_a_cut_gives_up() -> None:
    kept = {}
    ways: tuple[Transition | None, ...] = (None, "recache", "cut")
    for transition in ways:
        registry = StreamRegistry(window_chunks=4)
        registry.prompt_transition = "recache"
        registry.note(_open())
        registry.delivered(_ready(0), b"old0")
        registry.note(_switch(transition))
        registry.delivered(_ready(1, revision=1), b"new1")
        (command,) = registry.reopen()
        assert command.snapshot is not None and command.prompt == "blue ring"
        snapshot = unpack_snapshot(command.snapshot, chunk_bytes=4, keep=4)
        kept[transition] = snapshot.latents
    whole = [b"old0", b"new1"]
    assert kept == {None: whole, "recache": whole, "cut": [b"new1"]}


def _switch(transition: Transition | None) -> ControlStream:
    return ControlStream(stream_id="a", revision=1, prompt="blue ring", transition=transition)
