"""One cause for each missed chunk: what would have saved it."""

from dataclasses import replace

import pytest

from onbeat.server.engine.blame import Course, blame
from onbeat.server.vocabulary import DropCause

GOOD = Course(due=1.0, released=0.6, finished=0.9, predicted=0.1, denoise=0.1, decode=0.01)
"""Handed over 90 ms before the decoding must begin."""


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({}, "decode"),
        ({"slot": 0.05}, "decode"),
        ({"slot": 0.2}, "transfer"),
        ({"finished": 1.2}, "queue"),
        ({"finished": 1.2, "denoise": 0.5}, "compute"),
        ({"finished": 1.2, "denoise": 0.2}, "queue"),
        ({"finished": 1.2, "denoise": 0.6, "predicted": 0.6}, "compute"),
        ({"finished": 1.05, "denoise": 0.17}, "compute"),
    ],
    ids=[
        "handed over in time",
        "a short wait for a slot",
        "a long wait for a slot",
        "others were first",
        "forwards took much longer",
        "they took longer, but not by what it was late",
        "it could never have fitted",
        "without the slow forward it would have been in time",
    ],
)
def test_the_cause(changed: dict[str, float], cause: DropCause) -> None:
    assert blame(replace(GOOD, **changed)) == cause
