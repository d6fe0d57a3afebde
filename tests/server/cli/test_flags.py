"""Flags of the benchmarks: what they take, and one clear line for what they do not."""

import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onbeat.server.cli.flags import number, number_or_zero, one_of, several, whole

ROOT = Path(__file__).parents[3]


def test_good_values() -> None:
    assert whole()("3") == 3 and whole(0)("0") == 0
    assert number("0.5") == 0.5 and number_or_zero("0") == 0.0 == number_or_zero("0.0")
    assert several(whole())("1,2") == [1, 2]
    assert several(one_of("AB"))("B") == ["B"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (whole(), "0"),
        (whole(), "x"),
        (number, "0"),
        (number, "nan"),
        (number, "-1"),
        (number, "inf"),
        (number_or_zero, "-0.1"),
        (number_or_zero, ""),
        (one_of("AB"), "C"),
        (several(number), "1,,2"),
    ],
)
def test_wrong_values_name_what_is_allowed(kind: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="allowed: "):
        kind(text)


def test_a_benchmark_ends_with_one_line_and_no_traceback() -> None:
    command = [sys.executable, "benchmarks/engine/policies.py", "--simulate", "C"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert run.returncode == 2
    assert "--simulate: 'C'; allowed: A, B" in run.stderr and "Traceback" not in run.stderr
