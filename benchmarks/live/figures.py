"""One figure of a benchmark from many values."""

from collections.abc import Iterable


def quantile(values: Iterable[float], q: float) -> float:
    """The value below which a share `q` (0 to 1) of them lies, to a tenth."""
    ordered = sorted(values)
    return round(ordered[int(q * (len(ordered) - 1))], 1)
