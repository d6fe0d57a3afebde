"""Paused streams: their pages go to others, come back with the same bits, or are filled again."""

import pytest

from onbeat.server.engine.messages import CloseStream, ControlStream
from onbeat.server.engine.pool import pages_per_stream
from onbeat.server.engine.records import Span
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.streams import Stream
from onbeat.server.vocabulary import Place
from tests.server.engine.drive import Rig
from tests.server.engine.fake import SPEC

EACH = pages_per_stream(SPEC)


def rig_of(*, streams: int = 3, copy_seconds: float = 0.003, **more: object) -> Rig:
    """A pool for `streams` streams."""
    values = {"max_active": streams, "max_jobs": 0, "anytime": False, "admission": False, **more}
    settings = EngineSettings(decode_lane=False, **values)  # type: ignore[arg-type]
    return Rig(settings, copy_seconds=copy_seconds)


def pause(rig: Rig, stream_id: str, paused: bool = True) -> None:
    rig.engine.submit(ControlStream(stream_id=stream_id, revision=1, paused=paused))


def stream(rig: Rig, stream_id: str) -> Stream:
    return rig.engine.roster.streams[stream_id]


def run_to(rig: Rig, stream_id: str, place: Place, seconds: float = 5.0) -> None:
    """Until the stream is there; checks the books all the way."""
    end = rig.clock.now() + seconds
    while stream(rig, stream_id).place != place:
        assert rig.clock.now() < end, f"{stream_id} is {stream(rig, stream_id).place}"
        rig.run(0.0005)
        rig.engine.check_integrity()


def latents_of(pauses: bool, host_memory: int = 1 << 20) -> dict[int, bytes]:
    """Of one stream that is paused for a while, or not, beside two others."""
    rig = rig_of(host_memory=host_memory)
    for i in range(3):
        rig.open(f"s{i}", seed=i, prompt=f"prompt {i}")
    rig.run(2.0)
    if pauses:
        pause(rig, "s0")
        rig.run(3.0)
        assert stream(rig, "s0").place in ("host", "latents")
        rig.open("guest", seed=9)
        rig.run(1.0)
        rig.engine.submit(CloseStream(stream_id="guest"))
        pause(rig, "s0", False)
    rig.run(3.0)
    made = {chunk: data for (name, chunk), data in rig.latents.items() if name == "s0"}
    rig.check()
    return made


def test_a_stream_that_was_offloaded_goes_on_with_the_same_bits() -> None:
    plain, paused = latents_of(False), latents_of(True)
    both = set(plain) & set(paused)
    assert len(both) > 20
    assert all(plain[chunk] == paused[chunk] for chunk in both)


def test_a_stream_rebuilt_from_latents_goes_on_but_not_with_the_same_bits() -> None:
    """The oldest chunk of its window is committed without the ones before it."""
    plain, paused = latents_of(False), latents_of(True, host_memory=0)
    assert sorted(paused) == list(range(len(paused)))
    assert len(paused) > 20
    assert plain[5] == paused[5]
    assert any(plain[chunk] != paused[chunk] for chunk in set(plain) & set(paused))


def test_a_young_stream_is_rebuilt_with_the_same_bits() -> None:
    """Its window still holds all of its chunks, so nothing is missing when they are committed."""
    latents = []
    for pauses in (False, True):
        rig = rig_of(host_memory=0)
        rig.open("a")
        while len(rig.ready("a")) < 3:
            rig.run(0.01)
        if pauses:
            pause(rig, "a")
            rig.run(0.3)
            for i in range(3):
                rig.open(f"guest{i}", seed=i)
            rig.run(0.3)
            assert stream(rig, "a").place == "latents"
            rig.engine.submit(CloseStream(stream_id="guest0"))
            pause(rig, "a", False)
        rig.run(2.0)
        latents.append([rig.latents["a", i] for i in range(8)])
        rig.check()
    assert latents[0] == latents[1]


def test_pages_are_given_back_after_a_while_and_host_memory_is_used_again() -> None:
    rig = rig_of(offload_after_seconds=1.0)
    rig.open("a")
    rig.run(1.0)
    for _ in range(4):
        pause(rig, "a")
        rig.run(0.5)
        assert stream(rig, "a").place == "resident"
        run_to(rig, "a", "host", 1.0)
        assert rig.engine.pool.used == 0
        assert rig.engine.residency.host_bytes == rig.engine.residency.buffer_bytes
        pause(rig, "a", False)
        rig.run(1.0)
        assert rig.engine.residency.host_bytes == 0
    assert len(rig.copier.buffers) == 1
    copied = rig.engine.residency.copied
    assert copied.offloads == copied.restores == 4
    rig.check()


