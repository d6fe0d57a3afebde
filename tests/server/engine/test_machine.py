"""A state machine drives the real engine on the simulator; everything is checked after every step.

By default 10,000 steps from a fixed seed, which is printed; ONBEAT_FUZZ_SEED or pytest's
--hypothesis-seed gives others, ONBEAT_FUZZ_STEPS more of them. What the steps find becomes a named
test in test_machine_found.py.
"""

import logging
import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from onbeat.server.engine.messages import CloseStream, ControlStream, OpenStream
from onbeat.server.engine.reference import pack_reference
from onbeat.server.engine.simulate.faults import FaultKind
from onbeat.server.engine.snapshot import pack_snapshot
from tests.server.engine.setups import SPEC, Setup, setups
from tests.server.engine.stage import Stage

SEED, STEPS = 1, 10_000
LENGTH = 50
"""Steps of one example, at most."""
PERIOD = SPEC.chunk_seconds
after = st.sampled_from([0.0, 0.01, 0.06, PERIOD, 2 * PERIOD])
"""Seconds that pass after what a rule does."""
prompts = st.sampled_from(["red ball", "blue ball", "rain"])
which = st.integers(0, 31)
REFERENCES = {
    n: pack_reference(
        np.zeros((n, SPEC.height, SPEC.width, 3), np.uint8),
        np.zeros(0, np.int16),
        fps=SPEC.fps,
        sample_rate=SPEC.sample_rate,
    )
    for n in (1, 6, 100)
}
PHASES = (Phase.generate, *([Phase.shrink] if os.environ.get("ONBEAT_FUZZ_SHRINK") else []))
"""Shrinking what was found takes minutes: only when asked for."""
RUN: Counter[str] = Counter()


