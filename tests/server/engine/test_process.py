"""The engine process as its client sees it: it dies, comes back, and streams go on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from onbeat.server.engine.calibration import Calibration, CostTable, Kind
from onbeat.server.engine.launch import EngineLaunch, make_folder
from onbeat.server.engine.messages import (
    ChunkReady,
    CloseStream,
    EngineDown,
    EngineReady,
    EngineStats,
    Event,
    OpenStream,
    StreamEnded,
    StreamOpened,
    StreamRefused,
)
from onbeat.server.engine.process import EngineProcess


def table(kind: Kind, milliseconds: dict[int, float]) -> CostTable:
    return CostTable(
        kind=kind, tokens=20, window=12, p50_ms=milliseconds, p99_ms=milliseconds, margin=1.2
    )


FAST = Calibration(
    tables=[table("step", {1: 4.0, 16: 30.0}), table("decode", {1: 3.0, 4: 12.0})],
    measured_at=0.0,
    took=0.0,
    source="given",
)
"""So that nothing is refused because the machine was busy when the engine started."""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[EngineProcess]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = psutil.Process().num_fds()
    client = EngineProcess(EngineLaunch(max_streams=4, ring_slots=8, known=FAST))
    client.start()
    yield client
    client.close()
    client.close()
    assert psutil.Process().children() == []
    assert psutil.Process().num_fds() <= before + 1  # zmq may keep one for its own clean-up
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("tempfile.tempdir", None)


def test_folders_of_killed_servers_are_swept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead, foreign = tmp_path / f"onbeat-{child.pid}-x", tmp_path / "onbeat-notes"
    dead.mkdir()
    foreign.mkdir()
    mine = make_folder()
    again = make_folder()
    assert sorted(tmp_path.iterdir()) == sorted([foreign, mine, again])


def _until(
    engine: EngineProcess, wanted: Callable[[Event], bool], seconds: float = 60.0
) -> tuple[Event, list[Event]]:
    """The first event that is wanted, and those before it. Chunks are taken."""
    seen: list[Event] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        event = engine.receive(0.5)
        if event is None:
            continue
        if isinstance(event, ChunkReady):
            engine.take(event)
        if wanted(event):
            return event, seen
        seen.append(event)
    raise AssertionError(f"not seen within {seconds} s; seen: {[type(e).__name__ for e in seen]}")


def _chunk_of(stream: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, ChunkReady) and event.stream_id == stream


def _open(stream_id: str, *, job: bool = False) -> OpenStream:
    return OpenStream(
        stream_id=stream_id,
        kind="job" if job else "live",
        prompt="a red ball over the sea",
        seed=5,
        total_chunks=200 if job else None,
    )


def test_commands_wait_for_an_engine_that_does_not_listen_yet(engine: EngineProcess) -> None:
    engine._push(_open("live"))  # past the registry, which would send it once the engine is ready
    answer, _ = _until(engine, lambda e: isinstance(e, StreamOpened | StreamRefused))
    assert isinstance(answer, StreamOpened | StreamRefused) and answer.stream_id == "live"


def test_streams_opened_before_the_engine_is_ready_run(engine: EngineProcess) -> None:
    engine.send(_open("live"))
    _until(engine, lambda e: isinstance(e, EngineReady))
    chunk, _ = _until(engine, _chunk_of("live"))
    assert isinstance(chunk, ChunkReady) and chunk.chunk == 0 and chunk.frames == 4


def test_a_starved_engine_is_waited_for(
    engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, _ = _until(engine, lambda e: isinstance(e, EngineReady))
    assert isinstance(ready, EngineReady)
    monkeypatch.setattr("onbeat.server.engine.watchdog.SILENCE_SECONDS", 0.5)
    os.kill(ready.pid, signal.SIGSTOP)  # it gets no time at all
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        assert not isinstance(engine.receive(0.1), EngineDown)
    os.kill(ready.pid, signal.SIGCONT)
    monkeypatch.undo()
    _until(engine, lambda e: isinstance(e, EngineStats))
    assert engine.restarts == 0


def test_after_a_kill_live_streams_go_on_and_jobs_are_told(engine: EngineProcess) -> None:
    ready, _ = _until(engine, lambda e: isinstance(e, EngineReady))
    assert isinstance(ready, EngineReady)
    engine.send(_open("live"))
    engine.send(_open("job", job=True))
    _until(engine, _chunk_of("job"))
    last, _ = _until(engine, lambda e: _chunk_of("live")(e) and e.chunk >= 3)  # type: ignore[union-attr]
    os.kill(ready.pid, signal.SIGKILL)
    killed_at = time.monotonic()
    down, _ = _until(engine, lambda e: isinstance(e, EngineDown))
    assert isinstance(down, EngineDown) and down.restarting
    ended, _ = _until(engine, lambda e: isinstance(e, StreamEnded))
    assert ended == StreamEnded(stream_id="job", reason="engine_lost")
    again, seen = _until(engine, _chunk_of("live"))
    assert isinstance(again, ChunkReady) and isinstance(last, ChunkReady)
    assert again.chunk > last.chunk
    assert any(isinstance(e, EngineReady) for e in seen)
    assert engine.restarts == 1
    assert time.monotonic() - killed_at < 60.0
    engine.send(CloseStream(stream_id="live"))
    idle = lambda e: isinstance(e, EngineStats) and not e.streams  # noqa: E731
    stats, _ = _until(engine, idle)
    assert isinstance(stats, EngineStats)
    assert (stats.pages_used, stats.slots_used) == (0, 0)


def test_an_engine_that_cannot_start_is_given_up() -> None:
    client = EngineProcess(EngineLaunch(model="no-such-model"))
    client.start()
    client.send(_open("live"))
    down: list[EngineDown] = []
    end = time.monotonic() + 100
    while time.monotonic() < end and not (down and not down[-1].restarting):
        event = client.receive(0.5)
        if isinstance(event, EngineDown):
            down.append(event)
    assert down and not down[-1].restarting
    ended = client.receive(1.0)
    assert ended == StreamEnded(stream_id="live", reason="engine_lost")
    began = time.monotonic()
    assert client.receive(0.3) is None
    assert time.monotonic() - began >= 0.3, "the reader would spin"
    client.close()


def test_the_engine_ends_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import os, signal, time\n"
        "from onbeat.server.engine.launch import EngineLaunch\n"
        "from onbeat.server.engine.messages import EngineReady\n"
        "from onbeat.server.engine.process import EngineProcess\n"
        "client = EngineProcess(EngineLaunch()); client.start()\n"
        "while not isinstance(event := client.receive(1.0), EngineReady): pass\n"
        "print(event.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    env = os.environ | {"TMPDIR": str(tmp_path)}
    parent = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=90
    )
    pid = int(parent.stdout)
    end = time.monotonic() + 60
    while psutil.pid_exists(pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert not psutil.pid_exists(pid)
