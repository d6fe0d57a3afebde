"""Forks: the same history in two streams, shared pages, decoders without a seam, nothing leaked."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onbeat.models.toybox.model import Toybox
from onbeat.server.engine.messages import CloseStream, OpenStream
from onbeat.server.engine.registry import StreamRegistry
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.snapshot import unpack_snapshot
from tests.server.engine.drive import Rig
from tests.server.engine.fake import SPEC

OPEN = EngineSettings(decode_lane=False, admission=False)


def forked(rig: Rig, name: str = "b", **more: Any) -> None:
    values = {"prompt": "red ball", "fork_of": "a", **more}
    rig.open(name, **values)


def running(model: Toybox | None = None) -> Rig:
    rig = Rig(OPEN, model=model)
    rig.open("a")
    rig.run(2.0)
    return rig


@pytest.mark.parametrize("model", [None, "toybox"])
def test_a_fork_with_the_same_prompt_and_seed_goes_on_like_its_parent(model: str | None) -> None:
    """To the bit, in picture and in sound: its decoder goes on where the parent's was."""
    rig = running(Toybox.random(2) if model else None)
    forked(rig)
    rig.run(1.5)
    both = sorted({c for s, c in rig.latents if s == "a"} & {c for s, c in rig.latents if s == "b"})
    assert len(both) >= 4
    assert both[0] == min(e.chunk for e in rig.ready("b")) > 0
    for chunk in both:
        assert rig.latents["a", chunk] == rig.latents["b", chunk], chunk
        assert rig.sound["a", chunk] == rig.sound["b", chunk], chunk
    assert not rig.dropped() and rig.on_time_ratio() == 1.0
    rig.check()


def test_a_fork_shares_its_parents_pages_and_then_has_its_own() -> None:
    rig = running()
    alone = rig.engine.pool.used
    forked(rig, seed=9)
    rig.engine._take_commands(rig.clock.now())
    first, second = (rig.engine.roster.streams[name] for name in "ab")
    assert rig.engine.pool.used == alone and second.window.pages == first.window.pages
    assert list(second.history) == list(first.history)
    rig.run(1.5)
    assert rig.latents["a", 15] != rig.latents["b", 15]
    assert not set(first.window.pages) & set(second.window.pages)
    rig.check()


def test_a_fork_takes_up_a_prompt_of_its_own_like_a_switch() -> None:
    rig = running()
    forked(rig, "cut", prompt="blue ball")
    forked(rig, "recache", prompt="blue ball", transition="recache")
    rig.run(0.001)
    assert len(rig.engine.roster.streams["recache"].history) == SPEC.window_chunks
    rig.run(1.0)
    first = {name: rig.ready(name)[0] for name in ("cut", "recache")}
    assert all(e.steps == SPEC.first_chunk_steps and e.chunk > 0 for e in first.values())
    chunk = first["cut"].chunk
    assert rig.latents["cut", chunk] != rig.latents["recache", chunk]
    assert len(rig.ready("a")) >= 14 and not rig.dropped()
    rig.check()


def test_what_cannot_be_forked_is_refused_with_the_reason() -> None:
    rig = Rig(OPEN)
    rig.open("a")
    forked(rig)
    forked(rig, "c", fork_of="nobody")
    rig.run(0.001)
    assert [e.code for e in rig.refused()] == ["invalid", "invalid"]
    assert "fork_of: 'a' has not finished a chunk yet" in rig.refused()[0].reason
    assert "fork_of: 'nobody' is no open stream" in rig.refused()[1].reason
    rig.check()


def test_a_fork_needs_pages_and_time_like_any_stream() -> None:
    pages = 2 * (SPEC.window_chunks + 2)
    rig = Rig(EngineSettings(decode_lane=False, admission=False, pages=pages))
    rig.open("a")
    rig.run(2.0)
    forked(rig)
    forked(rig, "c")
    rig.run(0.5)
    (refusal,) = rig.refused()
    assert refusal.stream_id == "c" and "pages of key-value memory" in refusal.reason
    rig.check()


def test_the_decoder_of_a_fork_is_a_copy() -> None:
    rig = running()
    forked(rig)
    rig.run(1.0)
    first, second = (rig.engine.roster.streams[name].decoder for name in "ab")
    assert first is not second
    made = len(rig.ready("b"))
    assert second["chunks"] == min(e.chunk for e in rig.ready("b")) + made
    rig.check()


@given(order=st.permutations(["a", "b", "c", "d"]), gaps=st.lists(st.floats(0, 0.5), min_size=4))
@settings(max_examples=15, deadline=None)
def test_pages_come_back_in_whatever_order_forks_end(order: list[str], gaps: list[float]) -> None:
    rig = running()
    forked(rig, "b", seed=2)
    rig.run(gaps[0] + 0.3)
    forked(rig, "c", fork_of="b", prompt="blue ball", transition="recache")
    forked(rig, "d", fork_of="b", prompt="blue ball")
    for name, gap in zip(order, gaps, strict=False):
        rig.run(gap)
        rig.engine.check_integrity()
        rig.engine.submit(CloseStream(stream_id=name))
    rig.run(0.1)
    rig.engine.check_integrity()
    assert (rig.engine.pool.used, rig.engine.pool.reserved) == (0, 0)
    rig.check()


def test_a_fork_survives_the_engine_without_its_parent() -> None:
    registry = StreamRegistry(window_chunks=4)
    opened = OpenStream(stream_id="a", kind="live", prompt="red", seed=1)
    registry.note(opened)
    first = Rig(OPEN)
    first.open("a")
    first.run(1.5)
    for event in first.ready("a"):
        registry.delivered(event, first.latents["a", event.chunk])
    registry.note(OpenStream(stream_id="b", kind="live", prompt="red", seed=2, fork_of="a"))
    registry.note(OpenStream(stream_id="c", kind="live", prompt="blue", seed=2, fork_of="a"))
    registry.note(CloseStream(stream_id="a"))
    same, cut = registry.reopen()
    assert same.fork_of is None and same.snapshot is not None
    assert cut.fork_of is None and cut.snapshot is not None
    size = len(first.latents["a", 0])
    scene = unpack_snapshot(cut.snapshot, chunk_bytes=size, keep=4)
    assert scene.next_chunk == first.ready("a")[-1].chunk + 1 and not scene.latents
    snapshot = unpack_snapshot(same.snapshot, chunk_bytes=size, keep=4)
    assert snapshot.next_chunk == first.ready("a")[-1].chunk + 1 and len(snapshot.latents) == 4
