"""Pictures to an engine in a process of its own: slots go and come back, and so after a crash."""

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from onbeat.server.engine.launch import EngineLaunch
from onbeat.server.engine.messages import ChunkReady, EngineReady, Event, OpenStream, VideoInput
from onbeat.server.engine.process import EngineProcess
from tests.server.engine.test_process import FAST

SECONDS = 100.0
brightness: list[int] = []
"""Of the chunks that were read."""


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    process = EngineProcess(EngineLaunch(model="mirror", max_rows=2, known=FAST))
    process.start()
    try:
        yield process
    finally:
        process.close()


def read(engine: EngineProcess, wanted: Callable[[Event], bool]) -> Event:
    """The first such event; chunks are taken on the way."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        event = engine.receive(0.02)
        if isinstance(event, ChunkReady):
            brightness.append(int(engine.take(event).frames[-1, 64, 64]))
        if event is not None and wanted(event):
            return event
        engine.feed(["s"], np.full((128, 128, 3), 200, np.uint8), time.monotonic())
    raise AssertionError(f"not within {SECONDS} s")


def shows(engine: EngineProcess) -> None:
    """Until a chunk shows the picture: luma 200 of 255 is 188."""
    brightness.clear()
    read(engine, lambda _: bool(brightness) and abs(brightness[-1] - 188) < 6)


@pytest.mark.timeout(400)  # two engine processes, one after the other
def test_a_mirror_shows_its_camera_before_and_after_a_crash(engine: EngineProcess) -> None:
    picture = np.zeros((128, 128, 3), np.uint8)
    assert not engine.feed(["s"], picture, time.monotonic())
    read(engine, lambda e: isinstance(e, EngineReady))
    opening = OpenStream(stream_id="s", kind="live", prompt="", seed=1, video_input=VideoInput())
    engine.send(opening)
    shows(engine)
    assert engine._child is not None
    engine._child.process.kill()
    read(engine, lambda e: isinstance(e, EngineReady))
    shows(engine)
    end = time.monotonic() + SECONDS
    while engine.inputs_on_their_way and time.monotonic() < end:
        event = engine.receive(0.05)
        if isinstance(event, ChunkReady):
            engine.take(event)
    assert engine.inputs_on_their_way == 0