def test_many_streams_are_open_on_pages_for_a_few() -> None:
    rig = rig_of(streams=3)
    for i in range(40):
        rig.open(f"s{i}", seed=i, paused=True, prompt=f"prompt {i}")
    rig.run(0.1)
    assert rig.engine.pool.used == 0 and len(rig.engine.roster.streams) == 40
    for first in range(0, 39, 3):
        for i in range(first, first + 3):
            pause(rig, f"s{i}", False)
        rig.run(1.0)
        rig.engine.check_integrity()
        for i in range(first, first + 3):
            assert rig.ready(f"s{i}"), f"s{i}"
            pause(rig, f"s{i}")
    assert not rig.refused()
    rig.check()


def test_one_that_opens_takes_the_pages_of_the_one_paused_longest() -> None:
    rig = rig_of(streams=3, offload_after_seconds=60.0)
    for name in ("a", "b", "c"):
        rig.open(name)
    rig.run(1.0)
    pause(rig, "b")
    rig.run(0.5)
    pause(rig, "a")
    rig.open("d")
    rig.run(0.5)
    assert rig.ready("d") and not rig.refused()
    assert stream(rig, "b").place in ("host", "latents")
    rig.check()


def test_a_resume_without_pages_waits_until_there_are_some() -> None:
    rig = rig_of(streams=2)
    for name in ("a", "b"):
        rig.open(name)
    rig.run(1.0)
    pause(rig, "a")
    run_to(rig, "a", "host")
    rig.open("c")
    rig.run(0.5)
    pause(rig, "a", False)
    rig.run(0.5)
    assert stream(rig, "a").paused
    rig.engine.submit(CloseStream(stream_id="b"))
    before = len(rig.ready("a"))
    rig.run(1.0)
    assert not stream(rig, "a").paused and len(rig.ready("a")) > before
    rig.check()


