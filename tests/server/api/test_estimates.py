"""When a job will be done, as far as that can be known."""

import dataclasses
from pathlib import Path

import pytest

from onbeat.server.api.estimates import Load, poll_after_ms, seconds_left
from onbeat.server.api.video_view import beside_of
from onbeat.server.jobs import pace
from onbeat.server.jobs.job import Job, JobRequest
from onbeat.server.jobs.store import JobStore
from tests.server.api.fake_engine import FakeEngine


@pytest.fixture
def load() -> Load:
    """A step of 5 ms and a decode of 2 ms, one job at a time."""
    return Load(ready=FakeEngine().announcement(), stats=None, slots=1)


def job(**changes: object) -> Job:
    request = JobRequest(
        model="toybox", prompt="a", seed=1, steps=2, frames=400, fps=20, width=32, height=32
    )
    plain: dict[str, object] = {field.name: None for field in dataclasses.fields(Job)}
    plain |= {"state": "queued", "request": request, "progress": 0.0, "stages": {}, "result": {}}
    return Job(**(plain | changes))  # type: ignore[arg-type]


def test_by_the_cost_model_at_first(load: Load) -> None:
    running = job(state="in_progress", started_at=100.0)
    assert seconds_left(running, None, load) == pytest.approx(100 * 0.012)
    assert seconds_left(job(), 1, load) == pytest.approx(2 * 100 * 0.012)
    assert seconds_left(job(), 5, load) == pytest.approx(6 * 100 * 0.012)


def test_by_its_own_pace_later(load: Load) -> None:
    running = job(state="in_progress", started_at=100.0, progress=0.25)
    assert seconds_left(running, None, load, 30.0) == 30.0


def test_who_asks_gets_what_the_last_event_told(tmp_path: Path) -> None:
    """And nothing of an earlier attempt's pace."""
    store = JobStore(tmp_path / "jobs.sqlite3")
    made = store.add(job().request)
    running = store.claim("me")
    assert running is not None and beside_of(store, [running]).left == {}
    for done in (10, 20):
        detail = pace.told(done=done, first=0, chunks=100, chunk_frames=4, seconds=3.0 * done)
        running = store.advance(running, checkpoint=done, progress=done / 100, detail=detail)
    assert beside_of(store, [running]).left == {made.id: 240.0}
    store.put_back(running, counted=False)
    again = store.claim("me")
    assert again is not None and beside_of(store, [again]).left == {}
    store.close()


def test_without_an_engine_nothing_is_known() -> None:
    nothing = Load(ready=None, stats=None, slots=2)
    assert seconds_left(job(), 1, nothing) is None and poll_after_ms(None) == 1000
    assert seconds_left(job(state="failed"), None, nothing) == 0.0


def test_polls_are_not_too_often_and_not_too_rare() -> None:
    assert [poll_after_ms(left) for left in (0.0, 4.0, 1e6)] == [200, 2000, 10_000]


def test_what_waits_with_a_part_done_has_only_the_rest_before_it(load: Load) -> None:
    waiting = job(progress=0.75)
    assert seconds_left(waiting, 1, load) == pytest.approx(1.25 * 100 * 0.012)
