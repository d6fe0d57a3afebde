"""Streams with a camera on a clock of our own: what their chunks are made from, and when."""

import numpy as np
import pytest

from onbeat.server.engine.engine import Engine
from onbeat.server.engine.input_track import HOLD_SECONDS
from onbeat.server.engine.messages import (
    ControlStream,
    InputPicture,
    InputSound,
    VideoInput,
)
from onbeat.server.engine.settings import EngineSettings
from tests.server.engine.drive import Rig
from tests.server.engine.fake import SPEC

CAMERA = VideoInput(strength=0.5)


def rig(**settings: object) -> Rig:
    made = Rig(EngineSettings(decode_lane=False, admission=False, **settings))  # type: ignore[arg-type]
    made.model.encode_cost = 0.004
    return made


def see(engine: Engine, at: float, level: int, *streams: str) -> None:
    picture = np.full((SPEC.height, SPEC.width, 3), level, np.uint8)
    command = InputPicture(streams=list(streams), slot=0, at=at)
    engine.roster.inputs.see(command, picture.tobytes())


def film(rig: Rig, seconds: float, *streams: str, rate: float = 30.0, first: int = 0) -> None:
    """Runs while a camera sends; the brightness of its pictures counts."""
    for i in range(round(seconds * rate)):
        see(rig.engine, rig.clock.now(), (first + i) % 250, *streams)
        rig.run(1 / rate)


def test_a_stream_with_a_camera_is_on_time_and_fresh() -> None:
    r = rig()
    r.open("s", video_input=CAMERA)
    film(r, 4.0, "s")
    assert len(r.ready("s")) >= 15 and not r.dropped("s")
    assert all(e.on_time for e in r.ready("s"))
    given = r.engine.roster.streams["s"].input
    assert given is not None and given.source is not None and given.lag is not None
    chunk = SPEC.chunk_seconds
    assert CAMERA.ahead_chunks * chunk < given.lag <= (1 + CAMERA.ahead_chunks) * chunk + 1 / 30
    stats = r.stats()[-1].streams[0].input
    assert stats is not None and stats.age == pytest.approx(given.lag, abs=0.05)
    r.check()


def test_without_pictures_the_prompt_alone_is_made_and_so_again_after_they_stop() -> None:
    plain, r = rig(), rig()
    plain.open("s")
    r.open("s", video_input=CAMERA)
    for each in (plain, r):
        each.run(1.0)
    first = [(e.chunk, r.latents["s", e.chunk]) for e in r.ready("s")]
    assert first and all(plain.latents["s", chunk] == data for chunk, data in first)
    film(r, 1.0, "s")
    given = r.engine.roster.streams["s"].input
    assert given is not None and given.source is not None
    r.run(HOLD_SECONDS - 0.3)
    assert given.source is not None
    r.run(0.3 + 2 * SPEC.chunk_seconds)
    assert given.source is None
    assert r.ready("s")[-1].on_time
    r.check()


def pixels(r: Rig, stream: str) -> dict[int, bytes]:
    return {chunk: data for (s, chunk), data in r.latents.items() if s == stream}


def filmed_beside(others: int) -> dict[int, bytes]:
    r = rig()
    r.open("s", video_input=CAMERA)
    for i in range(others):
        r.open(f"o{i}", prompt=f"blue ball {i}")
    see(r.engine, r.clock.now(), 40, "s")
    for _ in range(60):
        see(r.engine, r.clock.now(), 40, "s")
        r.run(0.05)
    assert r.on_time_ratio() == 1.0
    got = pixels(r, "s")
    r.check()
    return got


def test_it_has_the_same_bits_alone_and_among_prompts() -> None:
    alone, beside = filmed_beside(0), filmed_beside(5)
    both = alone.keys() & beside.keys()
    assert len(both) >= 10
    assert all(alone[chunk] == beside[chunk] for chunk in both)


