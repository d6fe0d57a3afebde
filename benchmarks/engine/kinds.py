"""What a commit costs beside a step, by rows of one forward, on the real executor.

Baseline: a forward of as many steps, in the same run; the sizes take turns. Prints one JSON line
last. Run: python benchmarks/engine/kinds.py [--model toybox] [--seconds 8].
"""

import argparse
import json

import torch

from onbeat.models.registry import load_model
from onbeat.server.cli.flags import number
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.measure import Bench, measure
from onbeat.server.engine.pool import KVPool, pages_per_stream
from onbeat.server.engine.settings import EngineSettings

SIZES = (1, 2, 4, 8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="toybox")
    parser.add_argument("--seconds", type=number, default=8.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model(options.model)
    pages = max(SIZES) * pages_per_stream(model.spec)
    settings = EngineSettings(max_rows=max(SIZES))
    bench = Bench(model, KVPool(pages), KVStore(model.spec, pages), settings)
    cases = [(n - commits, commits) for n in SIZES for commits in sorted({0, n // 2, n})]
    with bench.forwards() as run:
        for case in cases:
            run(*case)
        turns = measure(
            range(len(cases)), lambda i: run(*cases[i]), seconds=options.seconds, rounds=3
        )
    low = {case: sorted(turns[i])[len(turns[i]) // 4] for i, case in enumerate(cases)}
    ratios = {
        f"{steps}+{commits}": round(low[steps, commits] / low[steps + commits, 0], 3)
        for steps, commits in cases
    }
    for (steps, commits), seconds in low.items():
        ratio = ratios[f"{steps}+{commits}"]
        print(f"{steps:3} steps {commits:3} commits {1e3 * seconds:7.2f} ms  {ratio:.3f}")
    print(json.dumps({"benchmark": "kinds", "model": options.model, "over_steps": ratios}))


if __name__ == "__main__":
    main()
