"""Every wrong sign and weight in the list is noticed, and the list is what is in the code."""

import pytest

from tests.samplers.distill.mutants import MUTANTS, Mutant, in_place

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
"""Torch's own modules for forward mode warn when they are first imported."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.of.__qualname__}: {m.instead}")
def test_the_mutant_is_noticed(mutant: Mutant) -> None:
    with in_place(mutant), pytest.raises(AssertionError):
        mutant.check()


def test_a_mutant_is_gone_afterwards() -> None:
    mutant = MUTANTS[0]
    with in_place(mutant):
        pass
    mutant.check()


def test_there_are_enough() -> None:
    assert len(MUTANTS) >= 100 and len({m.of for m in MUTANTS}) >= 40