def test_a_slow_engine_holds_no_pictures_and_takes_the_newest() -> None:
    """A third of the speed that is needed, sixty pictures a second."""
    r = Rig(
        EngineSettings(decode_lane=False, admission=False),
        step_cost=lambda rows: 0.12 + 0.01 * rows,
    )
    r.open("s", video_input=CAMERA)
    lags = []
    for i in range(60 * 12):
        see(r.engine, r.clock.now(), i % 250, "s")
        r.run(1 / 60)
        given = r.engine.roster.streams["s"].input
        assert given is not None
        if given.lag is not None:
            lags.append(given.lag)
    assert len(r.ready("s")) >= 12
    early, late = lags[len(lags) // 4 : len(lags) // 2], lags[-len(lags) // 4 :]
    assert max(late) <= max(early) + 0.05
    assert max(lags) < 4 * SPEC.chunk_seconds
    r.check()


def test_strength_is_steered_from_the_next_chunk_on() -> None:
    r = rig()
    r.open("s", video_input=CAMERA)
    film(r, 1.0, "s")
    r.engine.submit(ControlStream(stream_id="s", revision=1, strength=0.9))
    film(r, 0.6, "s")
    assert [e.revision for e in r.applied()] == [1]
    assert r.engine.roster.streams["s"].now.strength == 0.9
    r.engine.submit(ControlStream(stream_id="s", revision=2, strength=1.5))
    film(r, 0.4, "s")
    assert r.engine.roster.streams["s"].now.strength == 0.9
    r.check()


def test_sound_that_is_heard_goes_in_and_what_is_not_starts_from_noise() -> None:
    r = rig()
    r.open("s", video_input=CAMERA)
    r.run(0.1)
    given = r.engine.roster.streams["s"].input
    film(r, 1.0, "s")
    assert given is not None and given.source is not None and set(given.source) == {"video"}
    for _ in range(50):
        at = r.clock.now()
        see(r.engine, at, 80, "s")
        loud = np.full(960, 8192, "<i2").tobytes()
        r.engine.roster.inputs.hear(InputSound(streams=["s"], at=at, samples=loud))
        r.run(0.02)
    assert given.source is not None and set(given.source) == {"audio", "video"}
    assert float(given.source["audio"].mean()) == pytest.approx(0.25, abs=0.08)
    r.check()


def test_a_paused_stream_keeps_no_queue_and_goes_on_with_new_pictures() -> None:
    r = rig()
    r.open("s", video_input=CAMERA)
    film(r, 1.0, "s")
    r.engine.submit(ControlStream(stream_id="s", revision=1, paused=True))
    film(r, 5.0, "s")
    made = len(r.ready("s"))
    r.engine.submit(ControlStream(stream_id="s", revision=2, paused=False))
    film(r, 1.5, "s")
    given = r.engine.roster.streams["s"].input
    assert len(r.ready("s")) >= made + 5
    assert given is not None and given.lag is not None and given.lag < 2.5 * SPEC.chunk_seconds
    r.check()


def test_wrong_inputs_are_refused_by_name() -> None:
    r = rig()
    r.open("a", video_input=VideoInput(strength=1.2))
    r.open("b", video_input=VideoInput(strength=0.0))
    r.open("c", kind="job", total_chunks=2, video_input=VideoInput())
    r.open("d", video_input=VideoInput(ahead_chunks=9.0))
    r.run(0.1)
    reasons = {e.stream_id: e.reason for e in r.refused()}
    assert "strength is 1.2; allowed: 0.001 to 1" in reasons["a"]
    assert "strength is 0.0" in reasons["b"]
    assert "allowed: live" in reasons["c"]
    assert "ahead_chunks is 9.0" in reasons["d"]
    r.check()


def test_pictures_for_a_stream_that_is_gone_are_lost_quietly() -> None:
    r = rig()
    see(r.engine, r.clock.now(), 1, "nobody")
    r.open("s", video_input=CAMERA)
    film(r, 0.5, "s", "nobody")
    r.engine.roster.close("s")
    film(r, 0.2, "s")
    r.check()