class Machine(RuleBasedStateMachine):
    """Each rule does one thing and lets a little time pass."""

    stage: Stage

    def __init__(self) -> None:
        super().__init__()
        self.sound = False
        self.names = 0
        self.revision = 0

    @initialize(setup=setups(), streams=st.integers(0, 5))
    def begin(self, setup: Setup, streams: int) -> None:
        self.stage = Stage(setup.machine, SPEC, setup.settings)
        for _ in range(streams):
            self.open(kind="live", prompt="red ball")
        self.stage.pass_time(0.0)

    def step(self, name: str, seconds: float) -> None:
        RUN.update([name, "steps"])
        self.sound = False
        self.stage.pass_time(seconds)

    def pick(self, index: int) -> str:
        books = list(self.stage.ledger.books)
        return books[index % len(books)]

    def has_streams(self) -> bool:
        return bool(self.stage.ledger.books)

    def send_control(self, index: int, seconds: float, **more: object) -> None:
        self.revision += 1
        command = ControlStream(
            stream_id=self.pick(index),
            revision=self.revision,
            **more,  # type: ignore[arg-type]
        )
        self.stage.submit(command)
        self.step("control", seconds)

    # ---- streams -------------------------------------------------------------------------------

    def open(self, **more: object) -> None:
        self.names += 1
        name = f"{more['kind']}{self.names}"
        values = {"seed": self.names, **more}
        self.stage.submit(OpenStream(stream_id=name, **values))  # type: ignore[arg-type]

    @rule(
        prompt=prompts,
        steps=st.sampled_from([None, None, 1, 4]),
        total=st.sampled_from([None, None, 1, 4, 20]),
        ahead=st.sampled_from([2, 1, 4]),
        owner=st.sampled_from(["", "a", "b"]),
        wait=st.booleans(),
        seconds=after,
    )
    def submit_live(self, seconds: float, **more: object) -> None:
        self.open(kind="live", **_named(more))
        self.step("submit live", seconds)

    @rule(
        kind=st.sampled_from(["live", "job"]),
        prompt=prompts,
        total=st.sampled_from([4, None, 20]),
        paused=st.booleans(),
        restored=st.sampled_from([1, 7]),
        seconds=after,
    )
    def submit_restored(self, restored: int, seconds: float, **more: object) -> None:
        snapshot = pack_snapshot(next_chunk=restored, latents=[b""] * min(restored, 3))
        self.open(snapshot=snapshot, **_named(more))
        self.step("submit restored", seconds)

    @rule(
        prompt=prompts,
        total=st.sampled_from([1, 4, 20, None]),
        owner=st.sampled_from(["", "a", "b"]),
        seconds=after,
    )
    def submit_job(self, seconds: float, **more: object) -> None:
        self.open(kind="job", **_named(more))
        self.step("submit job", seconds)

    @precondition(has_streams)
    @rule(
        index=which,
        prompt=prompts,
        transition=st.sampled_from([None, "cut", "recache"]),
        wait=st.booleans(),
        paused=st.booleans(),
        seconds=after,
    )
    def fork(self, index: int, seconds: float, **more: object) -> None:
        self.open(kind="live", fork_of=self.pick(index), **more)
        self.step("fork", seconds)

    @rule(
        kind=st.sampled_from(["live", "job"]),
        prompt=prompts,
        frames=st.sampled_from([1, 6, 100]),
        total=st.sampled_from([4, None, 20]),
        seconds=after,
    )
    def submit_reference(self, frames: int, seconds: float, **more: object) -> None:
        self.open(reference=REFERENCES[frames], **_named(more))
        self.step("submit reference", seconds)

    @rule(
        wrong=st.sampled_from(
            [
                {"steps": 9},
                {"seed": -1},
                {"prompt": ""},
                {"total_chunks": 0},
                {"snapshot": b"?"},
                {"fork_of": "nobody"},
                {"reference": b"?"},
            ]
        )
    )
    def submit_nonsense(self, wrong: dict[str, object]) -> None:
        self.open(**{"kind": "live", "prompt": "red ball", **wrong})
        self.stage.submit(ControlStream(stream_id="nobody", revision=1, prompt="rain"))
        self.stage.submit(CloseStream(stream_id="nobody"))
        self.step("submit nonsense", 0.0)

    @precondition(has_streams)
    @rule(index=which, seconds=after)
    def abort(self, index: int, seconds: float) -> None:
        self.stage.submit(CloseStream(stream_id=self.pick(index)))
        self.step("abort", seconds)

    @precondition(has_streams)
    @rule(
        index=which,
        prompt=prompts,
        transition=st.sampled_from([None, "cut", "recache"]),
        seconds=after,
    )
    def control_prompt(self, index: int, seconds: float, **more: object) -> None:
        self.send_control(index, seconds, **more)

    @precondition(has_streams)
    @rule(index=which, steps=st.integers(1, 4), number=st.integers(0, 9), seconds=after)
    def control_steps(self, index: int, steps: int, number: int, seconds: float) -> None:
        self.send_control(index, seconds, steps=steps, seed=number)

    @precondition(lambda self: self.has_streams() and self.stage.down_until is None)
    @rule(index=which, wrong=st.sampled_from([{"steps": 9}, {"seed": -1}, {"prompt": ""}]))
    def control_nonsense(self, index: int, wrong: dict[str, object]) -> None:
        """The engine ignores it as a whole; the API would not have sent it."""
        values = {"stream_id": self.pick(index), "revision": self.revision, "paused": True, **wrong}
        self.stage.engine.submit(ControlStream(**values))  # type: ignore[arg-type]
        self.step("control nonsense", 0.0)

    @precondition(has_streams)
    @rule(index=which, paused=st.booleans(), seconds=after)
    def pause_or_resume(self, index: int, paused: bool, seconds: float) -> None:
        self.send_control(index, seconds, paused=paused)

    # ---- faults --------------------------------------------------------------------------------

    @rule(
        kind=st.sampled_from(["raise", "commit", "prefill", "decode", "nan"]),
        seconds=after,
    )
    def fail(self, kind: FaultKind, seconds: float) -> None:
        self.stage.inject(kind)
        self.step(f"fail: {kind}", seconds)

    @rule(long=st.sampled_from([0.05, 0.3, 2.0]), seconds=after)
    def slow_step(self, long: float, seconds: float) -> None:
        self.stage.inject("slow", long)
        self.step("slow step", seconds)

    @rule(jump=st.sampled_from([-1e-6, 0.0, 0.1, 1.0, 7.0]), seconds=after)
    def clock_step(self, jump: float, seconds: float) -> None:
        """A monotonic clock never goes back, but processors have disagreed by a microsecond."""
        self.stage.clock.at = max(0.0, self.stage.clock.at + jump)
        self.step("clock step", seconds)

    @precondition(lambda self: self.stage.down_until is None)
    @rule(down=st.sampled_from([0.0, 0.3, 1.5]), seconds=after)
    def restart(self, down: float, seconds: float) -> None:
        self.stage.crash(down)
        self.step("restart", seconds)

    # ---- the front's reader --------------------------------------------------------------------

    @rule(most=st.sampled_from([0, 1, 3]), seconds=after)
    def stop_reading(self, most: int, seconds: float) -> None:
        self.stage.reading = False
        self.stage.read(most)
        self.step("stop reading", seconds)

    @precondition(lambda self: not self.stage.reading)
    @rule(seconds=after)
    def go_on_reading(self, seconds: float) -> None:
        self.stage.reading = True
        self.stage.read()
        self.step("go on reading", seconds)

    # ---- time ----------------------------------------------------------------------------------

    @rule(chunks=st.sampled_from([1, 2, 4]))
    def pass_time(self, chunks: int) -> None:
        self.step("time", chunks * PERIOD)

    @rule(chunks=st.sampled_from([3, 7]))
    def read_on(self, chunks: int) -> None:
        """Somebody has fixed the reader."""
        self.stage.reading = True
        self.stage.read()
        self.step("time", chunks * PERIOD)

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.01]))
    def pass_a_moment(self, seconds: float) -> None:
        self.step("time", seconds)

    # ---- the truth -----------------------------------------------------------------------------

    @invariant()
    def holds(self) -> None:
        self.stage.check()
        self.sound = True

    def teardown(self) -> None:
        """Somebody has mended everything; is all well then? And is everything given back?"""
        if self.sound:
            RUN["light loads in the end"] += self.stage.calm()
            self.stage.check()
            self.stage.finish(politely=self.names % 2 == 0)
            RUN["examples"] += 1
            RUN["simulated seconds"] += int(self.stage.clock.at)
            RUN.update({f"event {name}": n for name, n in self.stage.ledger.counts.items()})


def _named(more: dict[str, object]) -> dict[str, object]:
    """As messages call it."""
    return {
        "total_chunks" if k == "total" else "ahead_chunks" if k == "ahead" else k: v
        for k, v in more.items()
    }


def drive(number: int, examples: int) -> None:
    run_state_machine_as_test(
        seed(number)(Machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=LENGTH,
            deadline=None,
            database=None,
            print_blob=True,
            phases=PHASES,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.timeout(400)
def test_the_engine_survives_everything(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("onbeat.server.engine").setLevel(logging.CRITICAL)
    given = request.config.getoption("--hypothesis-seed")
    number = int(given or os.environ.get("ONBEAT_FUZZ_SEED", SEED))
    wanted = int(os.environ.get("ONBEAT_FUZZ_STEPS", STEPS))
    RUN.clear()
    while RUN["steps"] < wanted:
        with capsys.disabled():
            print(f"\nengine machine: seed {number}, {RUN['steps']} of {wanted} steps", end=" ")
        drive(number, -(-(wanted - RUN["steps"]) // LENGTH))
        number += 1_000_000
    with capsys.disabled():
        print(f"\nengine machine: {dict(RUN)}")
