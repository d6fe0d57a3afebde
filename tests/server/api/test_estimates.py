"""When a job will be done, as far as that can be known."""

import dataclasses

import pytest

from onbeat.server.api.estimates import Load, poll_after_ms, seconds_left
from onbeat.server.jobs.job import Job, JobRequest
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
    assert seconds_left(running, None, load, 100.0) == pytest.approx(100 * 0.012)
    assert seconds_left(job(), 1, load, 100.0) == pytest.approx(2 * 100 * 0.012)
    assert seconds_left(job(), 5, load, 100.0) == pytest.approx(6 * 100 * 0.012)


def test_by_its_own_pace_later(load: Load) -> None:
    running = job(state="in_progress", started_at=100.0, progress=0.25)
    assert seconds_left(running, None, load, 110.0) == pytest.approx(30.0)


def test_a_clock_that_stepped_back_gives_no_nonsense(load: Load) -> None:
    running = job(state="in_progress", started_at=100.0, progress=0.5)
    assert seconds_left(running, None, load, 50.0) == pytest.approx(50 * 0.012)


def test_without_an_engine_nothing_is_known() -> None:
    nothing = Load(ready=None, stats=None, slots=2)
    assert seconds_left(job(), 1, nothing, 1.0) is None and poll_after_ms(None) == 1000
    assert seconds_left(job(state="failed"), None, nothing, 1.0) == 0.0


def test_polls_are_not_too_often_and_not_too_rare() -> None:
    assert [poll_after_ms(left) for left in (0.0, 4.0, 1e6)] == [200, 2000, 10_000]


def test_what_waits_with_a_part_done_has_only_the_rest_before_it(load: Load) -> None:
    waiting = job(progress=0.75)
    assert seconds_left(waiting, 1, load, 100.0) == pytest.approx(1.25 * 100 * 0.012)
