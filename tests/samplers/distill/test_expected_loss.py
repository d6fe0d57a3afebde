"""The loss of every discrete rule against its closed form on Gaussian data (see gaussian.py)."""

import pytest
import torch

from tests.samplers.distill.cases import CASES, STEP, STEPS, expected
from tests.samplers.distill.gaussian import moment

BATCHES, ROWS = 16, 1500


def measured(name: str) -> tuple[float, float]:
    """Mean loss over batches, and its standard error."""
    case = CASES[name]
    rule, models = case.rule(), case.models()
    values = torch.tensor(
        [
            float(rule(models, case.data.clean(ROWS, seed), moment(seed + 99, STEP, STEPS)).value)
            for seed in range(BATCHES)
        ],
        dtype=torch.float64,
    )
    return float(values.mean()), float(values.std()) / BATCHES**0.5


def check(name: str) -> None:
    value, error = measured(name)
    assert error < 0.03 * value, (value, error)
    assert abs(value - expected(name)) < 4.5 * error, (value, expected(name), error)


@pytest.mark.parametrize("name", CASES)
def test_loss_is_what_the_paper_says(name: str) -> None:
    check(name)
