"""What the state machine of test_machine.py has found, each as the shortest way to it.

A script of rules as Hypothesis prints it; the assertions are those that the machine makes anyway.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.server.engine.setups import Setup
from tests.server.engine.test_machine import Machine


@contextmanager
def machine(setup: Setup | None = None, streams: int = 0) -> Iterator[Machine]:
    """With so many live streams; at the end everything must hold and be given back."""
    state = Machine()
    state.begin(setup=setup or Setup(), streams=streams)
    yield state
    state.holds()
    state.teardown()


def test_a_new_clock_plays_nothing_over_what_was_published_before() -> None:
    """A stream that was paused and resumed within two chunks was due twice at one instant."""
    with machine(streams=1) as state:
        state.pass_time(chunks=2)
        for paused in (True, False) * 3:
            state.pause_or_resume(index=0, paused=paused, seconds=0.01)
        state.pass_time(chunks=4)


def test_nothing_is_delivered_behind_a_chunk_that_could_not_be_decoded() -> None:
    """Results of one poll: the second chunk of a job came out although the first had failed."""
    with machine() as state:
        state.submit_job(prompt="rain", total=None, owner="", seconds=0.2)
        state.stop_reading(most=0, seconds=0.0)
        state.submit_restored(
            kind="live", prompt="rain", total=4, paused=False, restored=1, seconds=0.4
        )
        state.fail(kind="decode", seconds=0.0)
        state.read_on(chunks=3)


def test_a_recache_asked_for_during_the_first_chunk_is_announced_once() -> None:
    with machine(streams=1) as state:
        state.pass_a_moment(seconds=0.0)
        state.control_prompt(index=0, prompt="blue ball", transition="recache", seconds=0.06)
        state.pass_time(chunks=4)


def test_a_piece_that_may_not_run_yet_keeps_no_other_from_running() -> None:
    """The prompt of a recached stream, due later, took the place of a restored stream's window."""
    with machine(streams=2) as state:
        for _ in range(19):
            state.pass_a_moment(seconds=0.001)
        state.control_prompt(index=0, prompt="blue ball", transition="recache", seconds=0.06)
        state.submit_restored(
            kind="live", prompt="blue ball", total=4, paused=False, restored=1, seconds=0.01
        )
        state.pass_time(chunks=4)


def test_a_stream_that_was_open_is_not_refused_by_the_next_engine() -> None:
    """It had been resumed and waited for room when the engine died."""
    with machine(Setup(decode=0.06, admission=True), streams=3) as state:
        state.pause_or_resume(index=0, paused=True, seconds=0.0)
        state.submit_restored(
            kind="live", prompt="red ball", total=4, paused=False, restored=1, seconds=0.0
        )
        state.pause_or_resume(index=0, paused=False, seconds=0.0)
        state.restart(down=0.0, seconds=0.0)
        state.pass_time(chunks=4)


def test_a_prompt_that_cannot_be_read_does_not_end_the_engine() -> None:
    with machine(streams=1) as state:
        state.control_nonsense(index=0, wrong={"prompt": ""})
        state.pass_time(chunks=4)


def test_coalesced_pieces_fit_in_the_batch() -> None:
    """A member of the batch under way whose piece grew was added to the rest."""
    with machine(Setup(policy="coalesced", rows=3), streams=3) as state:
        state.pass_time(chunks=1)
        state.restart(down=0.0, seconds=0.01)
        state.pass_time(chunks=2)


def test_a_plan_made_ahead_runs_no_row_before_its_release() -> None:
    """The forward took less time than expected, so that the plan was used too early."""
    with machine(Setup(curve="B", row=0.012, noise=0.1, plan_ahead="on"), streams=1) as state:
        state.stop_reading(most=0, seconds=0.0)
        state.submit_live(
            prompt="red ball", steps=None, total=4, ahead=1, owner="", wait=False, seconds=0.06
        )
        state.pass_time(chunks=2)
        state.submit_live(
            prompt="red ball", steps=None, total=None, ahead=1, owner="", wait=False, seconds=0.2
        )
        state.slow_step(long=0.05, seconds=0.06)
        state.pass_time(chunks=1)
