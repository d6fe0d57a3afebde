"""What is told of an attempt's pace: one for both figures, of this attempt alone."""

import pytest

from onbeat.server.jobs.pace import told


def test_both_figures_come_from_one_pace() -> None:
    """An attempt that took up a job at chunk 49, and has made 8 more in 86 s."""
    found = told(done=57, first=49, chunks=100, chunk_frames=4, seconds=86.0)
    assert (found["chunk"], found["chunks"]) == (57, 100)
    assert found["frames_per_second"] * found["eta_s"] == pytest.approx(43 * 4, rel=0.01)
    assert found["frames_per_second"] == pytest.approx(32 / 86, rel=0.01)


@pytest.mark.parametrize(("done", "first", "seconds"), [(0, 0, 1.0), (9, 0, 9.0), (54, 50, 9.0)])
def test_at_first_there_is_none(done: int, first: int, seconds: float) -> None:
    found = told(done=done, first=first, chunks=100, chunk_frames=4, seconds=seconds)
    assert found["frames_per_second"] is None and found["eta_s"] is None


def test_a_slow_one_is_not_told_as_standing() -> None:
    found = told(done=1, first=0, chunks=2, chunk_frames=4, seconds=4000.0)
    assert (found["frames_per_second"], found["eta_s"]) == (0.001, 4000.0)
