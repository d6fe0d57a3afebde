"""The bound and the exact optimum: known cases by hand, and bound >= optimum >= any run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onbeat.server.engine.simulate import exact
from onbeat.server.engine.simulate.bound import Window, most_chunks, most_streams
from onbeat.server.engine.simulate.curves import Curve, curve
from onbeat.server.engine.simulate.exact import best_chunks
from onbeat.server.engine.simulate.run import simulate, simulated_settings
from onbeat.server.engine.simulate.windows import idle_windows, run_windows
from onbeat.server.engine.simulate.workload import StreamClass, together
from onbeat.server.engine.simulate.world import Machine, simulated_spec

ALONE = Curve(seconds={1: 1.0, 4: 4.0})
BATCHED = Curve(seconds={1: 1.0, 2: 1.0, 4: 2.0})


def window(stream: str, release: float, due: float, steps: int = 1) -> Window:
    return Window(stream=stream, release=release, due=due, steps=steps)


def test_what_fits_one_after_the_other_is_allowed() -> None:
    both = [window("a", 0.0, 1.0), window("b", 1.0, 2.0)]
    assert most_chunks(both, ALONE, 4) == pytest.approx(2.0)
    assert best_chunks(both, ALONE, 4) == 2


def test_an_interval_holds_no_more_work_than_time() -> None:
    three = [window(s, 0.0, 2.0) for s in "abc"]
    assert most_chunks(three, ALONE, 4) == pytest.approx(2.0)
    assert best_chunks(three, ALONE, 4) == 2 == most_streams(three, ALONE, 4)


def test_batches_count_at_their_best_rate() -> None:
    four = [window(s, 0.0, 2.0) for s in "abcd"]
    assert most_chunks(four, BATCHED, 4) == pytest.approx(4.0)
    assert most_chunks(four, BATCHED, 1) == pytest.approx(2.0)
    assert best_chunks(four, BATCHED, 4) == 4


def test_one_stream_fills_no_batch() -> None:
    tight = [window("a", 0.0, 2.0), window("a", 0.0, 2.0)]
    assert most_chunks(tight, BATCHED, 4) == pytest.approx(1.5)


def test_a_commit_lies_between_two_chunks_of_a_stream() -> None:
    two = [window("a", 0.0, 3.0), window("a", 0.0, 3.0 + 1e-3)]
    assert most_chunks(two, ALONE, 4) == pytest.approx(2.0)
    assert best_chunks(two, ALONE, 4) == 2
    tight = [window("a", 0.0, 2.0), window("a", 0.0, 2.0)]
    assert most_chunks(tight, ALONE, 4) == pytest.approx(1.5)
    assert best_chunks(tight, ALONE, 4) == 1


def test_a_chunk_too_long_for_its_window_counts_for_nothing() -> None:
    assert most_chunks([window("a", 0.0, 1.0, steps=2)], ALONE, 4) == 0.0
    streams = [window("a", 0.0, 1.0, steps=2), window("b", 0.0, 1.0), window("a", 5.0, 9.0)]
    assert most_streams(streams, ALONE, 4) == 1
    assert best_chunks([window("a", 0.0, 1.0, steps=2)], ALONE, 4) == 0


@pytest.mark.parametrize(
    ("name", "row", "steps", "streams"), [("A", 0.03, 4, 16), ("B", 0.03, 4, 5)]
)
def test_whole_streams_of_the_reference_cases(
    name: str, row: float, steps: int, streams: int
) -> None:
    spec, device = simulated_spec(steps=steps), curve(name, row)
    sessions = together(24, 60.0, within=1.5, classes=[StreamClass(steps=steps)])
    windows = idle_windows(sessions, spec, simulated_settings(), device)
    assert most_streams(windows, device, 16) == streams
    assert most_chunks(windows, device, 16) == pytest.approx(streams * 80, rel=0.035)


def test_large_cases_are_refused_by_the_exact_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MOST_STATES", 2_000)
    many = [window(s, float(k), k + 9.0, steps=4) for s in "abcd" for k in range(9)]
    with pytest.raises(ValueError, match="windows: more than"):
        best_chunks(many, ALONE, 4)


@settings(max_examples=40, deadline=None)
@given(
    streams=st.integers(1, 3),
    steps=st.integers(1, 3),
    ahead=st.integers(1, 2),
    pair=st.sampled_from((0.10, 0.14, 0.20)),
    fps=st.integers(2, 5),
    policy=st.sampled_from(("edf-s", "orca", "coalesced", "time-slice")),
    seed=st.integers(0, 99),
)
def test_no_run_beats_the_optimum_and_no_optimum_the_bound(
    streams: int, steps: int, ahead: int, pair: float, fps: int, policy: str, seed: int
) -> None:
    spec = simulated_spec(steps=steps, chunk_frames=1, fps=fps)
    device = Curve(seconds={1: 0.1, 2: pair, 4: 2.0 * pair})
    options = simulated_settings(policy=policy, admission=False, anytime=False)
    sessions = together(
        streams, 3.0 / fps, within=0.5, classes=[StreamClass(steps=steps, ahead=ahead)], seed=seed
    )
    result = simulate(sessions, Machine(compute=device), settings=options, spec=spec)
    windows = run_windows(result, spec, options, device)
    best = best_chunks(windows, device, 16)
    assert result.full <= best <= most_chunks(windows, device, 16) + 1e-6
