"""One encode at a time; the newest picture waits, the older ones are given up."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.lane import Hooks, Lane


async def test_a_slow_encoder_gets_the_newest_and_every_job_is_accounted_for(
    pool: EncoderPool,
) -> None:
    free, done, dropped = threading.Event(), list[int](), list[int]()

    def start(job: int) -> Callable[[], int]:
        return lambda: (free.wait(20), job * 10)[1]

    hooks = Hooks(start=start, done=lambda j, r, s: done.append(r), dropped=dropped.append)
    lane: Lane[int, int] = Lane(pool, 1, hooks)
    for job in range(5):
        lane.offer(job)
    assert dropped == [1, 2, 3]
    free.set()
    while len(done) < 2:
        await asyncio.sleep(0.001)
    assert done == [0, 40]
    lane.close()


async def test_a_failing_encode_drops_its_job_and_the_next_goes_on(
    pool: EncoderPool, caplog: pytest.LogCaptureFixture
) -> None:
    done, dropped = list[str](), list[int]()

    def start(job: int) -> Callable[[], str]:
        return lambda: f"{6 // job}"

    hooks = Hooks(start=start, done=lambda j, r, s: done.append(r), dropped=dropped.append)
    lane: Lane[int, str] = Lane(pool, 3, hooks)
    for job in (0, 2, 3):
        lane.offer(job)
    while len(done) < 2:
        await asyncio.sleep(0.001)
    assert dropped == [0] and done == ["3", "2"]
    assert "encoding failed" in caplog.text


async def test_closing_gives_up_what_waits_and_what_runs(pool: EncoderPool) -> None:
    free, dropped = threading.Event(), list[int]()
    hooks: Hooks[int, object] = Hooks(
        start=lambda job: lambda: free.wait(20),
        done=lambda j, r, s: pytest.fail("delivered after close"),
        dropped=dropped.append,
    )
    lane: Lane[int, object] = Lane(pool, 2, hooks)
    lane.offer(1)
    lane.offer(2)
    lane.close()
    free.set()
    while len(dropped) < 2:
        await asyncio.sleep(0.001)
    assert sorted(dropped) == [1, 2]
