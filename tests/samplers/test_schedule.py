"""Schedules: values from the literature, exact ends, and the double shift that we do not make."""

from typing import Any

import diffusers
import numpy as np
import pytest

from onbeat.samplers.schedule import Schedule, rf_schedule

Theirs: Any = diffusers.FlowMatchEulerDiscreteScheduler


@pytest.mark.parametrize(
    ("steps", "shift", "times"),
    [
        (4, 5.0, [1.0, 0.9375, 0.8333, 0.6250, 0.0]),  # Self-Forcing
        (4, 12.0, [1.0, 0.973, 0.923, 0.800, 0.0]),
        (4, 3.0, [1.0, 0.9, 0.75, 0.5, 0.0]),
        (2, 3.0, [1.0, 0.75, 0.0]),
        (1, 7.0, [1.0, 0.0]),
        (2, 1.0, [1.0, 0.5, 0.0]),
    ],
)
def test_published_values(steps: int, shift: float, times: list[float]) -> None:
    schedule = rf_schedule(steps, shift)
    assert schedule.steps == steps
    assert schedule.times == pytest.approx(times, abs=5e-4)
    assert schedule.times[0] == 1.0 and schedule.times[-1] == 0.0


@pytest.mark.parametrize("shift", [0.5, 1.0, 1.5, 3.0, 12.0])
@pytest.mark.parametrize("steps", [1, 3, 8, 50])
def test_agrees_with_diffusers_given_explicit_sigmas(steps: int, shift: float) -> None:
    theirs = Theirs(shift=shift)
    theirs.set_timesteps(sigmas=[1.0 - i / steps for i in range(steps)])
    assert np.allclose(theirs.sigmas.numpy(), rf_schedule(steps, shift).times, atol=1e-6)


def test_the_default_grid_of_diffusers_is_shifted_twice_and_ours_is_not() -> None:
    theirs = Theirs(shift=3.0)
    theirs.set_timesteps(4)
    assert theirs.sigmas.numpy()[:4] == pytest.approx([1.0, 0.858, 0.602, 0.0089], abs=1e-3)
    assert rf_schedule(4, 3.0).times[:4] == pytest.approx([1.0, 0.9, 0.75, 0.5])


def test_errors_name_field_value_and_what_is_allowed() -> None:
    with pytest.raises(ValueError, match="steps is 0; allowed: 1 or more"):
        rf_schedule(0, 1.0)
    with pytest.raises(ValueError, match="shift is 0.0; allowed: above 0"):
        rf_schedule(4, 0.0)
    for times in ((1.0,), (0.9, 0.0), (1.0, 0.1), (1.0, 0.5, 0.5, 0.0)):
        with pytest.raises(ValueError, match="times is"):
            Schedule(times=times)
