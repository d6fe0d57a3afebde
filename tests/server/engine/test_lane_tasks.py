"""Tasks of the decode lane: behind what they wait for, before what comes later, else last."""

from functools import partial

import torch

from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.decode import TorchDecodeLane
from onbeat.server.engine.device import DecodeJob, LaneTask
from tests.server.engine.fake import SPEC, FakeClock, FakeModel


class Lane:
    """A lane that works when asked for results; `log` tells the order of its work."""

    def __init__(self) -> None:
        self.log: list[str] = []
        model, lane = FakeModel(), self

        class Logged:
            def __init__(self, name: str) -> None:
                self.name = name

            def __getitem__(self, key: str) -> int:
                return 0

            def __setitem__(self, key: str, value: int) -> None:
                lane.log.append(self.name)

        self.state = Logged
        self.lane = TorchDecodeLane(
            model,
            clock=FakeClock(),
            cost=CostModel({1: 0.01}),
            max_rows=1,
            threads=1,
            threaded=False,
        )

    def chunk(self, stream: str, chunk: int) -> None:
        latents = {m.name: torch.zeros(m.tokens, m.dim) for m in SPEC.modalities}
        self.lane.submit(
            DecodeJob(
                stream=stream,
                chunk=chunk,
                latents=latents,
                state=self.state(f"{stream}{chunk}"),
                slot=-1,
                data=None,
                deadline=float(chunk),
                queued_at=0.0,
            )
        )

    def task(self, name: str, behind: str | None = None, after: int = -1) -> None:
        self.lane.submit_task(
            LaneTask(run=lambda: self.log.append(name), behind=behind, after=after)
        )


def test_a_task_runs_between_two_chunks_of_the_stream_it_waits_for() -> None:
    lane = Lane()
    for chunk in (3, 4, 5):
        lane.chunk("a", chunk)
    lane.task("copy", behind="a", after=4)
    lane.lane.poll()
    assert lane.log == ["a3", "a4", "copy", "a5"]
    assert [done.error for done in lane.lane.poll_tasks()] == [None]


def test_other_tasks_run_when_no_chunk_waits() -> None:
    lane = Lane()
    lane.task("encode")
    lane.chunk("a", 1)
    lane.chunk("b", 1)
    lane.lane.poll()
    assert lane.log == ["a1", "b1", "encode"]


def test_a_task_that_raises_says_so_and_ends_nothing() -> None:
    lane = Lane()

    def bad() -> None:
        raise ValueError("reference: no frames")

    lane.lane.submit_task(LaneTask(run=bad))
    lane.chunk("a", 1)
    lane.lane.poll()
    (done,) = lane.lane.poll_tasks()
    assert done.error == "ValueError: reference: no frames" and lane.log == ["a1"]
    assert lane.lane.poll_tasks() == []


def test_an_urgent_task_goes_before_later_chunks_but_never_two_in_a_row() -> None:
    lane = Lane()
    lane.chunk("a", 5)
    lane.chunk("b", 6)
    for name in ("first", "second"):
        run = partial(lane.log.append, name)
        lane.lane.submit_task(LaneTask(run=run, deadline=1.0))
    lane.lane.poll()
    assert lane.log == ["first", "a5", "second", "b6"]


def test_a_task_with_time_waits_for_chunks_that_are_due_before() -> None:
    lane = Lane()
    lane.chunk("a", 5)
    lane.lane.submit_task(LaneTask(run=lambda: lane.log.append("task"), deadline=9.0))
    lane.lane.poll()
    assert lane.log == ["a5", "task"]
