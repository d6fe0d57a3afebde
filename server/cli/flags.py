"""Types of the benchmarks' flags for argparse: a wrong value is one line that says what is allowed.

What it is not: the flags of the `onbeat` command (options.py).
"""

import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def whole(least: int = 1) -> Callable[[str], int]:
    """A whole number of at least `least`."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise ArgumentTypeError(f"{text!r}; allowed: whole numbers from {least}")
        return value

    return read


def number(text: str) -> float:
    """A finite number above 0."""
    value = _finite(text)
    if not value > 0:
        raise ArgumentTypeError(f"{text!r}; allowed: numbers above 0")
    return value


def number_or_zero(text: str) -> float:
    """A finite number, 0 or above."""
    value = _finite(text)
    if not value >= 0:
        raise ArgumentTypeError(f"{text!r}; allowed: numbers from 0")
    return value


def _finite(text: str) -> float:
    """NaN for what is no finite number."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def one_of(allowed: Iterable[str]) -> Callable[[str], str]:
    """One of these words."""
    words = list(allowed)

    def read(text: str) -> str:
        if text not in words:
            raise ArgumentTypeError(f"{text!r}; allowed: {', '.join(words)}")
        return text

    return read


def several(kind: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Values of a kind with commas between them, one or more."""
    return lambda text: [kind(part) for part in text.split(",")]