def test_when_host_memory_is_full_the_one_paused_longest_keeps_its_latents() -> None:
    one = SPEC.window_chunks * rig_of().transfers.page_bytes()
    rig = rig_of(host_memory=one + one // 2)
    for name in ("a", "b"):
        rig.open(name)
    rig.run(1.5)
    pause(rig, "a")
    run_to(rig, "a", "host")
    pause(rig, "b")
    run_to(rig, "b", "host")
    assert stream(rig, "a").place == "latents"
    assert rig.engine.residency.host_bytes == one
    for name in ("a", "b"):
        before = len(rig.ready(name))
        pause(rig, name, False)
        rig.run(1.5)
        assert len(rig.ready(name)) > before
    rig.check()


def test_a_bus_slower_than_the_model_is_not_used() -> None:
    rig = rig_of(copy_seconds=30.0)
    rig.engine.residency.copied.speed.update(dict.fromkeys(("copy-in", "copy-out"), 100.0))
    rig.open("a")
    rig.run(1.5)
    pause(rig, "a")
    rig.run(4.0)
    assert stream(rig, "a").place == "latents" or not rig.engine.residency.copied.offloads
    rig.check()


def test_a_resume_during_the_offload_keeps_the_pages() -> None:
    rig = rig_of(copy_seconds=0.2)
    rig.open("a")
    rig.run(1.5)
    pause(rig, "a")
    run_to(rig, "a", "offloading")
    pause(rig, "a", False)
    rig.run(0.01)
    assert stream(rig, "a").place == "resident"
    rig.run(1.0)
    assert rig.engine.residency.host_bytes == 0 and not rig.dropped("a")
    rig.check()


def test_a_pause_during_the_restore_is_kept() -> None:
    rig = rig_of(copy_seconds=0.2)
    rig.open("a")
    rig.run(1.5)
    pause(rig, "a")
    run_to(rig, "a", "host")
    made = len(rig.ready("a"))
    pause(rig, "a", False)
    run_to(rig, "a", "restoring")
    pause(rig, "a")
    run_to(rig, "a", "resident")
    run_to(rig, "a", "host")
    assert len(rig.ready("a")) == made
    rig.check()


@pytest.mark.parametrize("place", ["resident", "offloading", "host", "restoring", "latents"])
@pytest.mark.parametrize("whole", [False, True])
def test_closing_in_every_place_leaves_nothing_behind(place: Place, whole: bool) -> None:
    """The stream, or the whole engine."""
    rig = rig_of(copy_seconds=0.05, host_memory=0 if place == "latents" else 1 << 20)
    rig.open("a")
    rig.run(1.5)
    pause(rig, "a")
    if place == "latents":
        for i in range(3):
            rig.open(f"guest{i}")
    if place == "restoring":
        run_to(rig, "a", "host")
        pause(rig, "a", False)
    run_to(rig, "a", place)
    if not whole:
        rig.engine.submit(CloseStream(stream_id="a"))
        rig.run(0.5)
        assert "a" in rig.ended()
        rig.engine.check_integrity()
    rig.check()
    assert rig.engine.residency.buffers.used == 0


@pytest.mark.parametrize("lane", ["copy_out", "copy_in"])
def test_a_copy_that_fails_costs_a_rebuild_and_no_stream(
    lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rig_of()
    rig.open("a")
    rig.run(1.5)

    def broken(layer: int, pages: tuple[int, ...], buffer: int) -> None:
        raise RuntimeError("the bus is on fire")

    monkeypatch.setattr(rig.copier, lane, broken)
    pause(rig, "a")
    run_to(rig, "a", "latents" if lane == "copy_out" else "host")
    made = len(rig.ready("a"))
    pause(rig, "a", False)
    rig.run(2.0)
    assert len(rig.ready("a")) > made + 5
    assert rig.engine.residency.copied.failed == 1
    rig.check()


def test_exposed_time_is_idle_time_only() -> None:
    """Alone on the engine the whole restore is waited for; beside busy streams it is hidden."""
    exposed = []
    for others in (0, 3):
        rig = rig_of(streams=4, copy_seconds=0.004, max_jobs=4)
        rig.open("a", prompt="the same")
        for i in range(others):
            rig.open(f"busy{i}", kind="job", prompt="the same", seed=i)
        rig.run(1.5)
        pause(rig, "a")
        run_to(rig, "a", "host")
        pause(rig, "a", False)
        rig.run(1.0)
        copied = rig.engine.residency.copied
        assert copied.seconds == pytest.approx(0.008)
        exposed.append(copied.exposed)
        rig.check()
    assert exposed == [pytest.approx(0.004), 0.0]


def test_the_engine_reports_places_and_copies() -> None:
    rig = rig_of()
    rig.open("a")
    rig.open("b", paused=True)
    rig.run(1.5)
    pause(rig, "a")
    run_to(rig, "a", "host")
    rig.run(0.5)
    reports = [e.transfer for e in rig.stats() if e.transfer is not None]
    last = reports[-1]
    assert last.places == {"host": 1, "latents": 1}
    assert last.host_bytes == rig.engine.residency.buffer_bytes <= last.host_bytes_total
    assert sum(r.copied_bytes for r in reports) == rig.engine.residency.copied.bytes > 0
    assert sum(r.copied_seconds for r in reports) == pytest.approx(rig.copy_seconds)
    assert sum(r.exposed_seconds for r in reports) == 0.0
    rig.check()


def test_copies_are_spans_of_the_trace() -> None:
    rig = rig_of()
    rig.open("a")
    rig.run(1.5)
    pause(rig, "a")
    run_to(rig, "a", "host")
    pause(rig, "a", False)
    rig.run(0.5)
    spans = [r for r in rig.engine.trace.since(0.0) if isinstance(r, Span)]
    copies = [s for s in spans if s.lane.startswith("copy-")]
    assert [s.lane for s in copies] == ["copy-out", "copy-in"]
    assert all(s.end - s.start == pytest.approx(rig.copy_seconds) for s in copies)
    assert "3 pages of a" in copies[0].name
    rig.check()


def test_the_prompt_is_filled_while_the_window_is_on_its_way() -> None:
    rig = rig_of(copy_seconds=0.2)
    rig.open("a")
    rig.run(1.5)
    pause(rig, "a")
    run_to(rig, "a", "host")
    assert rig.model.prefills == 1
    pause(rig, "a", False)
    run_to(rig, "a", "restoring")
    rig.run(0.05)
    assert stream(rig, "a").place == "restoring" and rig.model.prefills == 2
    rig.run(1.0)
    assert rig.model.prefills == 2
    rig.check()
