"""Requests that Schemathesis makes from the OpenAPI document: no 5xx, no hang. JSON line last.

Usage: python -m benchmarks.jobs.fuzz [--cases 10000] [--seed 1] [--url http://127.0.0.1:8000]
Without an address it starts a server with a synthetic engine, whose state fills up on the way.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fuzzing import Report, fuzz
from tests.server.served import served


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url", help="a running server instead of one with a synthetic engine")
    options = parser.parse_args()
    started = time.monotonic()
    report = _run(options.url, options.cases, options.seed)
    for failure in report.failures:
        print(failure, end="\n\n")
    print(
        json.dumps(
            {
                "benchmark": "fuzz",
                "cases": report.cases,
                "seed": options.seed,
                "operations": len(report.operations),
                "statuses": {str(k): v for k, v in sorted(report.statuses.items())},
                "failures": len(report.failures),
                "slowest_s": round(report.slowest_s, 3),
                "seconds": round(time.monotonic() - started, 1),
            }
        )
    )


def _run(url: str | None, cases: int, seed: int) -> Report:
    if url:
        return fuzz(url, cases=cases, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        with served(FakeEngine(), data_dir=Path(folder)) as address:
            return fuzz(address, cases=cases, seed=seed)


if __name__ == "__main__":
    main()
