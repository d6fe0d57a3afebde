"""How long jobs wait and run, under wall clocks that step."""

from pathlib import Path

import pytest

from onbeat.server.jobs import steady
from onbeat.server.jobs.steady import Instant
from onbeat.server.jobs.store import JobStore
from tests.server.jobs.test_turns import Clock, request


class Steady(Clock):
    boot = "one"

    def instant(self) -> Instant:
        return Instant(boot=self.boot, seconds=self.at)


@pytest.mark.parametrize("step", [3600.0, -3600.0, 0.0])
def test_a_wait_is_true_whatever_the_wall_clock_does(place: Path | str, step: float) -> None:
    wall, true = Clock(), Steady()
    store = JobStore(place, wall, steady=true.instant)
    store.add(request())
    wall.at += step
    true.at += 7.5
    job = store.claim("me")
    assert job is not None and job.waited == 7.5
    true.at += 100
    store.put_back(job)
    true.at += 2.5
    again = store.claim("me")
    assert again is not None and again.waited == 2.5, "since it was queued again"
    store.close()


def test_a_wait_goes_on_over_a_restart_of_the_server(tmp_path: Path) -> None:
    wall, true = Clock(), Steady()
    for step, boot, expected in ((3600.0, "one", 30.0), (-3600.0, "two", 0.0)):
        true.boot = "one"
        first = JobStore(tmp_path / "jobs.sqlite3", wall, steady=true.instant)
        first.add(request())
        first.close()
        wall.at += step
        true.at, true.boot = true.at + 30, boot
        second = JobStore(tmp_path / "jobs.sqlite3", wall, steady=true.instant)
        job = second.claim("me")
        assert job is not None and job.waited == expected
        second.close()


def test_the_clock_of_this_machine() -> None:
    first, second = steady.now(), steady.now()
    passed = second.since(first.boot, first.seconds)
    assert passed is not None and 0 <= passed < 60
    assert second.since("another", first.seconds) is None
    assert second.since(None, None) is None
